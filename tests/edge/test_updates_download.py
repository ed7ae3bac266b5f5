"""Targets on their way to the disk: interrupted, replaced, too long, too slow, without room."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.edge.update_site import Answer, Repository, Server, cut, endless, refresh, serving, whole

from auricle.errors import StorageError
from auricle_edge.ota.download import download
from auricle_edge.ota.records import UpdateLaterError, UpdateRefusedError
from auricle_edge.ota.signed_targets import SignedTarget
from auricle_edge.ota.update_server import Patience, UpdateServer

PATH, CONTENT = "pack/abc.tar.zst", bytes(range(256)) * 2000
CUSTOM = {"kind": "pack", "identity": "1" * 64}


@pytest.fixture
def server() -> Iterator[Server]:
    repository = Repository()
    repository.add(PATH, CONTENT, CUSTOM)
    with serving(repository) as running:
        yield running


@pytest.fixture
def target(tmp_path: Path, server: Server) -> SignedTarget:
    return refresh(tmp_path / "tuf", server, server.repository.root).find(PATH)


def place(server: Server) -> str:
    return next(path for path in server.repository.files if path.startswith("targets/"))


def fetch(target: SignedTarget, server: Server, folder: Path, patience: Patience | None = None) -> bytes:
    return download(target, UpdateServer(server.url, patience=patience), folder).read_bytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "download").mkdir()
    return tmp_path / "download"


def test_a_target_comes_whole_and_is_not_fetched_twice(tmp_path: Path, server: Server, target: SignedTarget) -> None:
    for asked in ([(place(server), None)], []):
        server.asked.clear()
        assert fetch(target, server, tmp_path / "made") == CONTENT
        assert server.asked == asked


def test_an_interrupted_one_goes_on_where_it_broke_off(folder: Path, server: Server, target: SignedTarget) -> None:
    path, half = place(server), len(CONTENT) // 2

    def once(request: object) -> None:
        del server.instead[path]
        cut(CONTENT, half)(request)  # type: ignore[arg-type]

    server.instead[path] = once
    assert fetch(target, server, folder) == CONTENT
    assert server.asked[-2:] == [(path, None), (path, f"bytes={half}-")]


def test_one_that_breaks_off_every_time_is_kept_for_later(folder: Path, server: Server, target: SignedTarget) -> None:
    path = place(server)
    server.instead[path] = cut(CONTENT, 0)
    with pytest.raises(UpdateLaterError, match="off"):
        fetch(target, server, folder)
    server.instead.clear()
    (folder / f"{target.sha256}.part").write_bytes(CONTENT[:1000])
    assert fetch(target, server, folder) == CONTENT
    assert server.asked[-1] == (path, "bytes=1000-")


@pytest.mark.parametrize("beginning", [b"z" * 1000, CONTENT + b"too long"], ids=["other", "long"])
def test_another_beginning_is_thrown_away(beginning: bytes, folder: Path, server: Server, target: SignedTarget) -> None:
    (folder / f"{target.sha256}.part").write_bytes(beginning)
    assert fetch(target, server, folder) == CONTENT


def test_a_server_without_ranges_begins_anew_and_what_others_left_goes(
    folder: Path, server: Server, target: SignedTarget
) -> None:
    (folder / "other.part").write_bytes(b"x")
    (folder / f"{target.sha256}.part").write_bytes(CONTENT[:1000])
    server.instead[place(server)] = whole(CONTENT)
    assert fetch(target, server, folder) == CONTENT
    assert [path.name for path in folder.iterdir()] == [target.sha256]


@pytest.mark.parametrize(
    ("instead", "says"),
    [(whole(CONTENT[:-1] + b"?"), "signed"), (whole(CONTENT + b"?"), "more than"), (endless(), "more than")],
    ids=["changed", "longer", "endless"],
)
def test_anything_else_is_refused(
    instead: Answer, says: str, folder: Path, server: Server, target: SignedTarget
) -> None:
    server.instead[place(server)] = instead
    with pytest.raises(UpdateRefusedError, match=says):
        fetch(target, server, folder)
    assert not [path for path in folder.iterdir() if path.stat().st_size]


def test_a_slow_drip_is_given_up_and_what_came_is_kept(folder: Path, server: Server, target: SignedTarget) -> None:
    server.instead[place(server)] = endless(b"\0", 0.01)
    with pytest.raises(UpdateLaterError, match="bytes a second"):
        fetch(target, server, folder, Patience(window=0.1))
    assert (folder / f"{target.sha256}.part").stat().st_size > 0


def test_without_room_nothing_is_fetched(folder: Path, server: Server) -> None:
    huge = shutil.disk_usage(folder).free + 1
    target = SignedTarget(PATH, f"{server.url}/x", huge, "0" * 64, None)  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="needs"):
        fetch(target, server, folder)
    assert server.asked == []
