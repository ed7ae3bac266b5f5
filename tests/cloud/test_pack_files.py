"""Small blobs that share a file: found, shared with other processes, mended, and gone when nobody wants them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from auricle.errors import StorageError
from auricle.wire.tensors import digest
from auricle_cloud.storage import pack_files as pack_files_module
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.pack_files import FEWEST, SMALL_BYTES

BODIES = [bytes([i]) * (100 + i) for i in range(FEWEST + 2)]
NAMES = [digest(body) for body in BODIES]


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_many_small_blobs_are_one_file_that_every_process_reads(tmp_path: Path) -> None:
    reader = Blobs(tmp_path)
    assert list(reader.names()) == []

    names = Blobs(tmp_path).put_all(BODIES)

    assert names == NAMES
    assert len(files(tmp_path)) == 1
    assert [reader.get(name) for name in NAMES] == BODIES
    assert list(reader.names()) == sorted(NAMES)


def test_few_or_large_blobs_are_files_of_their_own(tmp_path: Path) -> None:
    large = [bytes([i]) * (SMALL_BYTES + 1) for i in range(2)]

    Blobs(tmp_path).put_all(BODIES[: FEWEST - 1])
    Blobs(tmp_path).put_all(large)

    assert {path.name for path in files(tmp_path)} == {*NAMES[: FEWEST - 1], *map(digest, large)}


def test_a_parcel_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_files_module, "LARGEST_BYTES", 300)
    blobs = Blobs(tmp_path)

    blobs.put_all([*BODIES, b"x" * 1000])

    assert len(files(tmp_path)) == len(BODIES) / 2 + 1
    assert [Blobs(tmp_path).get(name) for name in NAMES] == BODIES


def test_a_file_goes_with_the_last_of_its_blobs(tmp_path: Path) -> None:
    blobs, reader = Blobs(tmp_path), Blobs(tmp_path)
    blobs.put_all(BODIES)
    assert len(list(reader.names())) == len(BODIES)

    for name in NAMES[1:]:
        blobs.remove(name)
    kept = list(blobs.names()), len(files(tmp_path))
    with pytest.raises(StorageError, match="cannot be read"):
        blobs.get(NAMES[1])
    blobs.remove(NAMES[0])

    assert kept == ([NAMES[0]], 1)
    assert (list(blobs.names()), files(tmp_path)) == ([], [])
    with pytest.raises(StorageError, match="cannot be read"):
        reader.get(NAMES[0])
    assert list(reader.names()) == [], "it forgets what another process removed"


def test_what_is_put_again_outlives_the_file_it_was_in(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    blobs.put_all(BODIES)
    blobs.remove(NAMES[0])
    blobs.put(BODIES[0])

    for name in NAMES[1:]:
        blobs.remove(name)

    assert blobs.get(NAMES[0]) == Blobs(tmp_path).get(NAMES[0]) == BODIES[0]


def test_what_is_there_is_not_written_again_and_new_ones_are(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    blobs.put_all(BODIES)
    before = files(tmp_path)[0].stat()

    blobs.put_all([*BODIES, b"new"])

    (parcel,) = (path for path in files(tmp_path) if path.suffix == ".parcel")
    assert (parcel.stat().st_ino, parcel.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert blobs.get(digest(b"new")) == b"new"


def test_a_damaged_blob_is_not_handed_out_and_is_mended_by_putting_it_again(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    blobs.put_all(BODIES)
    (parcel,) = files(tmp_path)
    parcel.write_bytes(parcel.read_bytes()[:-1])

    with pytest.raises(StorageError, match=f"{NAMES[-1]} is damaged"):
        blobs.get(NAMES[-1])
    blobs.put_all([BODIES[-1], BODIES[0]])

    assert [Blobs(tmp_path).get(name) for name in NAMES] == BODIES


@pytest.mark.parametrize(
    "content",
    [b"", b"AURP", b"NONE\1\0\0\0", b"AURP\xff\xff\xff\xff", b"AURP\2\0\0\0" + b"x" * 50],
    ids=["empty", "cut", "other", "count", "entries"],
)
def test_a_file_that_is_no_parcel_holds_nothing(tmp_path: Path, content: bytes) -> None:
    blobs = Blobs(tmp_path)
    blobs.put_all(BODIES)
    (tmp_path / "up" / "other.parcel").write_bytes(content)

    assert list(Blobs(tmp_path).names()) == sorted(NAMES)


def test_file_and_folders_are_synchronised_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    real = os.fsync

    def spy(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink())
        real(handle)

    monkeypatch.setattr(os, "fsync", spy)
    blobs = Blobs(tmp_path / "blobs")
    blobs.put_all(BODIES)

    assert synced[0].parent == tmp_path / "blobs" / "up"
    assert sorted(synced[1:]) == [tmp_path / "blobs", tmp_path / "blobs" / "up"]
    synced.clear()
    blobs.put_all([body * 2 for body in BODIES])
    assert [path.name for path in synced[1:]] == ["up"], "its own name is durable already"
