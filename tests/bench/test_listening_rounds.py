"""The listening bench's other side: takes are split, people do not meet twice, and labels come through the device."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from bench.listening_rounds import Days, Device, owner_of, train_together
from bench.listening_scene import RATE, Scene, Spoken, Surroundings, surroundings

from auricle.pack import load_pack
from auricle.speech.audio import ClipFile
from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle.start import read_start
from auricle_edge.runtimes import choose_runtime


def _clips(word: str, count: int) -> list[ClipFile]:
    return [ClipFile(Path(f"{word}/someone_nohash_{i}.flac"), word, "someone") for i in range(count)]


def test_takes_are_enrolled_said_on_a_day_or_kept_to_judge_by() -> None:
    """Of five takes one is enrolled, two are said and two judge; a word with one take only judges."""
    owner = owner_of("someone", [*_clips("yes", 5), *_clips("no", 1)], 3)
    assert [clip.path.name[-6] for clip in owner.enrolled] == ["0"]
    assert [[clip.path.name[-6] for clip in day] for day in owner.days] == [["1"], ["2"], []]
    assert [(clip.word, clip.path.name[-6]) for clip in owner.judged] == [("no", "0"), ("yes", "3"), ("yes", "4")]


def test_no_speaker_reader_or_noise_is_both_lived_with_and_judged_by(tmp_path: Path) -> None:
    """Each goes to one side whole."""
    soundfile = pytest.importorskip("soundfile")
    sound = np.linspace(-0.1, 0.1, RATE, dtype=np.float32)
    names = [
        *(f"gsc/dog/{speaker}_nohash_{i}.flac" for speaker in ("a1", "b2", "c3") for i in range(2)),
        *(f"stream/speech/{reader}-7-000{i}.flac" for reader in (10, 20, 30, 40) for i in range(2)),
        *(f"gsc/_background_noise_/{i}.flac" for i in range(3)),
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(tmp_path / name, sound, RATE)
    lived, judging = surroundings(tmp_path, ("yes",))
    assert {p.name[:2] for p in lived.words} == {"a1", "c3"} and {p.name[:2] for p in judging.words} == {"b2"}
    assert {p.name[:2] for p in lived.speech} == {"10", "30"} and {p.name[:2] for p in judging.speech} == {"20", "40"}
    assert (len(lived.noise), len(judging.noise)) == (2, 1)


@pytest.mark.slow
def test_devices_learn_from_their_own_labels_and_nothing_else(tmp_path: Path) -> None:
    """Two owners enrol and say two words; what trains is what was enrolled, answered and heard around them."""
    soundfile = pytest.importorskip("soundfile")
    speech = synthesise(SynthesisSettings(words="yes,stop", speakers=2, takes=4))
    clips = []
    for i in range(len(speech.targets)):
        word, speaker = speech.labels[speech.targets[i]], str(speech.speakers[i])
        if not word.startswith("_"):
            path = tmp_path / "speech" / word / f"{speaker}_nohash_{i}.flac"
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, speech.audio[i], RATE)
            clips.append(ClipFile(path, word, speaker))
    names = sorted({clip.speaker for clip in clips})
    owners = [owner_of(name, [clip for clip in clips if clip.speaker == name], 2) for name in names]
    noise = np.random.default_rng(0).standard_normal(2 * RATE).astype(np.float32)
    around = Surroundings([owners[0].judged[0].path], [owners[1].judged[0].path], [noise])
    said: list[str] = []
    devices = asyncio.run(
        train_together(
            load_pack("gsc12"),
            owners,
            Days(around, (10, 20), 0.1, 2, 2),
            0.8,
            tmp_path / "state",
            said.append,
            streams=False,
        )
    )
    for owner, device in zip(owners, devices, strict=True):
        kept = device.store.list()
        own = [clip for clip in kept if clip.record.source in ("enrolled", "confirmed", "missed")]
        assert 2 <= len(own) <= len(owner.enrolled) + sum(map(len, owner.days))
        assert {clip.record.word for clip in own} == {"yes", "stop"}
        (architecture, file), *_ = device.models(tmp_path)
        trained = read_start(Path(file).read_bytes(), device.pack.table(architecture), file)
        assert np.isfinite(trained).all()
    assert any(line.startswith("round 2: 2 of 2 counted") for line in said)


def test_the_owner_says_what_was_missed_and_denies_what_was_not_said(tmp_path: Path) -> None:
    """Half a second of a loud hum stands for a word that no model hears."""
    pack = load_pack("gsc12")
    device = Device("device-0", tmp_path / "device-0", pack, choose_runtime("auto", pack).runtime, 0.99, 0)
    sound = np.random.default_rng(0).normal(0, 8, 4 * RATE)
    sound[RATE : RATE * 3 // 2] += 6000 * np.sin(np.arange(RATE // 2) * 0.2)
    device.live(Scene(sound.astype(np.int16), words=(Spoken("stop", RATE, RATE * 3 // 2),)))
    kept = [clip.record for clip in device.store.list() if clip.record.source == "missed"]
    assert [record.word for record in kept] == ["stop"]
    assert device.answers["missed"] == 1
