"""Releases that several people sign: what waits, who may give what is missing, and devices that know the first root."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cloud.api_server import Server
from tests.cloud.filled_store import fill
from tests.cloud.release_files import Device, PowerCutError, cut_after, make_bundle, serving_releases
from tests.cloud.test_cloud_commands import auricle, here, told
from tuf.api.exceptions import RepositoryError

from auricle.errors import DataError, SettingsError, StorageError
from auricle_cloud.ota import metadata as metadata_module
from auricle_cloud.ota import pending as pending_module
from auricle_cloud.ota.candidate import Candidate, read_candidate
from auricle_cloud.ota.countersigning import countersign, make_holder_key
from auricle_cloud.ota.repository import Repository
from auricle_cloud.storage.backup import write_backup
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.release_folder import Offline
from auricle_cloud.storage.restore import restore_backup
from auricle_cloud.storage.store import FILE, Store


class Site:
    """A repository whose second key holder sits elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.keys = folder, folder / "keys"
        self.repository = Repository.create(folder / "releases", self.keys)
        self.first_root = self.repository.root_file.read_bytes()
        self.holder = folder / "stick" / "second.key"
        self.holder.parent.mkdir()
        self.second = bytes.fromhex(make_holder_key(self.holder))

    def bundle(self, version: str = "1.0.0") -> Candidate:
        return read_candidate(make_bundle(self.folder / f"{version}.tar", version=version))

    def countersigned(self, role: str) -> bytes:
        """What the second holder gives back for what waits."""
        copy = self.folder / "stick" / f"{role}.json"
        shutil.copy(self.repository.folder / "pending" / f"{role}.json", copy)
        countersign(copy, self.holder, copy)
        return copy.read_bytes()

    def let_two_sign(self, *roles: Offline) -> None:
        for role in roles:
            self.repository.set_threshold(role, 2, self.keys, add=[self.second])
            for waiting in [row for row in self.repository.waiting() if row.missing]:
                self.repository.publish(self.countersigned(waiting.role))
        assert [row.threshold for row in self.repository.role_keys() if row.role in roles] == [2] * len(roles)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def api(tmp_path: Path, migrated_file: Path, site: Site) -> Iterator[Server]:
    with serving_releases(tmp_path, migrated_file) as server:
        yield server


@pytest.fixture
def device(tmp_path: Path, api: Server, site: Site) -> Device:
    """It knows the very first root."""
    return Device(tmp_path / "device", site.first_root, api.url)


def test_a_release_reaches_devices_when_two_of_two_have_signed_and_not_before(device: Device, site: Site) -> None:
    device.updater()
    site.repository.set_threshold("targets", 2, site.keys, add=[site.second])
    root, targets = site.repository.waiting()
    assert (root.missing, targets.missing, targets.unsigned) == (0, 1, (site.second.hex(),))
    assert site.repository.root_file.name == "1.root.json"
    assert site.repository.publish() == []
    assert site.repository.publish(site.countersigned("targets")) == ["root", "targets"]
    assert (site.repository.waiting(), site.repository.root_file.name) == ([], "2.root.json")

    path = site.repository.add(site.bundle(), site.keys)
    assert site.repository.releases() == []
    assert device.custom(path) is None
    assert site.repository.publish(site.countersigned("targets")) == ["targets"]
    assert device.fetch(path) == (site.folder / "1.0.0.tar").read_bytes()

    site.repository.remove(path, site.keys)
    assert device.fetch(path)
    site.repository.publish(site.countersigned("targets"))
    assert device.custom(path) is None
    assert not list((site.repository.folder / "targets").rglob("*.tar"))


def test_a_device_follows_roots_that_two_have_signed_and_the_replaced_key_is_worth_nothing(
    device: Device, site: Site
) -> None:
    device.updater()
    site.let_two_sign("root", "targets")
    old = (site.keys / "root.key").read_bytes()
    for role in ("root", "targets"):
        assert site.repository.replace_key(role, site.keys) is False
        for waiting in [row.role for row in site.repository.waiting() if row.missing]:
            site.repository.publish(site.countersigned(waiting))
        assert site.repository.replace_key(role, site.keys) is True
    assert site.repository.waiting() == []
    assert site.repository.root_file.name == "5.root.json"

    path = site.repository.add(site.bundle(), site.keys)
    site.repository.publish(site.countersigned("targets"))
    assert device.fetch(path)
    site.repository.renew(site.keys)
    (site.keys / "root.key").write_bytes(old)
    with pytest.raises(StorageError, match="root key"):
        site.repository.renew(site.keys)


