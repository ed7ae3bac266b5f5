"""Speech in memory, and rows in a file: a disk without room is found out first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from auricle.errors import DataError, StorageError
from auricle.packs.pack import Task
from auricle.speech.features import LogMel
from auricle.speech.row_store import RowStore, Spill
from auricle.speech.sound_faults import Finding
from auricle.speech.speech_set import build_speech_set, energy_rows, silence_clips, to_float, to_int16


def test_sixteen_bits_survive_the_way_to_float_and_back() -> None:
    every = np.arange(-32_768, 32_768).astype(np.int16)
    assert (to_int16(to_float(every)) == every).all()
    assert to_int16(np.array([-2, 1, 2], dtype=np.float32)).tolist() == [-32_768, 32_767, 32_767]


def test_labels_and_speakers_are_numbered() -> None:
    audio = np.zeros((3, 16_000), dtype=np.int16)
    speech = build_speech_set(("yes", "no"), audio, ["no", "yes", "no"], ["b", "b", "a"])
    assert len(speech) == 3
    assert speech.targets.tolist() == [1, 0, 1]
    assert speech.speaker_names == ("a", "b")
    assert speech.speakers.tolist() == [1, 1, 0]
    assert speech.clips_per_speaker().tolist() == [1, 2]
    assert speech.clips_per_label() == {"yes": 1, "no": 2}
    with pytest.raises(ValueError, match="read-only"):
        speech.audio[0] = 1


def test_a_label_without_a_clip_is_named() -> None:
    with pytest.raises(DataError, match=r'"no" .*x\.wav is bad'):
        build_speech_set(
            ("yes", "no"), np.zeros((1, 16_000), np.int16), ["yes"], ["a"], findings=[Finding("bad", "x.wav is bad.")]
        )


def test_shapes_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match="audio must be"):
        build_speech_set(("yes",), np.zeros(8_000, dtype=np.int16), ["yes"], ["a"])
    with pytest.raises(ValueError, match="as many targets"):
        build_speech_set(("yes",), np.zeros((2, 16_000), dtype=np.int16), ["yes"], ["a"])


@pytest.mark.parametrize("noise", [(), (np.full(20_000, 0.5, dtype=np.float32),), (np.ones(10, dtype=np.float32),)])
def test_silence_is_quiet_and_never_nothing(noise: tuple[np.ndarray, ...]) -> None:
    clips = silence_clips(noise, 5, np.random.default_rng(0))
    assert clips.shape == (5, 16_000)
    assert clips.any(axis=1).all()
    assert np.abs(to_float(clips)).max() <= 0.51
    assert silence_clips(noise, 2, np.random.default_rng(0), 25_600).shape == (2, 25_600)


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        (16_000, '1 of 2 clips of "yes" are cut to 1 s, the pack\'s window: build one with a longer --window'),
        (64_000, '1 of 2 clips of "yes" are cut to 4 s'),
    ],
)
def test_clips_that_are_cut_are_told_with_what_holds_more(samples: int, said: str) -> None:
    audio = np.zeros((3, samples), np.int16)
    assert build_speech_set(("yes", "no"), audio, ["yes", "yes", "no"], ["a"] * 3).describe_cut() == ""
    speech = build_speech_set(("yes", "no"), audio, ["yes", "yes", "no"], ["a"] * 3, cut={"yes": 1})
    assert speech.describe_cut() == said


@pytest.mark.parametrize("above", [0, 23, 24])
def test_rows_come_back_as_they_were_put(tmp_path: Path, above: int) -> None:
    """Three rows of 2 by 2 numbers of 2 bytes: 24 bytes."""
    rows = RowStore(3, (2, 2), np.int16, Spill(tmp_path, above))
    first, second = np.arange(8, dtype=np.int16).reshape(2, 2, 2), np.full((1, 2, 2), -5, np.int16)
    rows.put(first[:, :, ::-1])
    rows.put(second)
    found = rows.finish()
    assert np.array_equal(found, np.concatenate((first[:, :, ::-1], second)))
    assert isinstance(found, np.memmap) is (above < 24)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("above", [0, 1000])
def test_fewer_rows_than_were_foreseen_are_as_many_as_were_put(tmp_path: Path, above: int) -> None:
    rows = RowStore(5, (3,), np.float32, Spill(tmp_path, above))
    rows.put(np.ones((2, 3), np.float32))
    assert rows.finish().shape == (2, 3)
    assert RowStore(5, (3,), np.float32, Spill(tmp_path, above)).finish().shape == (0, 3)


def test_rows_of_another_shape_or_type_are_refused() -> None:
    rows = RowStore(5, (3,), np.float32)
    with pytest.raises(ValueError, match="rows must be"):
        rows.put(np.ones((2, 4), np.float32))
    with pytest.raises(ValueError, match="float32, not"):
        rows.put(np.ones((2, 3)))  # type: ignore[arg-type]


def test_a_disk_without_room_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"3200000\.0 GB"):
        RowStore(10**11, (16_000,), np.int16, Spill(tmp_path))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="it is a file"):
        RowStore(10**6, (16_000,), np.int16, Spill(tmp_path / "file"))


@pytest.mark.slow
def test_energies_of_many_clips_are_those_of_each(tmp_path: Path) -> None:
    frontend = LogMel(Task(("yes", "no")))
    audio = np.random.default_rng(0).integers(-9_000, 9_000, (300, 16_000)).astype(np.int16)
    clips = np.arange(299, -1, -1)
    calls: list[tuple[int, int]] = []
    inside = energy_rows(frontend, audio.__getitem__, clips, progress=lambda done, total: calls.append((done, total)))
    spilled = energy_rows(frontend, audio.__getitem__, clips, spill=Spill(tmp_path, above=0))
    parts = [frontend.energies(audio[chosen]) for chosen in (clips[:256], clips[256:])]
    assert np.array_equal(inside, np.concatenate(parts)) and np.array_equal(inside, spilled)
    assert calls == [(256, 300), (300, 300)]
