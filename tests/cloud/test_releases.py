"""Releases: what is refused, what is listed, and who renews what they are signed with."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path

import pytest
from tests.cloud.release_files import CONTENT, bundle, make_bundle, manifest, write_tar
from tuf.api.metadata import Targets

from auricle.errors import DataError, PackError, SettingsError, StorageError
from auricle.packs.pack import load_pack
from auricle.packs.shipped import SHIPPED
from auricle.wire.identity import Identity
from auricle.wire.kinds import version_key
from auricle_cloud.api.health import metadata_lives
from auricle_cloud.ota.candidate import read_candidate
from auricle_cloud.ota.keys import LIVES, Expiry
from auricle_cloud.ota.metadata import read_metadata
from auricle_cloud.ota.renewal import Renewal
from auricle_cloud.ota.repository import Repository
from auricle_cloud.storage.release_folder import RESTORED
from auricle_cloud.storage.store import Store

KEY = Identity(b"k" * 32)
NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)
SHIPPED_PACK = Path(__file__).parents[2] / "core" / "auricle" / "packs" / f"{SHIPPED[0]}.tar.zst"


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

    about = (found.kind, found.board, found.os, found.fleet, found.version)
    assert about == ("bundle", "pi5", "trixie", "home", "1.0.0")
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
    "another format": lambda files: files.update(_manifest(format=2)),
    "a board with a path in it": lambda files: files.update(_manifest(board="../pi5")),
    "a version that is none": lambda files: files.update(_manifest(version="new")),
    "a manifest too large": lambda files: files.update({"bundle.json": b" " * (5 << 20)}),
}


def _manifest(**changes: object) -> dict[str, bytes]:
    return {"bundle.json": json.dumps(manifest(CONTENT, **changes)).encode()}


def _files() -> dict[str, bytes]:
    return {**_manifest(), **CONTENT}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_a_damaged_bundle_is_refused(damage: str, tmp_path: Path) -> None:
    files = _files()
    DAMAGE[damage](files)

    with pytest.raises(DataError):
        read_candidate(write_tar(tmp_path / "b.tar", files))


def test_a_manifest_may_be_as_large_as_the_limit_and_no_larger(tmp_path: Path) -> None:
    files = _files()
    files["bundle.json"] = files["bundle.json"].ljust(4 << 20)

    assert read_candidate(write_tar(tmp_path / "b.tar", files)).version == "1.0.0"
    files["bundle.json"] += b" "
    with pytest.raises(DataError, match="more than 4194304"):
        read_candidate(write_tar(tmp_path / "c.tar", files))


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
    repository.add(read_candidate(SHIPPED_PACK), keys)
    assert {row.kind: row.version for row in repository.releases()} == {"bundle": "1.0.0", "pack": "1"}
    dotted = repository.add(read_candidate(bundle(tmp_path, os="ubuntu-22.04")), keys)
    assert dotted.startswith("bundle/pi5/ubuntu-22.04/")
    assert {file.suffix for file in (repository.folder / "targets").rglob("*") if file.is_file()} == {".tar", ".zst"}


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


def test_another_repositorys_keys_are_refused_and_nothing_changes(repository: Repository, tmp_path: Path) -> None:
    Repository.create(tmp_path / "b", tmp_path / "others")

    with pytest.raises(StorageError, match="not the one"):
        repository.add(read_candidate(bundle(tmp_path)), tmp_path / "others")
    with pytest.raises(StorageError, match="not the one"):
        repository.renew(tmp_path / "others")
    with pytest.raises(StorageError, match=r"neither root\.key nor targets\.key"):
        repository.renew(tmp_path)
    assert repository.releases() == []
    assert repository.root_file.name == "1.root.json"


def test_a_repository_is_made_where_another_was_cut_off(keys: Path, tmp_path: Path) -> None:
    folder = tmp_path / "releases"
    (folder / "targets").mkdir(parents=True)
    (folder / "online.key").write_bytes(b"half a key")

    repository = Repository.create(folder, keys)

    assert repository.releases() == []
    assert {path.name for path in folder.iterdir()} >= {"targets", "metadata", "online.key"}
    assert repository.waiting() == []


def test_metadata_of_another_role_is_refused(repository: Repository) -> None:
    with pytest.raises(StorageError, match="is not a Targets"):
        read_metadata(repository.root_file, Targets)


def test_a_second_repository_in_the_same_place_is_refused(repository: Repository, keys: Path, tmp_path: Path) -> None:
    assert (repository.folder / "targets").is_dir()
    with pytest.raises(SettingsError, match="would not trust another root"):
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
    repository.replace_online_key(keys)
    assert b"ENCRYPTED" not in (repository.folder / "online.key").read_bytes(), "it is the coordinator's own"
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


def test_after_a_restore_the_online_roles_are_signed_once_and_a_person_is_asked_for(repository: Repository) -> None:
    mark = repository.folder / RESTORED
    mark.touch()
    assert repository.renew_online() == ["snapshot", "timestamp"]
    assert mark.read_bytes() == b"signed online\n"
    assert repository.renew_online() == []
    assert ["releases renew" in sentence for sentence in repository.near_expiry()] == [True]


@pytest.mark.parametrize(
    ("role", "before"),
    [
        ("root", timedelta(days=30)),
        ("targets", timedelta(days=14)),
        ("snapshot", timedelta(days=2)),
        ("timestamp", timedelta(hours=6)),
    ],
)
def test_an_expiry_is_near_less_than_so_long_before_it(role: str, before: timedelta) -> None:
    expiry = Expiry(role, NOW + before)

    assert not expiry.is_near(NOW)
    assert expiry.is_near(NOW + timedelta(seconds=1))
    assert "expires on" in expiry.sentence(NOW + before - timedelta(seconds=1))
    assert "expired on" in expiry.sentence(NOW + before)


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
