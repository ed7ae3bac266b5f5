"""Speech from a folder."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from auricle.errors import DataError, SettingsError
from auricle.speech.folder import load_folder
from auricle.speech.speech_set import to_float
from auricle.speech.split import split_by_speaker

_RECORDED = Path(os.environ.get("AURICLE_SPEECH", Path(__file__).parents[4] / "shared" / "data"))
_needs_recorded = pytest.mark.skipif(
    not (_RECORDED / "gsc").is_dir(), reason=f"no recorded speech in {_RECORDED}: set AURICLE_SPEECH"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four words of five speakers, four takes each; every sample of a clip says which clip it is."""
    every = itertools.product(("cat", "no", "up", "yes"), "abcde", range(4))
    for value, (word, speaker, take) in enumerate(every, start=1):
        path = tmp_path / word / f"{speaker}_nohash_{take}.{'wav' if take % 2 else 'flac'}"
        path.parent.mkdir(exist_ok=True)
        soundfile.write(path, np.full(16_000, value, dtype=np.int16), 16_000)
    return tmp_path


def test_the_clips_of_the_chosen_words_are_read_in_order(root: Path) -> None:
    calls: list[tuple[int, int]] = []
    speech = load_folder(root, "yes,no", progress=lambda done, total: calls.append((done, total)))
    assert speech.labels == ("yes", "no")
    assert speech.audio[:, 0].tolist() == [*range(21, 41), *range(61, 81)]
    assert speech.targets.tolist() == [1] * 20 + [0] * 20
    assert speech.clips_per_speaker().tolist() == [8] * 5
    assert calls == [(done, 40) for done in range(1, 41)]
    assert speech.skipped == ()


def test_a_phrase_is_as_long_as_the_window_and_what_is_longer_counts_as_cut(tmp_path: Path) -> None:
    """A folder's name is the label; of 1.5 s at one level a second holds two thirds of the energy, 1.6 s hold all."""
    for word, samples in (("hey jarvis", 24_000), ("stop", 8_000)):
        for speaker in "abcde":
            for take in range(2):
                path = tmp_path / word / f"{speaker}_nohash_{take}.wav"
                path.parent.mkdir(exist_ok=True)
                soundfile.write(path, np.full(samples, 100 * take + ord(speaker), np.int16), 16_000)
    second = load_folder(tmp_path, "hey jarvis,stop,_silence_")
    longer = load_folder(tmp_path, "hey jarvis,stop,_silence_", clip_samples=25_600)
    assert (second.audio.shape, longer.audio.shape) == ((30, 16_000), (30, 25_600))
    assert (second.cut, longer.cut) == ({"hey jarvis": 10}, {})
    assert np.count_nonzero(longer.audio[0]) == 24_000


def test_what_cannot_be_read_is_left_out_and_named(root: Path) -> None:
    broken = root / "no" / "c_nohash_0.flac"
    broken.write_bytes(b"fLaC" + bytes(200))
    noise = root / "_background_noise_" / "hum.wav"
    noise.parent.mkdir()
    noise.write_bytes(b"")
    speech = load_folder(root, "yes,no")
    assert len(speech) == 39
    assert speech.audio[speech.targets == 1, 0].tolist() == [*range(21, 29), *range(30, 41)]
    assert [str(broken) in speech.skipped[0], str(noise) in speech.skipped[1], len(speech.skipped)] == [True, True, 2]


def test_unknown_comes_from_other_words_and_silence_from_noise(root: Path) -> None:
    noise = root / "_background_noise_" / "hum.wav"
    noise.parent.mkdir()
    soundfile.write(noise, np.full(40_000, 8_192, dtype=np.int16), 16_000)

    speech = load_folder(root, "yes,no,_unknown_,_silence_", seed=3)

    assert speech.clips_per_label() == {"yes": 20, "no": 20, "_unknown_": 20, "_silence_": 20}
    unknown = speech.audio[speech.targets == 2, 0]
    assert all(1 <= value <= 20 or 41 <= value <= 60 for value in unknown.tolist())
    assert len(np.unique(unknown)) == 20
    assert np.abs(to_float(speech.audio[speech.targets == 3])).max() < 0.26
    assert len(speech.noise) == 1
    again = load_folder(root, "yes,no,_unknown_,_silence_", seed=3)
    assert (again.audio == speech.audio).all()
    assert (again.speakers == speech.speakers).all()


def test_unknown_may_have_every_clip_of_another_word_and_says_how_many_it_has(root: Path) -> None:
    labels = "yes,_unknown_"
    mean = load_folder(root, labels)
    every = load_folder(root, labels, every_other=True)
    assert mean.clips_per_label() == {"yes": 20, "_unknown_": 20}
    assert mean.other_clips_left_out == 40
    assert mean.describe_others() == "_unknown_ has 20 of 60 clips of other words"
    assert every.clips_per_label() == {"yes": 20, "_unknown_": 60}
    assert every.audio[every.targets == 1, 0].tolist() == list(range(1, 61))
    assert (every.other_clips_left_out, every.describe_others()) == (0, "")
    assert load_folder(root, "yes,no").describe_others() == ""


def test_what_cannot_be_loaded_is_refused(root: Path) -> None:
    with pytest.raises(SettingsError, match='did you mean "yes"'):
        load_folder(root, "yess,no")
    with pytest.raises(DataError, match="needs 21"):
        load_folder(root, "no,yes", min_word_clips=21)
    with pytest.raises(DataError, match="_unknown_"):
        load_folder(root, "yes,no,up,cat,_unknown_")
    for path in (root / "no").iterdir():
        path.write_bytes(b"")
    with pytest.raises(DataError, match='"no"'):
        load_folder(root, "no,yes")


@pytest.mark.slow
@_needs_recorded
def test_the_recorded_speech_makes_the_fleet_of_the_benchmark() -> None:
    speech = load_folder(_RECORDED / "gsc", "common:100")
    split = split_by_speaker(speech, min_clips=20, unseen=7)
    assert len(speech.labels) == 17
    assert len(speech.noise) == 50
    assert speech.skipped == ()
    assert len(split.devices) == 35
    assert 1_500 < split.training_clips() < 1_700
    assert split.training_clips() + len(split.unseen) == len(speech)
