"""Several folders read as one, and many clips kept in a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from auricle.errors import DataError, SettingsError
from auricle.speech.folder import load_folder, load_folders
from auricle.speech.row_store import Spill


def _clip(root: Path, word: str, name: str, value: int) -> None:
    path = root / word / f"{name}.wav"
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.full(16_000, value, np.int16), 16_000)


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    """The first has yes and no of ann and bob, the second no of bob and go of cat, the third other words."""
    clips = {
        "first": ("no/ann", "no/bob", "yes/ann", "_background_noise_/hum"),
        "second": ("go/cat", "no/bob", "_background_noise_/hum"),
        "third": ("computer/dan", "jarvis/bob"),
    }
    every = [(root, *clip.split("/")) for root, names in clips.items() for clip in names]
    for value, (root, word, who) in enumerate(every, start=1):
        _clip(tmp_path / root, word, who if word.startswith("_") else f"{who}_nohash_0", value)
    return [tmp_path / root for root in clips]


def test_several_folders_are_read_as_one(roots: list[Path]) -> None:
    speech = load_folders(roots, "yes,no,go,_unknown_", min_word_clips=1, every_other=True)
    assert speech.audio[:, 0].tolist() == [1, 2, 3, 5, 6, 8, 9]
    assert [speech.labels[target] for target in speech.targets] == [
        *("no", "no", "yes", "go", "no", "_unknown_", "_unknown_")
    ]
    assert speech.speaker_names == ("ann", "bob", "cat", "dan")
    assert speech.clips_per_speaker().tolist() == [2, 3, 1, 1]
    assert [round(float(noise[0]) * 32_768) for noise in speech.noise] == [4, 7]


def test_a_word_is_counted_over_all_folders(roots: list[Path]) -> None:
    with pytest.raises(DataError, match='The word "no" has 2 clips'):
        load_folder(roots[0], "no,yes", min_word_clips=3)
    assert load_folders(roots, "no,yes,go,_unknown_", min_word_clips=1).clips_per_label()["no"] == 3


def test_a_recording_that_two_folders_hold_counts_once(roots: list[Path]) -> None:
    """Bob's "no" of the first folder, value 2, lies in the second one, too, under the name of a speaker there."""
    _clip(roots[1], "no", "cat_nohash_7", 2)
    _clip(roots[0], "no", "ann_nohash_1", 1)
    speech = load_folders(roots, "yes,no,go", min_word_clips=1)
    assert speech.audio[:, 0].tolist() == [1, 1, 2, 3, 5, 6]
    assert speech.clips_per_speaker().tolist() == [3, 2, 1]


def test_speakers_of_a_folder_that_is_left_out_are_in_none_of_the_others(roots: list[Path]) -> None:
    speech = load_folders(roots[:2], "yes,no,go", min_word_clips=1, leave_out=[roots[2]])
    assert speech.speaker_names == ("ann", "cat")
    assert speech.audio[:, 0].tolist() == [1, 3, 5]
    with pytest.raises(DataError, match=r"All speakers of .*first are in .*first, which is left out"):
        load_folders(roots[:1], "yes,no", leave_out=[roots[0]])


def test_a_folder_of_noise_alone_is_enough_beside_others(roots: list[Path], tmp_path: Path) -> None:
    noise = tmp_path / "noise"
    _clip(noise, "_background_noise_", "wind", 100)
    speech = load_folders([*roots, noise], "yes,no,_silence_", min_word_clips=1)
    assert len(speech.noise) == 3
    with pytest.raises(DataError, match="There is no audio in"):
        load_folder(noise, "yes,no")
    with pytest.raises(DataError, match="hold noise and no word"):
        _clip(tmp_path / "more", "_background_noise_", "rain", 5)
        load_folders([noise, tmp_path / "more"])


def test_a_folder_named_twice_is_refused(roots: list[Path], tmp_path: Path) -> None:
    (tmp_path / "same").symlink_to(roots[0])
    with pytest.raises(SettingsError, match="same is named twice"):
        load_folders([roots[0], tmp_path / "same"], "yes,no")
    with pytest.raises(SettingsError, match="No speech folder"):
        load_folders([])
    with pytest.raises(DataError, match="nowhere"):
        load_folders([*roots, tmp_path / "nowhere"])


def test_many_clips_lie_in_a_file_and_are_the_same(roots: list[Path], tmp_path: Path) -> None:
    words = "yes,no,go,_unknown_,_silence_"
    (roots[1] / "no" / "bob_nohash_0.wav").write_bytes(b"RIFF")
    disk = tmp_path / "disk"

    inside = load_folders(roots, words, min_word_clips=1)
    spilled = load_folders(roots, words, min_word_clips=1, spill=Spill(disk, above=2 * 32_000))

    assert isinstance(spilled.audio, np.memmap)
    assert not isinstance(inside.audio, np.memmap)
    assert np.array_equal(inside.audio, spilled.audio)
    assert np.array_equal(inside.targets, spilled.targets)
    assert len(spilled.skipped) == 1
    assert list(disk.iterdir()) == []
    with pytest.raises(ValueError, match="read-only"):
        spilled.audio[0] = 1
