"""Television and music around the keywords: scenes of both kinds, synthetic or of a folder, and figures by level."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tests.edge.evaluate_sounds import spoken_sources

from auricle.errors import DataError
from auricle.hearing.scenes import Spoken
from auricle.hearing.sounds import fingerprint
from auricle.process.cli import main
from auricle.speech.audio import SAMPLE_RATE
from auricle_edge.evaluate.clips import Share
from auricle_edge.evaluate.levels import AROUND, MUSIC, TELEVISION, shares_around
from auricle_edge.evaluate.plan import Plan, compose_scene, plan_scenes
from auricle_edge.evaluate.sources import Sources


@pytest.fixture(scope="module")
def spoken() -> Sources:
    return spoken_sources()


def test_they_come_last_so_that_the_other_scenes_stay_as_they_are(spoken: Sources) -> None:
    before = plan_scenes(spoken, (), Plan(minutes=0.5))
    after = plan_scenes(spoken, (), Plan(minutes=0.5, synthetic=AROUND))
    assert len(after) == len(before) + 4
    for number in range(len(before)):
        one, other = (compose_scene(plan, number, seed=1).samples for plan in (before, after))
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", AROUND)
def test_synthetic_scenes_have_every_keyword_and_half_a_minute_without(spoken: Sources, kind: str) -> None:
    plan = plan_scenes(spoken, (), Plan(minutes=0.5, synthetic=(kind,)))[-2:]
    said, alone = (compose_scene(plan, number, seed=0) for number in range(2))
    assert len(said.words) == len(spoken.keywords) and not said.stretches
    assert {word.kind for word in said.words} == {kind}
    assert all(0 <= word.snr <= 20 for word in said.words) and np.ptp([word.snr for word in said.words]) > 8
    assert [(part.kind, part.end) for part in alone.stretches] == [(kind, 30 * SAMPLE_RATE)]
    assert [piece.source.rpartition(" ")[0] for piece in alone.pieces] == [f"synthetic {kind}"]
    again = compose_scene(plan, 1, seed=0)
    np.testing.assert_array_equal(alone.samples, again.samples)
    assert not np.array_equal(alone.samples, compose_scene(plan, 1, seed=1).samples)


def test_false_accepts_in_recordings_are_traced_to_their_files(spoken: Sources) -> None:
    song = np.sin(np.arange(3 * SAMPLE_RATE) / 9).astype(np.float32)
    sources = replace(spoken, music=(song,))
    plan = plan_scenes(sources, (), Plan(minutes=1.0))
    alone = compose_scene(plan, len(plan) - 1, seed=0)
    assert {piece.source for piece in alone.pieces} == {fingerprint(song)} and len(alone.pieces) == 2
    assert len(alone.samples) == 60 * SAMPLE_RATE


def test_a_synthetic_television_needs_somebody_who_speaks(spoken: Sources) -> None:
    with pytest.raises(DataError, match="speaks by --speech"):
        plan_scenes(replace(spoken, speech=()), (), Plan(synthetic=(TELEVISION,)))


def test_words_are_counted_by_kind_and_level() -> None:
    words = [
        (Spoken("yes", 0, 1, "a", kind, snr), right)
        for kind, snr, right in (
            (MUSIC, 0.0, True),
            (MUSIC, 4.99, False),
            (MUSIC, 15.0, True),
            (TELEVISION, 5.0, True),
            ("noise", 5.0, True),
        )
    ]
    assert list(shares_around(words).items()) == [
        ("television, 5 to 10 dB", Share(1, 1)),
        ("music, under 5 dB", Share(1, 2)),
        ("music, from 15 dB", Share(1, 1)),
    ]


def write_folders(folder: Path, spoken: Sources) -> list[str]:
    """Folders of the voices, and the options that name them."""
    for number, take in enumerate(spoken.keywords):
        path = folder / "words" / take.word / f"{take.speaker}_nohash_{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, take.sound, SAMPLE_RATE)
    for kind, sounds in (("noise", spoken.noise), ("speech", spoken.speech)):
        (folder / kind).mkdir()
        for number, sound in enumerate(sounds):
            soundfile.write(folder / kind / f"{number}-{kind}.wav", sound, SAMPLE_RATE)
    return [
        f"--{kind}={folder / name}" for kind, name in (("keywords", "words"), ("noise", "noise"), ("speech", "speech"))
    ]


@pytest.mark.slow
def test_the_command_states_both_kinds_by_level(
    spoken: Sources, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [*write_folders(tmp_path, spoken), "--television=synthetic", f"--music={tmp_path / 'noise'}"]
    command = ["edge", "evaluate", "--pack=gsc12", "--minutes=0.5", *options]
    assert main([*command, f"--csv={tmp_path / 'figures.csv'}"]) == 0
    text = capsys.readouterr().out
    assert "television, under 5 dB" in text and "music, from 15 dB" in text
    with (tmp_path / "figures.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["table"] == "hits by level, default"]
    counted = sum(int(row["of"]) for row in rows if row["what"].startswith("music"))
    assert counted == len(spoken.keywords)
    assert main([*command, "--json"]) == 0
    setting = json.loads(capsys.readouterr().out)["reports"][0]["settings"][0]
    assert set(setting["false_accepts"]) >= {"television", "music"} and setting["around"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--music=nowhere"], "--music nowhere is not a folder: name one with recordings, or synthetic."),
        (["--television=synthetic", "--television=."], "--television is synthetic or folders, not both."),
    ],
)
def test_what_is_neither_a_folder_nor_synthetic_is_refused(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["edge", "evaluate", "--speech", str(tmp_path), *options]) != 0
    assert said in capsys.readouterr().err
