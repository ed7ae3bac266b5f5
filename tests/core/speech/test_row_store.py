"""Rows in memory and in a file are the same; a disk without room is found out first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from auricle.errors import StorageError
from auricle.packs.pack import Task
from auricle.speech.features import LogMel
from auricle.speech.row_store import RowStore, Spill
from auricle.speech.speech_set import energy_rows


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
    with pytest.raises(StorageError, match=r"speech takes 3200000\.0 GB in .*are free there: free some space"):
        RowStore(10**11, (16_000,), np.int16, Spill(tmp_path))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match=r"cannot be written: it is a file, and a folder is needed"):
        RowStore(10**6, (16_000,), np.int16, Spill(tmp_path / "file"))


def test_energies_of_many_clips_are_those_of_each(tmp_path: Path) -> None:
    frontend = LogMel(Task(("yes", "no")))
    audio = np.random.default_rng(0).integers(-9_000, 9_000, (300, 16_000)).astype(np.int16)
    clips = np.arange(299, -1, -1)
    calls: list[tuple[int, int]] = []

    inside = energy_rows(frontend, audio, clips, progress=lambda done, total: calls.append((done, total)))
    spilled = energy_rows(frontend, audio, clips, spill=Spill(tmp_path, above=0))

    assert np.array_equal(
        inside, np.concatenate([frontend.energies(audio[clips[:256]]), frontend.energies(audio[clips[256:]])])
    )
    assert np.array_equal(inside, spilled)
    assert calls == [(256, 300), (300, 300)]
