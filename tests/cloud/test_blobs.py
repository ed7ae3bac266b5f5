"""Content-addressed files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from auricle.errors import StorageError
from auricle_cloud.blobs import Blobs


def test_bytes_are_found_under_their_hash(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")

    names = [blobs.put(b"abc"), blobs.put(b""), blobs.put(b"abc")]

    assert names[0] == hashlib.sha256(b"abc").hexdigest() == names[2]
    assert blobs.get(names[0]) == b"abc"
    assert blobs.get(names[1]) == b""
    assert blobs.path(names[0]) == tmp_path / "blobs" / names[0][:2] / names[0]
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 2


def test_a_missing_or_damaged_blob_is_never_handed_out(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    name = blobs.put(b"abc")
    blobs.path(name).write_bytes(b"abd")

    with pytest.raises(StorageError, match="damaged"):
        blobs.get(name)
    with pytest.raises(StorageError, match="cannot be read"):
        blobs.get("0" * 64)


def test_putting_it_again_mends_a_damaged_blob(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    name = blobs.put(b"abc")
    blobs.path(name).write_bytes(b"ab")

    again = blobs.put(b"abc")

    assert again == name
    assert blobs.get(name) == b"abc"


def test_what_is_there_is_not_written_again(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    name = blobs.put(b"abc")
    before = blobs.path(name).stat()

    blobs.put(b"abc")

    after = blobs.path(name).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_removing_twice_is_harmless(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    name = blobs.put(b"abc")

    blobs.remove(name)
    blobs.remove(name)

    assert not blobs.path(name).exists()


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StorageError, match="cannot be written"):
        Blobs(tmp_path / "file").put(b"abc")
