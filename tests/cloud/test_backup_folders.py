"""Certificate, authority and releases in a backup: modes, big files, changes meanwhile, and what devices make of it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tarfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cloud.api_server import serving
from tests.cloud.filled_store import Filled, fill
from tests.cloud.release_files import CONTENT, Device, make_bundle
from tests.cloud.test_backup import Change, put, rewritten, saved
from tests.cloud.test_cloud_commands import auricle, here, told
from tuf.api.exceptions import RepositoryError

from auricle.errors import StorageError
from auricle.packs.pack import load_pack
from auricle.wire.identity import Identity
from auricle_cloud.identity.authority import Authority
from auricle_cloud.ota.candidate import Candidate, read_candidate
from auricle_cloud.ota.metadata import LEAP_VERSIONS
from auricle_cloud.ota.repository import Repository
from auricle_cloud.storage import backup as backup_module
from auricle_cloud.storage import restore as restore_module
from auricle_cloud.storage.backup import write_backup
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.restore import BackupError, restore_backup
from auricle_cloud.storage.state_folders import FOLDERS, KEY
from auricle_cloud.storage.store import FILE, Store

PASSPHRASE = {"AURICLE_AUTHORITY_PASSPHRASE": "correct horse"}
PRIVATE = {"identity/key.pem", "authority/root.key", "authority/issuing.key", "releases/online.key"}


@pytest.fixture(autouse=True)
def passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PASSPHRASE.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A coordinator's `state` with certificate, authority and one release, the latter's `keys`, and a `backup`."""
    folder = tmp_path_factory.mktemp("made")
    filled, state = fill(folder / "state"), folder / "state"
    Identity.load_or_create(state / KEY)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(*next(iter(PASSPHRASE.items())))
        assert auricle("enrol", "init", **here(filled), **PASSPHRASE).returncode == 0
        Repository.create(state / "releases", folder / "keys").add(bundle(folder, "1.0.0"), folder / "keys")
    saved(filled, folder / "backup")
    filled.store.close()
    return folder


@pytest.fixture
def state(made: Path, tmp_path: Path) -> Iterator[Filled]:
    """A copy of it; the keys are in `tmp_path / "keys"`."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    store = Store(tmp_path / "state" / FILE)
    yield Filled(tmp_path / "state", store, Blobs(tmp_path / "state" / "blobs"), load_pack("digits"))
    store.close()


def bundle(folder: Path, version: str) -> Candidate:
    return read_candidate(make_bundle(folder / f"{version}.tar", version=version))


def files(folder: Path) -> dict[str, bytes]:
    """What lies in the folders, by path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for name in FOLDERS
        for path in sorted((folder / name).rglob("*"))
        if path.is_file() and path.name not in ("lock", "restored")
    }


def restored(source: Path, folder: Path) -> Path:
    restore_backup(source, folder, Blobs(folder / "blobs"))
    return folder


# -- what it holds


def test_authority_and_releases_come_back_with_their_modes_and_as_encrypted(state: Filled, tmp_path: Path) -> None:
    other = restored(saved(state, tmp_path / "b"), tmp_path / "other")

    whole, kept = files(state.folder), files(other)
    assert {path: whole[path] for path in kept} == kept
    assert {path for path in whole if path not in kept} == {
        f"releases/metadata/1.{role}.json" for role in ("snapshot", "targets")
    }  # older than what timestamp.json names
    modes = {path: (other / path).stat().st_mode & 0o777 for path in kept}
    assert {modes[path] for path in PRIVATE} == {0o600}
    assert {path for path in kept if modes[path] == 0o644} == {
        path for path in kept if path.endswith((".pem", ".json", ".tar")) and path not in PRIVATE
    }
    assert {(other / name).stat().st_mode & 0o777 for name in FOLDERS} == {0o700}
    assert b"ENCRYPTED" in kept["authority/issuing.key"]
    assert Authority(other / "authority").pin == Authority(state.folder / "authority").pin
    assert [row.version for row in Repository(other / "releases").releases()] == ["1.0.0"]


def test_commands_say_what_a_backup_holds_and_lacks(state: Filled, tmp_path: Path) -> None:
    (state.folder / "authority" / "root.key").unlink()
    shutil.rmtree(state.folder / "releases")

    whole = told(auricle("backup", tmp_path / "b", "--json", **here(state)))
    without = told(auricle("backup", tmp_path / "c", "--without-authority", "--json", **here(state)))
    back = told(auricle("restore", tmp_path / "c", "--state", tmp_path / "other", "--json"))

    assert whole["lacks"] == ["the authority's root key", "the releases"]
    assert without["lacks"] == back["lacks"] == ["the certificate authority", *whole["lacks"]]
    assert without["holds"] == back["holds"]
    assert not (tmp_path / "other" / "authority").exists()
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in "bc"} == {0o600}


