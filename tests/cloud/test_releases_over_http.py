"""Releases over HTTP: what python-tuf's own client and anybody else sees of them, also of a change that was cut off."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import stat
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Literal
from unittest.mock import Mock

import aiohttp
import pytest
from aiohttp import test_utils, web
from tests.cloud.api_server import GENEROUS, Server
from tests.cloud.release_files import Device, PowerCutError, bundle, cut_after, serving_releases
from tuf.api.exceptions import DownloadError, ExpiredMetadataError, RepositoryError

from auricle.errors import AuricleError, StorageError
from auricle_cloud.api.api_settings import ApiSettings, Rates
from auricle_cloud.api.problems import problems
from auricle_cloud.api.release_routes import ReleaseRoutes, Transfers
from auricle_cloud.ota import metadata as metadata_module
from auricle_cloud.ota import rotation as rotation_module
from auricle_cloud.ota.candidate import read_candidate
from auricle_cloud.ota.repository import Repository

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)


@pytest.fixture
def api(tmp_path: Path, migrated_file: Path, repository: Repository) -> Iterator[Server]:
    with serving_releases(tmp_path, migrated_file) as server:
        yield server


@pytest.fixture
def device(tmp_path: Path, api: Server, repository: Repository) -> Device:
    return Device(tmp_path / "device", repository.root_file.read_bytes(), api.url)


def test_a_device_fetches_what_was_released_over_http(
    device: Device, repository: Repository, keys: Path, tmp_path: Path
) -> None:
    candidate = read_candidate(bundle(tmp_path))
    path = repository.add(candidate, keys)

    said = {"kind": "bundle", "board": "pi5", "os": "trixie", "fleet": "home", "version": "1.0.0"}
    assert device.custom(path) == {**said, "identity": candidate.identity}
    assert device.fetch(path) == candidate.file.read_bytes()

    repository.remove(path, keys)
    assert device.custom(path) is None


def test_a_device_follows_new_roots_and_a_new_online_key(
    device: Device, repository: Repository, keys: Path, tmp_path: Path
) -> None:
    device.updater()
    repository.renew(keys)
    repository.replace_online_key(keys)
    path = repository.add(read_candidate(bundle(tmp_path)), keys)

    assert device.fetch(path)
    assert repository.root_file.name == "3.root.json"


@pytest.mark.parametrize("role", ["root", "targets"])
def test_a_device_follows_a_replaced_key_and_the_old_one_signs_nothing_any_more(
    device: Device, repository: Repository, keys: Path, tmp_path: Path, role: Literal["root", "targets"]
) -> None:
    device.updater()
    repository.replace_key(role, keys)
    path = repository.add(read_candidate(bundle(tmp_path)), keys)
    repository.renew(keys)

    assert device.fetch(path)
    assert stat.S_IMODE((keys / f"{role}.key").stat().st_mode) == 0o600
    assert sorted(each.name for each in keys.iterdir()) == sorted(["root.key", "targets.key", f"{role}.old.key"])
    (keys / f"{role}.old.key").replace(keys / f"{role}.key")
    with pytest.raises(StorageError, match=f"{role} key"):
        repository.renew(keys)


@pytest.mark.parametrize("role", ["root", "targets"])
def test_a_key_that_was_being_replaced_when_the_power_went_is_replaced_the_next_time(
    device: Device, repository: Repository, keys: Path, tmp_path: Path, role: Literal["root", "targets"]
) -> None:
    elsewhere = tmp_path / "root-keys"
    elsewhere.mkdir()
    if role == "targets":
        (keys / "root.key").replace(elsewhere / "root.key")
    device.updater()
    for cut in ("_publish_root", *(["_publish_targets"] if role == "targets" else []), "put_in_use"):
        owner = rotation_module if cut == "put_in_use" else Repository
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, cut, Mock(side_effect=PowerCutError))
            with pytest.raises(PowerCutError):
                repository.replace_key(role, keys, elsewhere if role == "targets" else None)
    repository.replace_key(role, keys, elsewhere if role == "targets" else None)

    assert repository.root_file.name == "2.root.json"
    assert device.fetch(repository.add(read_candidate(bundle(tmp_path)), keys))


def test_a_device_refuses_what_was_changed_put_back_or_has_expired(
    device: Device, repository: Repository, keys: Path, tmp_path: Path
) -> None:
    timestamp = repository.folder / "metadata" / "timestamp.json"
    old = timestamp.read_bytes()
    path = repository.add(read_candidate(bundle(tmp_path)), keys)
    (file,) = (repository.folder / "targets").rglob("*.tar")
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b"x")
    with pytest.raises((RepositoryError, DownloadError)):
        device.fetch(path)
    file.write_bytes(content)
    device.fetch(path)

    timestamp.write_bytes(old)
    with pytest.raises(RepositoryError):
        device.fetch(path)

    long_ago = Repository.create(tmp_path / "old", tmp_path / "old-keys", lambda: NOW - timedelta(days=700))
    shutil.rmtree(repository.folder / "metadata")
    shutil.copytree(long_ago.folder / "metadata", repository.folder / "metadata")
    stranger = Device(tmp_path / "second", long_ago.root_file.read_bytes(), device.url)
    with pytest.raises(ExpiredMetadataError):
        stranger.updater()


def test_a_release_that_was_cut_off_at_any_write_is_not_seen_and_can_be_made_again(
    device: Device, repository: Repository, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, first = metadata_module.write_durably, repository.add(read_candidate(bundle(tmp_path)), keys)
    second = read_candidate(bundle(tmp_path, "1.1.0"))
    for writes in range(3):
        monkeypatch.setattr(metadata_module, "write_durably", cut_after(writes, write))
        with pytest.raises(PowerCutError):
            repository.add(second, keys)
        monkeypatch.undo()
        assert device.custom(second.path) is None
        assert device.fetch(first)

    repository.add(second, keys)
    assert device.fetch(second.path) == second.file.read_bytes()


# -- over HTTP


def test_parts_of_a_file_are_answered_without_a_token(
    api: Server, repository: Repository, keys: Path, tmp_path: Path
) -> None:
    repository.add(read_candidate(bundle(tmp_path)), keys)
    (file,) = (repository.folder / "targets").rglob("*.tar")
    path = f"/v1/updates/targets/{file.relative_to(repository.folder / 'targets').as_posix()}"

    whole = api.ask("GET", path, role=None)
    part = api.ask("GET", path, role=None, Range="bytes=100-199")
    rest = api.ask("GET", path, role=None, Range="bytes=100-")
    beyond = api.ask("GET", path, role=None, Range="bytes=99999999-")
    head = api.ask("HEAD", path, role=None)

    content = file.read_bytes()
    assert (whole[0], whole[1]) == (200, content)
    assert whole[2].getheader("Cache-Control", "").endswith("immutable")
    assert (part[0], part[1]) == (206, content[100:200])
    assert (rest[0], rest[1]) == (206, content[100:])
    assert beyond[0] == 416
    assert (head[0], head[2].getheader("Content-Length")) == (200, str(len(content)))
    status, root, answer = api.ask("GET", "/v1/updates/metadata/1.root.json", role=None)
    assert (status, root["signed"]["_type"], answer.getheader("Cache-Control")) == (200, "root", "no-cache")


BESIDE = ("online.key", "..%2fonline.key", "%2e%2e%2fonline.key", "2.root.json", "lock", "root.json%00")
BELOW = ("..%2fonline.key", "%2e%2e/online.key", "bundle/..%2f..%2f..%2fonline.key", "%2fetc%2fpasswd", "bundle")
ESCAPES = ["pending/targets.json", *(f"metadata/{name}" for name in (*BESIDE, "..%2fpending%2ftargets.json"))]
ESCAPES += [f"targets/{name}" for name in (*BELOW, ".hidden.tar", "link.tar", "a//b.tar", "a" * 300)]


def test_nothing_else_is_served(api: Server, repository: Repository) -> None:
    (repository.folder / "targets" / "bundle").mkdir()
    (repository.folder / "targets" / ".hidden.tar").write_bytes(b"half")
    (repository.folder / "targets" / "link.tar").symlink_to(repository.folder / "online.key")

    answers = {path: api.ask("GET", f"/v1/updates/{path}", role=None)[0] for path in ESCAPES}
    assert answers == dict.fromkeys(ESCAPES, 404)


def test_who_asks_too_often_is_slowed_down_and_without_releases_there_is_nothing(
    tmp_path: Path, migrated_file: Path
) -> None:
    rates = Rates(address=(0.001, 3.0), token=GENEROUS.token, failures=GENEROUS.failures)
    with serving_releases(tmp_path, migrated_file, ApiSettings(port=0, rates=rates)) as server:
        asked = [server.ask("GET", "/v1/updates/metadata/timestamp.json", role=None)[0] for _ in range(5)]

    assert asked == [404, 404, 404, 429, 429]


@pytest.mark.slow
def test_who_does_not_read_what_comes_holds_no_place_for_ever(repository: Repository) -> None:
    large = repository.folder / "targets" / "large.tar"
    with large.open("wb") as file:
        file.truncate(64 << 20)

    async def in_thread(call: Callable[..., Any], *arguments: Any) -> Any:
        return call(*arguments)

    async def run() -> list[int]:
        app, transfers = web.Application(middlewares=[problems]), Transfers(most=3, of_address=2, longest=3.0)
        ReleaseRoutes(repository.folder, in_thread, transfers).add_to(app)
        async with test_utils.TestServer(app) as server, aiohttp.ClientSession() as client:
            url = server.make_url("/v1/updates/targets/large.tar")
            stalled = [await client.get(url) for _ in range(2)]
            async with client.get(url) as third:
                said = [third.status]
            for answer in stalled:
                with contextlib.suppress(aiohttp.ClientError):
                    await asyncio.wait_for(read_slowly(answer, transfers), 20)
            async with client.get(url, headers={"Range": "bytes=0-9"}) as later:
                await later.read()
                return [*said, later.status]

    assert asyncio.run(run()) == [503, 206]


async def read_slowly(answer: aiohttp.ClientResponse, transfers: Transfers) -> None:
    """Take nothing until all were broken off, then what is left."""
    while transfers._running:
        await asyncio.sleep(0.01)
    await answer.read()


def test_an_unreadable_repository_says_so_and_raises_nothing_else(repository: Repository) -> None:
    (repository.folder / "metadata" / "timestamp.json").write_bytes(b"{")

    with pytest.raises(AuricleError, match="cannot be read"):
        repository.releases()
