"""The download, against a real server on this machine that cuts, refuses and lies."""

from __future__ import annotations

import fcntl
import os
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.core.speech.archive_server import ArchiveServer, archive_of, serving

from auricle.errors import DataError, StorageError
from auricle.speech.download import SPEECH_COMMANDS, Archive, cache_folder, fetch


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ArchiveServer]:
    monkeypatch.setenv("no_proxy", "*")
    with serving(archive_of(_FILES)) as server:
        yield server


_NOISE = np.random.default_rng(0).bytes(100_000)
_FILES = {"./": None, "./yes/": None, "./yes/a_nohash_0.wav": _NOISE, "./README.md": b"hello"}


@pytest.mark.usefixtures("unpacked")
def test_an_archive_is_downloaded_unpacked_and_then_kept(server: ArchiveServer, tmp_path: Path) -> None:
    loaded: list[tuple[int, int]] = []
    unpacked: list[tuple[int, int]] = []
    steps = {"progress": lambda *step: loaded.append(step), "unpacking": lambda *step: unpacked.append(step)}

    root = fetch(server.archive(), tmp_path, **steps)

    assert root == tmp_path / "speech"
    assert (root / "yes" / "a_nohash_0.wav").read_bytes() == _NOISE
    assert (root / "README.md").read_bytes() == b"hello"
    assert loaded[-1] == unpacked[-1] == (len(server.body), len(server.body))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["speech", "speech.lock"]
    fetch(server.archive(), tmp_path)
    assert len(server.asked) == 1


def test_a_download_that_was_cut_goes_on_where_it_stopped(server: ArchiveServer, tmp_path: Path) -> None:
    server.cuts = [30_000, 20_000]
    root = fetch(server.archive(), tmp_path)
    assert (root / "yes" / "a_nohash_0.wav").read_bytes() == _NOISE
    assert server.asked == [None, "bytes=30000-", "bytes=50000-"]


def test_a_later_call_goes_on_with_what_an_earlier_one_kept(server: ArchiveServer, tmp_path: Path) -> None:
    server.cuts = [30_000, 0, 0, 0]
    with pytest.raises(DataError, match="30000 bytes"):
        fetch(server.archive(), tmp_path)
    fetch(server.archive(), tmp_path)
    assert server.asked == [None, *["bytes=30000-"] * 4]


def test_a_server_without_ranges_starts_again(server: ArchiveServer, tmp_path: Path) -> None:
    server.ranges = False
    server.cuts = [30_000]
    root = fetch(server.archive(), tmp_path)
    assert (root / "yes" / "a_nohash_0.wav").read_bytes() == _NOISE


def test_a_server_that_always_cuts_is_given_up(server: ArchiveServer, tmp_path: Path) -> None:
    server.ranges = False
    server.cuts = [30_000, 40_000, *[100, 35_000] * 10]
    with pytest.raises(DataError, match="the connection was cut"):
        fetch(server.archive(), tmp_path)


@pytest.mark.parametrize("size", [None, 1_000, 1_000_000])
def test_another_file_than_expected_is_not_unpacked(server: ArchiveServer, tmp_path: Path, size: int | None) -> None:
    with pytest.raises(DataError):
        fetch(server.archive(sha256="0" * 64, size=size), tmp_path)
    assert not (tmp_path / "speech").exists()
    assert len(bytes.fromhex(SPEECH_COMMANDS.sha256)) == 32
    assert size is not None or [path.name for path in tmp_path.iterdir()] == ["speech.lock"]  # it was removed


@pytest.fixture(params=[False, True], ids=["filter", "by hand"])
def unpacked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Python's own filter, and without it."""
    if request.param:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)


OUTSIDE = {
    "beside": archive_of({"yes/a.wav": b"1", "../outside.wav": b"2"}),
    "two up": archive_of({"yes/../../outside.wav": b"2"}),
    "absolute": archive_of({"/tmp/auricle-outside.wav": b"2"}),
    "link to the root": archive_of({}, link="/etc"),
    "link up": archive_of({}, link="../.."),
}


@pytest.mark.parametrize("body", OUTSIDE.values(), ids=OUTSIDE)
@pytest.mark.usefixtures("unpacked")
def test_a_member_that_would_leave_the_folder_is_refused(server: ArchiveServer, tmp_path: Path, body: bytes) -> None:
    server.body = body
    with pytest.raises(DataError, match="leave its folder"):
        fetch(server.archive(), tmp_path / "cache")
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    assert not list(tmp_path.rglob("*.wav"))
    assert not Path("/tmp/auricle-outside.wav").exists()


def test_something_that_is_no_tar_is_refused(server: ArchiveServer, tmp_path: Path) -> None:
    server.body = b"no archive" * 100
    with pytest.raises(DataError, match="cannot be unpacked"):
        fetch(server.archive(), tmp_path)


def test_no_server_and_no_such_host_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        for host in (f"127.0.0.1:{held.getsockname()[1]}", "auricle.invalid"):
            with pytest.raises(DataError, match="network"):
                fetch(Archive("speech", f"http://{host}/speech.tar.gz", 10, "0" * 64), tmp_path)


def test_two_downloads_at_once_are_refused(server: ArchiveServer, tmp_path: Path) -> None:
    with (tmp_path / "speech.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StorageError, match="Another process"):
            fetch(server.archive(), tmp_path)


def test_a_cache_that_cannot_be_written_is_one_sentence(server: ArchiveServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="XDG_CACHE_HOME"):
        fetch(server.archive(), tmp_path / "file" / "cache")


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="no /dev/full")
def test_a_full_disk_is_one_sentence(server: ArchiveServer, tmp_path: Path) -> None:
    (tmp_path / "speech.tar.gz.part").symlink_to("/dev/full")
    with pytest.raises(StorageError, match="free some space"):
        fetch(server.archive(), tmp_path)


def test_the_cache_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/me")
    assert cache_folder() == Path("/var/cache/me/auricle")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/auricle")
