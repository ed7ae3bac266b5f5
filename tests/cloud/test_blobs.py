"""Content-addressed files: in a folder, and behind the URLs of object stores."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cloud.object_store import BUCKET
from tests.cloud.object_store import object_store as object_store

from auricle.errors import SettingsError, StorageError
from auricle_cloud.storage.blobs import ABANDONED_SECONDS, Blobs, BlobStore, open_blobs
from auricle_cloud.storage.remote_blobs import RemoteBlobs


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(params=["folder", "memory", "s3"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlobStore]:
    if request.param == "folder":
        yield open_blobs(tmp_path / "blobs")
    elif request.param == "s3":
        request.getfixturevalue("object_store")
        yield open_blobs(f"s3://{BUCKET}/{tmp_path.name}")
    else:
        fsspec = pytest.importorskip("fsspec")
        yield open_blobs(f"memory://{tmp_path.name}")
        fsspec.filesystem("memory").store.clear()


def damage(blobs: BlobStore, name: str, data: bytes) -> None:
    """Write other bytes under a blob's name."""
    if isinstance(blobs, RemoteBlobs):
        blobs._files.pipe_file(blobs._path(name), data)
    else:
        assert isinstance(blobs, Blobs)
        blobs.path(name).write_bytes(data)


# -- wherever they lie


@pytest.mark.slow
def test_bytes_are_found_under_their_hash(blobs: BlobStore) -> None:
    assert list(blobs.names()) == []
    names = [blobs.put(b"abc"), blobs.put(b""), blobs.put(b"abc")]
    assert names == [sha256(b"abc"), sha256(b""), sha256(b"abc")]
    assert (blobs.get(names[0]), blobs.get(names[1])) == (b"abc", b"")
    assert list(blobs.names()) == sorted({*names})


@pytest.mark.slow
def test_several_are_kept_at_once(blobs: BlobStore) -> None:
    data = [bytes([i]) * 10 for i in range(40)] + [b"", bytes([3]) * 10]
    names = blobs.put_all(data)
    assert names == [sha256(one) for one in data]
    assert [blobs.get(name) for name in names] == data
    assert list(blobs.names()) == sorted({*names})
    assert blobs.put_all([]) == []


@pytest.mark.parametrize("content", [b"abd", b"ab", b"", b"abcd"])
def test_a_damaged_blob_is_never_handed_out_and_putting_it_again_mends_it(blobs: BlobStore, content: bytes) -> None:
    name = blobs.put(b"abc")
    damage(blobs, name, content)
    with pytest.raises(StorageError, match="damaged"):
        blobs.get(name)
    with pytest.raises(StorageError, match=r"read|failed"):
        blobs.get("0" * 64)
    assert blobs.put(b"abc") == name
    assert blobs.get(name) == b"abc"


def test_removing_twice_is_harmless(blobs: BlobStore) -> None:
    name, other = blobs.put_all([b"abc", b"other"])
    blobs.remove(name)
    blobs.remove(name)
    assert list(blobs.names()) == [other]
    with pytest.raises(StorageError):
        blobs.get(name)


def test_what_is_no_blob_is_not_listed(blobs: BlobStore) -> None:
    name = blobs.put(b"abc")
    if isinstance(blobs, RemoteBlobs):
        blobs._files.pipe_file(f"{blobs._root}/notes.txt", b"x")
        blobs._files.pipe_file(f"{blobs._root}/{name[:2]}/.{name}.tmp", b"x")
    else:
        assert isinstance(blobs, Blobs)
        (blobs._folder / "notes.txt").write_bytes(b"x")
        blobs.path(name).with_name(f".{name}.tmp").write_bytes(b"x")

    assert list(blobs.names()) == [name]


# -- a folder