def test_one_of_three_holders_may_be_away_and_one_who_left_signs_nothing(
    device: Device, site: Site, tmp_path: Path
) -> None:
    third = bytes.fromhex(make_holder_key(tmp_path / "third.key"))
    site.repository.set_threshold("targets", 2, site.keys, add=[site.second, third])
    site.repository.publish(site.countersigned("targets"))
    path = site.repository.add(site.bundle(), site.keys)
    site.holder = tmp_path / "third.key"
    site.repository.publish(site.countersigned("targets"))
    assert device.fetch(path)

    site.repository.set_threshold("targets", 2, site.keys, remove=[third.hex()[:12]])
    site.holder = tmp_path / "stick" / "second.key"
    if site.repository.waiting():
        site.repository.publish(site.countersigned("targets"))
    site.holder = tmp_path / "third.key"
    site.repository.add(site.bundle("1.1.0"), site.keys)
    with pytest.raises(DataError, match="no key"):
        site.repository.publish(site.countersigned("targets"))
    assert device.fetch(path)


def test_one_key_alone_publishes_nothing_even_if_it_writes_the_files_itself(device: Device, site: Site) -> None:
    site.let_two_sign("targets")
    device.updater()
    site.repository.add(site.bundle(), site.keys)
    forged = site.repository._read_pending("targets", metadata_module.Targets)
    assert forged is not None
    site.repository._publish(
        forged, site.repository._snapshot(), site.repository._timestamp(), site.repository._online()
    )

    with pytest.raises(RepositoryError, match="targets was signed by 1/2 keys"):
        device.updater()


def test_what_is_not_what_waits_is_refused(site: Site, tmp_path: Path) -> None:
    site.let_two_sign("targets")
    site.repository.add(site.bundle(), site.keys)
    first = site.countersigned("targets")
    site.repository.add(site.bundle("1.1.0"), site.keys)

    damaged = json.loads(site.countersigned("targets"))
    damaged["signatures"][-1]["sig"] = "0" * 128
    for given, noun in ((first, "what waits"), (b"{}", "metadata"), (json.dumps(damaged).encode(), "no key")):
        with pytest.raises(DataError, match=noun):
            site.repository.publish(given)
    timestamp = site.repository.folder / "metadata" / "timestamp.json"
    stick = tmp_path / "stick" / "second.key"
    for path, noun in ((tmp_path / "nothing.json", "read"), (stick, "metadata"), (timestamp, "neither")):
        with pytest.raises(DataError, match=noun):
            countersign(path, site.holder, tmp_path / "out.json")
    site.repository.publish(site.countersigned("targets"))
    assert {row.version for row in site.repository.releases()} == {"1.0.0", "1.1.0"}


@pytest.mark.parametrize(
    ("count", "remove", "match"),
    [(3, [], "3 of 2 keys"), (1, ["ffff"], "does not name one key"), (1, [""], "does not name")],
)
def test_a_threshold_that_nobody_can_reach_is_refused(site: Site, count: int, remove: list[str], match: str) -> None:
    with pytest.raises(SettingsError, match=match):
        site.repository.set_threshold("targets", count, site.keys, add=[site.second], remove=remove)
    assert site.repository.waiting() == []


def test_a_key_that_waits_for_roots_signatures_may_be_asked_for_again(site: Site) -> None:
    site.let_two_sign("root")

    assert [site.repository.replace_key("targets", site.keys) for _ in range(2)] == [False, False]
    assert site.repository.publish(site.countersigned("root")) == ["root", "targets"]
    assert site.repository.replace_key("targets", site.keys) is True


def test_a_key_that_was_lost_is_replaced_and_of_several_it_has_to_be_named(site: Site) -> None:
    lost = site.repository.role_keys()[1].keys
    (site.keys / "targets.key").unlink()

    assert site.repository.replace_key("targets", site.keys) is True
    (row,) = (row for row in site.repository.role_keys() if row.role == "targets")
    assert (row.threshold, len(row.keys)) == (1, 1) and row.keys != lost
    site.repository.set_threshold("targets", 1, site.keys, add=[site.second])
    (site.keys / "targets.key").unlink()
    with pytest.raises(SettingsError, match="say which goes"):
        site.repository.replace_key("targets", site.keys)


def test_metadata_to_sign_may_be_as_large_as_the_limit_and_a_holders_file_is_a_key(site: Site) -> None:
    site.repository.set_threshold("targets", 2, site.keys, add=[site.second])
    waiting, out = site.repository.folder / "pending" / "targets.json", site.folder / "signed.json"
    copy = site.folder / "copy.json"
    copy.write_bytes(waiting.read_bytes().ljust(2 << 20))

    assert countersign(copy, site.holder, out)[1:] == ["It offers no releases."]
    copy.write_bytes(copy.read_bytes() + b" ")
    with pytest.raises(DataError, match="not metadata that wait"):
        countersign(copy, site.holder, out)
    with pytest.raises(SettingsError, match=r"has to end with \.key"):
        make_holder_key(site.folder / "third.pem")