def test_a_backup_of_before_there_were_folders_leaves_those_there_alone(state: Filled, tmp_path: Path) -> None:
    def older(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        members[:] = [(m, content) for m, content in members if not m.name.startswith(FOLDERS)]
        files = [entry for entry in json.loads(members[-1][1])["files"] if not entry["path"].startswith(FOLDERS)]
        _manifest(members, lambda manifest: manifest.update(format=1, files=files))

    source = rewritten(saved(state, tmp_path / "b"), tmp_path / "old", older)
    before = files(state.folder)
    state.store.close()

    back = told(auricle("restore", source, "--state", state.folder, "--yes", "--json"))

    assert len(back["lacks"]) == 4
    assert files(state.folder) == before


# -- what is there already


def test_another_authority_is_not_replaced_unasked_and_is_kept_aside(state: Filled, tmp_path: Path) -> None:
    source, other = saved(state, tmp_path / "b"), tmp_path / "other"
    assert auricle("enrol", "init", "--state", other).returncode == 0
    (other / FILE).unlink()
    theirs = files(other)

    refused = auricle("restore", source, "--state", other)
    assert (refused.returncode, "add --yes" in refused.stderr, files(other)) == (2, True, theirs)
    assert auricle("restore", source, "--state", other, "--yes").returncode == 0
    assert auricle("restore", source, "--state", other, "--yes").returncode == 0

    assert files(other).keys() <= files(state.folder).keys()
    assert (other / "authority.before-restore" / "root.key").read_bytes() == theirs["authority/root.key"]
    assert (other / "identity.before-restore" / "key.pem").read_bytes() == theirs["identity/key.pem"]
    assert not list(other.glob("*.before-restore-2")), "the same once more is left alone"


# -- changes meanwhile


@pytest.mark.slow
def test_every_backup_made_while_releases_change_holds_a_whole_snapshot(state: Filled, tmp_path: Path) -> None:
    repository = Repository(state.folder / "releases")
    bundles = [bundle(tmp_path, f"2.{number}.0") for number in range(8)]
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        for candidate in bundles:
            repository.add(candidate, tmp_path / "keys")
            begun.set()
        repository.renew(tmp_path / "keys")
        ended.set()

    changing = threading.Thread(target=work)
    changing.start()
    begun.wait(30)
    made = [saved(state, tmp_path / "b-0")]
    while not ended.is_set():
        made.append(saved(state, tmp_path / f"b-{len(made)}"))
    changing.join()

    found = [Repository(restored(source, tmp_path / f"o-{source.name}") / "releases") for source in made]
    assert all(1 < len(each.releases()) < 10 for each in found)


def test_a_release_that_is_gone_or_damaged_and_a_link_leave_no_backup(state: Filled, tmp_path: Path) -> None:
    (released,) = (state.folder / "releases" / "targets").rglob("*.tar")
    content = released.read_bytes()
    (tmp_path / "backups").mkdir()
    for change, says in (
        (lambda: released.write_bytes(content[:-1] + b"x"), "damaged"),
        (released.unlink, "missing"),
        (lambda: (state.folder / "authority" / "more.key").symlink_to("/etc/passwd"), "no backup"),
    ):
        change()
        with pytest.raises(StorageError, match=says):
            saved(state, tmp_path / "backups" / "b")
    assert list((tmp_path / "backups").iterdir()) == []
    shutil.rmtree(state.folder / "releases")
    write_backup(state.store.database, state.blobs, state.folder, tmp_path / "backups" / "b", authority=False)


def test_devices_that_have_seen_newer_metadata_believe_the_restored_releases(state: Filled, tmp_path: Path) -> None:
    repository, keys = Repository(state.folder / "releases"), tmp_path / "keys"
    source = saved(state, tmp_path / "b")
    lost, later = bundle(tmp_path, "2.0.0"), bundle(tmp_path, "3.0.0")
    with serving(state) as server:
        device = Device(tmp_path / "device", repository.root_file.read_bytes(), server.url)
        assert device.fetch(repository.add(lost, keys))
        shutil.rmtree(repository.folder)
        shutil.move(restored(source, tmp_path / "other") / "releases", repository.folder)

        with pytest.raises(RepositoryError):
            device.updater()
        assert repository.renew_online() == ["snapshot", "timestamp"]
        assert repository.renew_online() == []
        stranger = Device(tmp_path / "stranger", device.root, server.url)
        assert stranger.custom("bundle/pi5/trixie/none.tar") is None
        assert any("releases renew" in sentence for sentence in repository.near_expiry())
        path = repository.add(later, keys)

        assert device.fetch(path) == later.file.read_bytes()
        assert device.custom(lost.path) is None
        assert stranger.fetch(path)
    assert repository.near_expiry() == []
    assert (repository.folder / "metadata" / f"{1 + 1 + LEAP_VERSIONS}.targets.json").is_file()


# -- large and hostile ones


@pytest.mark.slow
def test_a_large_release_is_never_held_in_memory(state: Filled, tmp_path: Path) -> None:
    size, block = 12 << 20, 4 << 20
    large = make_bundle(tmp_path / "large.tar", content={**CONTENT, "wheels/large": bytes(size)}, version="2.0.0")
    Repository(state.folder / "releases").add(read_candidate(large), tmp_path / "keys")

    tracemalloc.start()
    try:
        restored(saved(state, tmp_path / "b"), tmp_path / "other")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < size - block
    assert files(tmp_path / "other").items() <= files(state.folder).items()


def _manifest(members: list[tuple[tarfile.TarInfo, bytes]], change: Callable[[dict[str, Any]], object]) -> None:
    """Have the last of them, the manifest, say something else."""
    manifest = json.loads(members[-1][1])
    change(manifest)
    members[-1] = (members[-1][0], json.dumps(manifest).encode())


def _without(*ends: str) -> Change:
    """A backup whose manifest is right, and from which files are missing."""

    def change(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        members[:] = [(m, content) for m, content in members if not m.name.endswith(ends)]
        _manifest(members, lambda m: m.update(files=[e for e in m["files"] if not e["path"].endswith(ends)]))

    return change


def _other_bytes(end: str) -> Change:
    """A backup whose manifest knows of another content of a file."""

    def change(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        at = next(i for i, (member, _) in enumerate(members) if member.name.endswith(end))
        other = b"x" * len(members[at][1])
        old, new = (
            f'"sha256": "{hashlib.sha256(content).hexdigest()}"'.encode() for content in (members[at][1], other)
        )
        members[at] = (members[at][0], other)
        members[-1] = (members[-1][0], members[-1][1].replace(old, new))

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        *(
            pytest.param(put(name), name, id=name)
            for name in [
                "authority/../evil",
                "authority/deeper/evil",
                "authority/.evil",
                "authority",
                "identity/Evil",
                "releases/restored",
                "releases/targets/../../evil",
                "releases/targets/pack/evil.tar",
                "releases/metadata/evil.json",
                "blobs.before-restore/evil",
            ]
        ),
        pytest.param(put(f"releases/targets/pack/{'0' * 64}.tar"), "damaged", id="other-hash"),
        *(
            pytest.param(put(name, kind, "../../coordinator.key"), name, id=f"link-{kind!r}")
            for kind, name in (
                (tarfile.SYMTYPE, "authority/more.key"),
                (tarfile.LNKTYPE, "releases/online.key"),
                (tarfile.DIRTYPE, "authority"),
            )
        ),
        *(
            pytest.param(_without(end), "missing", id=f"without{end}")
            for end in ("timestamp.json", ".snapshot.json", ".tar")
        ),
        pytest.param(_other_bytes("timestamp.json"), "snapshot", id="bad-timestamp"),
        pytest.param(_other_bytes(".targets.json"), "targets", id="bad-targets"),
        pytest.param(_other_bytes(".tar"), "content", id="bad-bundle"),
    ],
)
def test_what_belongs_into_no_backup_is_refused_and_nothing_touched(
    made: Path, tmp_path: Path, change: Change, says: str
) -> None:
    source, other = rewritten(made / "backup", tmp_path / "c", change), tmp_path / "other"
    for theirs in ("authority/root.key", "identity/key.pem"):
        (other / theirs).parent.mkdir(parents=True)
        (other / theirs).write_bytes(b"theirs")
    before = files(other)

    with pytest.raises(BackupError, match=re.escape(says)):
        restored(source, other)

    assert files(other) == before
    assert not list(tmp_path.rglob("evil*")) and not list(other.glob("*before-restore*"))
    assert not (other / "releases").exists()


@pytest.mark.parametrize("limit", ["LARGEST_BYTES", "LARGEST_FILE"])
def test_what_is_too_large_for_a_backup_is_refused(
    state: Filled, tmp_path: Path, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore_module, limit, 100_000)
    with pytest.raises(BackupError, match=r"is larger, at blobs/"):
        restored(tmp_path / "backup", tmp_path / "other")
    monkeypatch.setattr(backup_module, "TOO_LARGE", 5000)
    with pytest.raises(StorageError, match="too large"):
        saved(state, tmp_path / "c")
    assert not (tmp_path / "c").exists() and not (tmp_path / "other" / "authority").exists()


def test_a_backup_that_was_cut_at_any_byte_is_refused(made: Path, tmp_path: Path) -> None:
    data = (made / "backup").read_bytes()
    length = len(data)
    for end in [*range(0, 40, 3), *range(40, length - 40, length // 20), *range(length - 40, length)]:
        (tmp_path / "cut").write_bytes(data[:end])
        with pytest.raises(BackupError, match="cut"):
            restored(tmp_path / "cut", tmp_path / "other")
    assert list((tmp_path / "other").iterdir()) == []
