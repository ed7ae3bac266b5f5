"""Releases: what is refused, what devices see of a change that was cut off, and python-tuf's own client over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import stat
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from unittest.mock import Mock

import aiohttp
import pytest
from aiohttp import test_utils, web
from tests.cloud.api_server import GENEROUS, Server, serving
from tests.cloud.filled_store import Filled
from tests.cloud.release_files import CONTENT, make_bundle, manifest, write_tar
from tuf.api.exceptions import DownloadError, ExpiredMetadataError, RepositoryError
from tuf.ngclient import Updater

from auricle.errors import AuricleError, DataError, PackError, SettingsError, StorageError
from auricle.packs.pack import SHIPPED, load_pack
from auricle.packs.versions import version_key
from auricle.wire.identity import Identity
from auricle_cloud.api.api_settings import ApiSettings, Rates
from auricle_cloud.api.health import metadata_lives
from auricle_cloud.api.problems import problems
from auricle_cloud.api.release_routes import ReleaseRoutes, Transfers
from auricle_cloud.ota import metadata as metadata_module
from auricle_cloud.ota import repository as repository_module
from auricle_cloud.ota.candidate import read_candidate
from auricle_cloud.ota.expiry import LIVES
from auricle_cloud.ota.renewal import Renewal
from auricle_cloud.ota.repository import Repository
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.store import FILE, Store

KEY = Identity(b"k" * 32)
NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)
SHIPPED_PACK = Path(__file__).parents[2] / "core" / "auricle" / "packs" / f"{SHIPPED[0]}.tar.zst"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def repository(tmp_path: Path, keys: Path) -> Repository:
    return Repository.create(tmp_path / "releases", keys)


def bundle(folder: Path, version: str = "1.0.0", **changes: Any) -> Path:
    return make_bundle(folder / f"{version}-{len(list(folder.glob('*.tar')))}.tar", version=version, **changes)


# -- versions


def test_versions_are_ordered_as_people_expect() -> None:
    ordered = ["0.9", "1.0.dev1", "1.0a1", "1.0b2", "1.0rc1", "1.0", "1.0.post1", "1.0.1", "1.2", "1.10", "2"]

    keys = [version_key(text) for text in ordered]
    assert all(a < b for a, b in pairwise(keys))
    assert version_key("1.0") == version_key("1.0.0") == version_key("1.0+local")


@pytest.mark.parametrize("text", ["", "v1", "1.0-1", "1..0", "1.0\n", "9" * 100], ids=range(6))
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="is not a version"):
        version_key(text)


# -- what is to be released


def test_a_bundle_is_read_with_its_place_among_the_targets(tmp_path: Path) -> None:
    found = read_candidate(make_bundle(tmp_path / "b.tar", KEY), KEY.public)

    assert (found.kind, found.board, found.os, found.fleet, found.version) == (
        "bundle",
        "pi5",
        "trixie",
        "home",
        "1.0.0",
    )
    assert found.path == f"bundle/pi5/trixie/{found.identity[:12]}.tar"


def test_a_pack_is_read_and_verified() -> None:
    found = read_candidate(SHIPPED_PACK)

    assert (found.kind, found.identity) == ("pack", load_pack(SHIPPED[0]).identity)
    assert found.path == f"pack/{found.identity[:12]}.tar.zst"
    with pytest.raises(PackError):
        read_candidate(SHIPPED_PACK, KEY.public)


DAMAGE: dict[str, Callable[[dict[str, bytes]], object]] = {
    "a changed file": lambda files: files.update(install=b"#!/bin/su\n"),
    "a file more": lambda files: files.update(more=b""),
    "a file less": lambda files: files.pop("install"),
    "no manifest": lambda files: files.pop("bundle.json"),
    "a manifest that is none": lambda files: files.update({"bundle.json": b"[]"}),
    "another format": lambda files: files.update({"bundle.json": json.dumps(manifest(CONTENT, format=2)).encode()}),
    "a board with a path in it": lambda files: files.update(
        {"bundle.json": json.dumps(manifest(CONTENT, board="../pi5")).encode()}
    ),
    "a version that is none": lambda files: files.update(
        {"bundle.json": json.dumps(manifest(CONTENT, version="new")).encode()}
    ),
    "a manifest too large": lambda files: files.update({"bundle.json": b" " * (5 << 20)}),
}


def _files() -> dict[str, bytes]:
    return {"bundle.json": json.dumps(manifest(CONTENT)).encode(), **CONTENT}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_a_damaged_bundle_is_refused(damage: str, tmp_path: Path) -> None:
    files = _files()
    DAMAGE[damage](files)

    with pytest.raises(DataError):
        read_candidate(write_tar(tmp_path / "b.tar", files))


def test_a_bundle_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    whole = make_bundle(tmp_path / "b.tar").read_bytes()
    (tmp_path / "c.tar").write_bytes(whole[: len(CONTENT) * 512 + 700])

    with pytest.raises(DataError):
        read_candidate(tmp_path / "c.tar")


def test_only_the_key_that_is_asked_for_may_have_signed(tmp_path: Path) -> None:
    other = make_bundle(tmp_path / "other.tar", Identity(b"o" * 32))
    unsigned = make_bundle(tmp_path / "unsigned.tar")

    with pytest.raises(DataError, match="was not signed by"):
        read_candidate(other, KEY.public)
    with pytest.raises(DataError, match="is not signed"):
        read_candidate(unsigned, KEY.public)
    false = {"bundle.sig": json.dumps({"keyid": KEY.public.hex(), "signature": "0" * 128}).encode()}
    with pytest.raises(DataError, match="is not one over its manifest"):
        read_candidate(write_tar(tmp_path / "false.tar", {**_files(), **false}))


# -- the repository


def test_what_is_released_is_listed_and_the_same_again_changes_nothing(
    repository: Repository, keys: Path, tmp_path: Path
) -> None:
    candidate = read_candidate(bundle(tmp_path))
    path = repository.add(candidate, keys)
    before = sorted(file.name for file in (tmp_path / "releases" / "metadata").iterdir())

    assert repository.add(candidate, keys) == path
    assert sorted(file.name for file in (tmp_path / "releases" / "metadata").iterdir()) == before
    (row,) = repository.releases()
    assert (row.path, row.version, row.identity) == (path, "1.0.0", candidate.identity)
    assert row.size == candidate.file.stat().st_size


def test_a_version_that_is_not_higher_is_refused_for_its_board_only(
    repository: Repository, keys: Path, tmp_path: Path
) -> None:
    repository.add(read_candidate(bundle(tmp_path, "1.10.0")), keys)

    for version in ("1.9.0", "1.10"):
        lower = read_candidate(bundle(tmp_path, version, pack="d" * 64))
        with pytest.raises(SettingsError, match=r"1\.10\.0 is released"):
            repository.add(lower, keys)
    repository.add(read_candidate(bundle(tmp_path, "1.9.0", board="pi4")), keys)
    repository.add(lower, keys, force=True)
    assert len(repository.releases()) == 3


def test_a_system_with_a_dot_in_its_name_is_released(repository: Repository, keys: Path, tmp_path: Path) -> None:
    path = repository.add(read_candidate(bundle(tmp_path, os="ubuntu-22.04")), keys)
    assert path.startswith("bundle/pi5/ubuntu-22.04/")
    assert [file.suffix for file in (repository.folder / "targets").rglob("*") if file.is_file()] == [".tar"]


def test_packs_are_numbered(repository: Repository, keys: Path) -> None:
    repository.add(read_candidate(SHIPPED_PACK), keys)

    assert [row.version for row in repository.releases()] == ["1"]


def test_another_repositorys_keys_are_refused_and_nothing_changes(repository: Repository, tmp_path: Path) -> None:
    Repository.create(tmp_path / "b", tmp_path / "others")

    with pytest.raises(StorageError, match="is not the one of the releases"):
        repository.add(read_candidate(bundle(tmp_path)), tmp_path / "others")
    with pytest.raises(StorageError, match="is not the one of the releases"):
        repository.renew(tmp_path / "others")
    with pytest.raises(StorageError, match=r"neither root\.key nor targets\.key"):
        repository.renew(tmp_path)
    assert repository.releases() == []
    assert repository.root_file.name == "1.root.json"


def test_a_second_repository_in_the_same_place_is_refused(repository: Repository, keys: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="would not believe another root"):
        Repository.create(repository.folder, tmp_path / "more")
    with pytest.raises(StorageError, match="releases init"):
        Repository(tmp_path / "nothing")


def test_offline_keys_are_encrypted_by_their_passphrase(
    tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AURICLE_RELEASE_PASSPHRASE", "correct horse")
    repository = Repository.create(tmp_path / "releases", keys)
    assert b"ENCRYPTED" in (keys / "root.key").read_bytes()
    assert (keys / "root.key").stat().st_mode & 0o777 == 0o600
    repository.add(read_candidate(bundle(tmp_path)), keys)
    monkeypatch.setenv("AURICLE_RELEASE_PASSPHRASE", "wrong")
    with pytest.raises(StorageError, match="passphrase"):
        repository.renew(keys)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def test_the_online_roles_are_renewed_at_half_of_their_lives_and_say_when_nobody_does(
    tmp_path: Path, keys: Path
) -> None:
    clock = Clock()
    repository = Repository.create(tmp_path / "releases", keys, clock)
    assert repository.renew_online() == []
    assert repository.near_expiry() == []

    clock.now = NOW + timedelta(hours=13)
    assert repository.renew_online() == ["timestamp"]
    clock.now = NOW + timedelta(days=4)
    assert repository.renew_online() == ["snapshot", "timestamp"]
    expiries = {expiry.role: expiry.expires for expiry in repository.expiries()}
    assert expiries["timestamp"] == clock.now + LIVES["timestamp"]
    assert expiries["snapshot"] == clock.now + LIVES["snapshot"]

    clock.now = NOW + timedelta(days=80)
    said = repository.near_expiry()
    assert [sentence.split()[0] for sentence in said] == ["targets", "snapshot", "timestamp"]
    assert "releases renew" in said[0]
    assert "expired" in said[1]
    assert repository.renew(keys) == ["root", "targets"]
    assert repository.near_expiry() == []


def test_the_coordinator_renews_and_mirrors_and_says_when_metadata_has_expired(
    tmp_path: Path, keys: Path, store: Store
) -> None:
    assert metadata_lives(tmp_path / "releases")() is None
    Renewal(tmp_path, store).look()
    ago = datetime.now(timezone.utc) - timedelta(hours=30)
    repository = Repository.create(tmp_path / "releases", keys, lambda: ago)
    repository.add(read_candidate(bundle(tmp_path)), keys)
    assert "timestamp expired on" in (metadata_lives(tmp_path / "releases")() or "")

    Renewal(tmp_path, store).look()

    assert metadata_lives(tmp_path / "releases")() is None
    assert [row.version for row in store.releases.all()] == ["1.0.0"]


# -- python-tuf's client


class Device:
    """What a board does to update."""

    def __init__(self, folder: Path, root: bytes, url: str) -> None:
        self.folder, self.root, self.url = folder, root, url
        folder.mkdir(exist_ok=True)

    def updater(self) -> Updater:
        found = Updater(
            str(self.folder / "metadata"),
            f"{self.url}/v1/updates/metadata/",
            str(self.folder),
            f"{self.url}/v1/updates/targets/",
            bootstrap=self.root,
        )
        found.refresh()
        return found

    def custom(self, path: str) -> dict[str, Any] | None:
        info = self.updater().get_targetinfo(path)
        return None if info is None else dict(info.custom or {})

    def fetch(self, path: str) -> bytes:
        updater = self.updater()
        info = updater.get_targetinfo(path)
        assert info is not None
        return Path(updater.download_target(info)).read_bytes()


@pytest.fixture
def api(tmp_path: Path, migrated_file: Path, repository: Repository) -> Iterator[Server]:
    store = Store(shutil.copy(migrated_file, tmp_path / FILE))
    with serving(Filled(tmp_path, store, Blobs(tmp_path / "blobs"), load_pack("digits"))) as server:
        yield server
    store.close()


@pytest.fixture
def device(tmp_path: Path, api: Server, repository: Repository) -> Device:
    return Device(tmp_path / "device", repository.root_file.read_bytes(), api.url)


def test_a_device_fetches_what_was_released_over_http(
    device: Device, repository: Repository, keys: Path, tmp_path: Path
) -> None:
    candidate = read_candidate(bundle(tmp_path))
    path = repository.add(candidate, keys)

    assert device.custom(path) == {
        "kind": "bundle",
        "board": "pi5",
        "os": "trixie",
        "fleet": "home",
        "version": "1.0.0",
        "identity": candidate.identity,
    }
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
    with pytest.raises(StorageError, match=f"The {role} key is not the one of the releases"):
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
    for cut in ("_publish_root", "_publish_targets", "put_in_use"):
        owner = repository_module if cut == "put_in_use" else Repository
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, cut, Mock(side_effect=PowerCutError))
            if role == "root" and cut == "_publish_targets":
                continue
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


class PowerCutError(Exception):
    pass


def test_a_release_that_was_cut_off_at_any_write_is_not_seen_and_can_be_made_again(
    device: Device, repository: Repository, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, first = metadata_module.write_durably, repository.add(read_candidate(bundle(tmp_path)), keys)
    second = read_candidate(bundle(tmp_path, "1.1.0"))
    for writes in range(3):
        left = [writes]

        def cut(*given: Any, left: list[int] = left, **named: Any) -> None:
            if left[0] == 0:
                raise PowerCutError
            left[0] -= 1
            write(*given, **named)

        monkeypatch.setattr(metadata_module, "write_durably", cut)
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


ESCAPES = [
    "metadata/online.key",
    "metadata/..%2fonline.key",
    "metadata/%2e%2e%2fonline.key",
    "metadata/2.root.json",
    "metadata/lock",
    "metadata/root.json%00",
    "targets/..%2fonline.key",
    "targets/%2e%2e/online.key",
    "targets/bundle/..%2f..%2f..%2fonline.key",
    "targets/%2fetc%2fpasswd",
    "targets/bundle",
    "targets/.hidden.tar",
    "targets/link.tar",
    "targets/a//b.tar",
    "targets/" + "a" * 300,
]


def test_nothing_else_is_served(api: Server, repository: Repository) -> None:
    (repository.folder / "targets" / "bundle").mkdir()
    (repository.folder / "targets" / ".hidden.tar").write_bytes(b"half")
    (repository.folder / "targets" / "link.tar").symlink_to(repository.folder / "online.key")

    answers = {path: api.ask("GET", f"/v1/updates/{path}", role=None)[0] for path in ESCAPES}
    assert answers == dict.fromkeys(ESCAPES, 404)


def test_who_asks_too_often_is_slowed_down_and_without_releases_there_is_nothing(
    tmp_path: Path, migrated_file: Path
) -> None:
    store = Store(shutil.copy(migrated_file, tmp_path / FILE))
    rates = Rates(address=(0.001, 3.0), token=GENEROUS.token, failures=GENEROUS.failures)
    filled = Filled(tmp_path, store, Blobs(tmp_path / "blobs"), load_pack("digits"))
    with serving(filled, ApiSettings(port=0, rates=rates)) as server:
        asked = [server.ask("GET", "/v1/updates/metadata/timestamp.json", role=None)[0] for _ in range(5)]
    store.close()

    assert asked == [404, 404, 404, 429, 429]


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