def test_a_new_online_key_waits_for_the_second_signature_of_root(device: Device, site: Site) -> None:
    site.let_two_sign("root")
    used = (site.repository.folder / "online.key").read_bytes()
    site.repository.replace_online_key(site.keys)
    device.updater()
    assert (site.repository.folder / "online.key").read_bytes() == used
    assert site.repository.publish(site.countersigned("root")) == ["root"]
    assert (site.repository.folder / "online.key").read_bytes() != used
    site.repository.add(site.bundle(), site.keys)
    device.updater()


def test_signatures_that_were_being_published_when_the_power_went_are_published_the_next_time(
    device: Device, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.updater()
    site.repository.set_threshold("targets", 2, site.keys, add=[site.second])
    given, write = site.countersigned("targets"), metadata_module.write_durably
    for writes in range(7):
        cut = cut_after(writes, write)
        for module in (metadata_module, pending_module):
            monkeypatch.setattr(module, "write_durably", cut)
        try:
            site.repository.publish(given if writes == 0 else None)
        except PowerCutError:
            monkeypatch.undo()
            if writes == 0:
                assert site.repository.waiting()[1].missing == 1
                site.repository._keep("targets", given)
        else:
            break
    monkeypatch.undo()
    assert 1 < writes < 6
    assert (site.repository.waiting(), site.repository.root_file.name) == ([], "2.root.json")
    device.updater()


def test_a_backup_holds_what_waits_and_after_a_restore_all_sign_again(
    device: Device, site: Site, tmp_path: Path
) -> None:
    site.let_two_sign("targets")
    path = site.repository.add(site.bundle(), site.keys)
    stale = site.countersigned("targets")
    store = Store(tmp_path / FILE)
    write_backup(store.database, Blobs(tmp_path / "blobs"), tmp_path, tmp_path / "backup.tar.zst")
    store.close()
    device.updater()

    restore_backup(tmp_path / "backup.tar.zst", tmp_path / "other", Blobs(tmp_path / "other" / "blobs"))
    restored = Repository(tmp_path / "other" / "releases")
    assert [row.role for row in restored.waiting()] == ["targets"]
    assert restored.publish(stale) == []
    restored.renew(site.keys)
    shutil.rmtree(site.repository.folder)
    shutil.copytree(restored.folder, site.repository.folder)
    assert site.repository.publish(site.countersigned("targets")) == ["targets"]
    assert device.fetch(path)


def test_a_change_that_nobody_signs_is_dropped_with_its_file(device: Device, site: Site) -> None:
    site.repository.set_threshold("targets", 2, site.keys, add=[site.second])
    path = site.repository.add(site.bundle(), site.keys)
    assert device.custom(path) is None
    assert site.repository.drop() == ["root", "targets"]
    assert not list((site.repository.folder / "targets").rglob("*.tar"))
    site.repository.add(site.bundle(), site.keys)
    assert device.fetch(path)
    assert site.repository.drop() == []


def test_two_holders_by_commands(tmp_path: Path) -> None:
    filled = fill(tmp_path / "state")
    given = {**here(filled), "AURICLE_RELEASE_KEYS": str(tmp_path / "keys")}
    told(auricle("releases", "init", "--root", tmp_path / "root.json", "--json", **given))
    made = told(auricle("releases", "make-key", tmp_path / "second.key", "--json"))["done"]
    public, waiting = made.split()[-1], filled.folder / "releases" / "pending" / "targets.json"
    set_ = told(auricle("releases", "threshold", "targets", "2", "--add", public, "--yes", "--json", **given))["done"]
    assert "targets 2 waits for 1 more of" in set_
    signed, key = tmp_path / "signed.json", tmp_path / "second.key"
    for version in ("", "1.0.0"):
        if version:
            added = told(auricle("releases", "add", make_bundle(tmp_path / "b.tar"), "--json", **given))["done"]
            assert "is added, but not released yet" in added
            assert told(auricle("releases", "list", "--json", **given))["releases"] == []
        (row,) = (r for r in told(auricle("releases", "pending", "--json", **given))["pending"] if r["missing"])
        assert (row["role"], row["unsigned"]) == ("targets", [public])
        said = told(auricle("releases", "sign", waiting, "--key", key, "--out", signed, "--json"))["done"]
        assert f"is {version}" in said if version else "It offers no releases" in said
        assert "Published: " in told(auricle("releases", "publish", signed, "--json", **given))["done"]
    assert [r["version"] for r in told(auricle("releases", "list", "--json", **given))["releases"]] == ["1.0.0"]
    keys = {row["role"]: row for row in told(auricle("releases", "keys", "--json", **given))["roles"]}
    assert (keys["targets"]["threshold"], len(keys["targets"]["keys"]), keys["root"]["threshold"]) == (2, 2, 1)
    assert auricle("releases", "publish", **given).stdout.strip() == "Nothing was published."
    refused = auricle("releases", "threshold", "root", "2", "--add", "12", "--yes", **given)
    assert refused.returncode == 2
