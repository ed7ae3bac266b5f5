"""Sets of clips of one phrase: what is where in their scenes, and what `edge evaluate` says of one."""

from __future__ import annotations

import json
import math
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
import soundfile
from tests.edge.evaluate_sounds import spoken_sources

from auricle.errors import DataError
from auricle.hearing.scenes import Scene
from auricle.packs.pack import load_pack, pack_bytes
from auricle.process.cli import main
from auricle.speech.audio import SAMPLE_RATE
from auricle.speech.sound_faults import Finding
from auricle_edge.evaluate.phrase_set import AT_ONCE, LONGEST_PHRASE, LONGEST_SCENE, phrase_set

PAUSE = 3 * SAMPLE_RATE // 2


def _clips(folder: Path, *seconds: float, level: float = 0.25) -> None:
    folder.mkdir(parents=True)
    for number, length in enumerate(seconds):
        soundfile.write(folder / f"clip_{number:06}.wav", np.full(round(length * SAMPLE_RATE), level), SAMPLE_RATE)


def _scenes(folder: Path, phrase: str = "x", findings: list[Finding] | None = None) -> list[Scene]:
    return [scene for read in phrase_set(folder, phrase, [] if findings is None else findings) for scene in read()]


def test_a_positive_clip_is_the_phrase_and_the_others_are_sound_without_it(tmp_path: Path) -> None:
    """Clips of 1 and 2 s between pauses of 1.5 s; three without the phrase, one after the other, of two kinds."""
    _clips(tmp_path / "positive_test", 1, 2)
    _clips(tmp_path / "negative_test", 1, 0.5)
    _clips(tmp_path / "background_test", 3)

    positive, near, background = _scenes(tmp_path, "hey jarvis")

    assert len(positive.samples) == 3 * PAUSE + 3 * SAMPLE_RATE
    first, second = positive.words
    assert (first.word, first.start, first.end) == ("hey jarvis", PAUSE, PAUSE + SAMPLE_RATE - 1)
    assert (second.start, second.end) == (2 * PAUSE + SAMPLE_RATE, 2 * PAUSE + 3 * SAMPLE_RATE - 1)
    assert (first.kind, first.speaker) == ("clips", "clip_000000") and math.isnan(first.snr)
    assert positive.samples[PAUSE] == 8192 and not positive.samples[:PAUSE].any() and positive.stretches == ()

    assert [(part.kind, part.start, part.end) for part in near.stretches] == [
        ("near phrases", 0, 16_000),
        ("near phrases", 16_000, 24_000),
    ]
    assert [part.kind for part in background.stretches] == ["background"]
    assert [Path(piece.source).name for piece in near.pieces] == ["clip_000000.wav", "clip_000001.wav"]
    assert near.words == background.words == ()


def test_many_clips_are_several_scenes(tmp_path: Path) -> None:
    _clips(tmp_path / "positive_test", *([0.1] * (AT_ONCE + 1)))
    _clips(tmp_path / "negative_test", 0.1)
    assert [len(scene.words) for scene in _scenes(tmp_path)] == [AT_ONCE, 1, 0]


def test_long_clips_are_several_scenes_of_ten_minutes_at_most(tmp_path: Path) -> None:
    """Clips of 250, 300 and 700 s: the first two together, and the last, which is longer, alone."""
    _clips(tmp_path / "positive_test", 1)
    _clips(tmp_path / "negative_test", 250, 300, 700, level=0.01)
    assert [scene.hours * 3600 for scene in _scenes(tmp_path)[1:]] == [550, 700]
    assert LONGEST_SCENE == 600


def test_a_positive_clip_of_more_than_a_minute_is_no_phrase(tmp_path: Path) -> None:
    _clips(tmp_path / "positive_test", LONGEST_PHRASE, LONGEST_PHRASE + 1)
    _clips(tmp_path / "negative_test", LONGEST_PHRASE + 1)
    findings: list[Finding] = []
    positive, near = _scenes(tmp_path, "x", findings)
    assert [word.speaker for word in positive.words] == ["clip_000000"] and near.stretches
    assert [(each.reason, each.is_used) for each in findings] == [("too long", False)]