def test_a_blob_lies_below_the_first_two_digits_of_its_name_and_is_not_written_again(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    name = blobs.put(b"abc")
    before = blobs.path(name).stat()
    assert blobs.put(b"abc") == name
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [tmp_path / "blobs" / name[:2] / name]
    after = blobs.path(name).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        Blobs(tmp_path / "file").put(b"abc")


def test_all_are_durable_when_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is synchronised before it gets its name, then every folder that got one, and the folder of those."""
    monkeypatch.setattr("auricle_cloud.storage.blobs.SMALL_BYTES", 0)
    blobs = Blobs(tmp_path / "blobs")
    there = blobs.put(b"was there")
    synced: list[tuple[Path, bool]] = []
    real = os.fsync

    def spy(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        synced.append((path, path.is_dir()))
        real(handle)

    monkeypatch.setattr(os, "fsync", spy)
    names = blobs.put_all([b"one", b"two", b"was there"])

    paths = {blobs.path(name) for name in names}
    folders, files = ([path for path, folder in synced if folder is each] for each in (True, False))
    assert len(files) == 2
    assert {path.name.split(".")[1] for path in files} == set(names) - {there}
    assert {*folders} == {path.parent for path in paths} | {tmp_path / "blobs"}
    last_file = max(i for i, (_, folder) in enumerate(synced) if not folder)
    assert {path for path, folder in synced[last_file:] if folder} == {*folders}


def test_a_full_disk_is_named_and_leaves_no_half_of_a_file(small_disk: Path) -> None:
    blobs = Blobs(small_disk / "blobs")
    kept = blobs.put(b"k" * 1000)
    with pytest.raises(StorageError, match="full"):
        blobs.put_all([bytes([i]) * 30_000 for i in range(20)])

    for name in blobs.names():
        blobs.get(name)
    assert list(small_disk.rglob(".*")) == []
    assert blobs.get(kept) == b"k" * 1000
    for name in [name for name in blobs.names() if name != kept]:
        blobs.remove(name)
    assert blobs.get(blobs.put(b"again" * 1000)) == b"again" * 1000


def test_what_killed_writers_left_is_removed_and_what_is_being_written_is_not(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    name = blobs.put(b"abc")
    old, new = (blobs.path(name).with_name(f".{name}.{part}.tmp") for part in ("0123abcd", "4567cdef"))
    for path in (old, new, tmp_path / ".else.tmp"):
        path.write_bytes(b"ab")
        os.utime(path, (0, time.time() - ABANDONED_SECONDS - 60))
    new.touch()

    open_blobs(tmp_path)

    assert (old.exists(), new.exists(), (tmp_path / ".else.tmp").exists()) == (False, True, True)
    assert blobs.get(name) == b"abc"


def test_a_writer_whose_beginning_was_removed_has_written_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = Blobs(tmp_path)
    real = os.fsync

    def slowly(handle: int) -> None:
        real(handle)
        beside = Path(f"/proc/self/fd/{handle}").readlink()
        if beside.suffix == ".tmp":
            os.utime(beside, (0, 0))
            blobs.sweep()

    monkeypatch.setattr(os, "fsync", slowly)

    with pytest.raises(StorageError, match="cannot be written"):
        blobs.put(b"abc")
    assert list(blobs.names()) == []


# -- behind a URL


def test_a_file_url_is_a_folder(tmp_path: Path) -> None:
    blobs = open_blobs((tmp_path / "a folder").as_uri())
    assert isinstance(blobs, Blobs)
    assert blobs.path(blobs.put(b"abc")).is_relative_to(tmp_path / "a folder")


@pytest.mark.parametrize("url", ["nosuch://bucket/x", "gopher://x"])
def test_a_url_of_an_unknown_kind_is_refused_and_without_fsspec_any(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(SettingsError, match=url):
        open_blobs(url)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(SettingsError, match="pip install"):
        open_blobs("memory://x")


def test_two_prefixes_of_one_store_do_not_mix(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    one, other = (open_blobs(f"memory://{tmp_path.name}/{name}/") for name in ("one", "other"))
    name = one.put(b"abc")
    assert (list(one.names()), list(other.names())) == ([name], [])
    fsspec.filesystem("memory").store.clear()