@pytest.mark.parametrize("unusable", ["positive_test", "negative_test"])
def test_a_set_without_a_clip_that_can_be_used_is_refused(unusable: str, tmp_path: Path) -> None:
    for name in ("positive_test", "negative_test"):
        _clips(tmp_path / name, 1, 1)
    for file in (tmp_path / unusable).iterdir():
        file.write_text("this is a text")
    with pytest.raises(DataError, match=rf"{unusable}.* could be used; all 2"):
        phrase_set(tmp_path, "x", [])


def test_background_alone_is_enough_where_no_near_phrase_can_be_used(tmp_path: Path) -> None:
    for name in ("positive_test", "negative_test", "background_test"):
        _clips(tmp_path / name, 1)
    (tmp_path / "negative_test" / "clip_000000.wav").write_text("this is a text")
    findings: list[Finding] = []
    positive, background = _scenes(tmp_path, "x", findings)
    assert len(positive.words) == len(findings) == 1 and background.stretches[0].kind == "background"


def test_a_file_that_cannot_be_used_is_counted_and_left_out(tmp_path: Path) -> None:
    _clips(tmp_path / "positive_test", 1)
    _clips(tmp_path / "negative_test", 1)
    (tmp_path / "positive_test" / "notes.wav").write_text("this is a text")
    findings: list[Finding] = []
    positive, _ = _scenes(tmp_path, "x", findings)
    assert len(positive.words) == len(findings) == 1


@pytest.mark.parametrize("missing", ["positive_test", "negative_test"])
def test_both_kinds_of_clips_are_needed(missing: str, tmp_path: Path) -> None:
    _clips(tmp_path / ({"positive_test", "negative_test"} - {missing}).pop(), 1)
    with pytest.raises(DataError, match=missing):
        phrase_set(tmp_path, "x", [])


def test_a_set_is_judged_by_its_clips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Six takes of "stop" and as many of "bed" and "cat": so many words, and so much time without one."""
    sources = spoken_sources()
    for name, takes in (("positive_test", sources.keywords), ("negative_test", sources.words)):
        (tmp_path / name).mkdir()
        wanted = [take for take in takes if take.word != "yes"]
        for number, take in enumerate(wanted):
            soundfile.write(tmp_path / name / f"{number}.wav", take.sound, SAMPLE_RATE)

    command = ["edge", "evaluate", "--pack", "gsc12", "--phrase-set", str(tmp_path), "--phrase", "stop", "--json"]
    assert main(command) == 0

    (report,) = json.loads(capsys.readouterr().out)["reports"]
    assert report["words"] == 6
    assert report["hours"] == {"near phrases": pytest.approx(12 / 3600)}
    assert [row["what"] for row in report["by_word"]] == ["stop"]
    assert report["settings"][0]["hits"]["clips"]["of"] == 6


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "--phrase with one of computer, jarvis"),
        (["--phrase", "jarviss"], 'did you mean "jarvis"'),
    ],
)
def test_the_phrase_is_one_of_the_packs(
    given: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["edge", "evaluate", "--pack", "home", "--phrase-set", str(tmp_path), *given]) == 2
    assert says in capsys.readouterr().err


def test_the_phrase_may_be_written_with_marks_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With u and two dots as two letters it is the pack's word, so that what is missing is its clips."""
    pack = tmp_path / "words.tar.zst"
    pack.write_bytes(pack_bytes(load_pack("gsc12").with_labels(["für", "tür"], "words")))
    command = ["edge", "evaluate", "--pack", str(pack), "--phrase-set", str(tmp_path)]
    assert main([*command, "--phrase", normalize("NFD", "für")]) == 2
    assert "positive_test" in capsys.readouterr().err
