"""A backup while the coordinator runs, and back: the same rows and files, or nothing is touched."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from backports import zstd
from tests.cloud.filled_store import TASK, Filled, fill, register

from auricle.errors import StorageError
from auricle.wire.identity import Identity
from auricle_cloud.storage.backup import KEY, MANIFEST, write_backup
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.restore import EPOCH_LEAP, BackupError, restore_backup
from auricle_cloud.storage.schema import metadata
from auricle_cloud.storage.store import FILE, Store


@pytest.fixture
def filled(tmp_path: Path, place: Path | str) -> Iterator[Filled]:
    folder = tmp_path / "state"
    folder.mkdir()
    Identity.load_or_create(folder / KEY)
    filled = fill(folder, place)
    yield filled
    filled.store.close()


def rows(database: Database) -> dict[str, list[Any]]:
    with database.reading() as tx:
        return {
            name: [tuple(row) for row in tx.execute(sa.select(table).order_by(*table.primary_key.columns))]
            for name, table in metadata.tables.items()
            if name != "meta"
        }


def saved(filled: Filled, target: Path) -> Path:
    write_backup(filled.store.database, filled.blobs, filled.folder, target)
    return target


def test_a_state_comes_back_as_it_was_on_either_database(filled: Filled, tmp_path: Path, place: Path | str) -> None:
    source, other = saved(filled, tmp_path / "b.tar.zst"), tmp_path / "other"

    restore_backup(source, other, Blobs(other / "blobs"))

    store = Store(other / FILE, must_exist=True)
    assert True in {row.online for row in filled.store.devices.all()}
    assert {row.online for row in store.devices.all()} == {False}, "nobody is here until heard"
    filled.store.devices.forget_presence()
    assert rows(store.database) == rows(filled.store.database)
    assert store.database.take_over() == 1 + EPOCH_LEAP + 1
    for version in (0, 1):
        blob = store.models.get(TASK, version).blob
        assert Blobs(other / "blobs").get(blob) == filled.blobs.get(blob)
    assert (other / KEY).read_bytes() == (filled.folder / KEY).read_bytes()
    assert ((other / KEY).stat().st_mode & 0o777, source.stat().st_mode & 0o777) == (0o600, 0o600)
    store.devices.register(register("dev-new", "0" * 64), "pending")
    assert store.journal.events(limit=1)[0].id > 1
    store.close()


def test_a_sqlite_state_moves_to_an_empty_postgresql(tmp_path: Path, server: Any) -> None:
    (tmp_path / "state").mkdir()
    filled, url = fill(tmp_path / "state"), server.empty()
    source = saved(filled, tmp_path / "b.tar.zst")

    restore_backup(source, tmp_path / "other", Blobs(tmp_path / "other" / "blobs"), url)

    store = Store(url)
    filled.store.devices.forget_presence()
    assert rows(store.database) == rows(filled.store.database)
    store.journal.note("after")
    assert store.journal.events(limit=1)[0].id == 1 + filled.store.journal.events(limit=1)[0].id
    with pytest.raises(StorageError, match="is not empty"):
        restore_backup(source, tmp_path / "other", Blobs(tmp_path / "other" / "blobs"), url)
    store.close()
    filled.store.close()
    server.drop(url)


def test_the_same_state_gives_the_same_bytes(filled: Filled, tmp_path: Path) -> None:
    assert saved(filled, tmp_path / "one").read_bytes() == saved(filled, tmp_path / "two").read_bytes()


def test_a_backup_is_of_one_moment_while_the_coordinator_writes(filled: Filled, tmp_path: Path) -> None:
    class Busy(Blobs):
        """Registers a device whenever a file is looked for."""

        def names(self) -> Iterator[str]:
            filled.store.devices.register(register("dev-later", "0" * 64), "pending")
            return super().names()

    write_backup(filled.store.database, Busy(filled.folder / "blobs"), filled.folder, tmp_path / "b")
    restore_backup(tmp_path / "b", tmp_path / "other", Blobs(tmp_path / "other" / "blobs"))

    store = Store(tmp_path / "other" / FILE)
    names = {row.device for row in store.devices.all()}
    assert "dev-later" not in names and "dev-later" in {row.device for row in filled.store.devices.all()}
    assert not any(event.device == "dev-later" for event in store.journal.events())
    store.close()


def test_a_backup_without_a_models_file_is_refused_and_leaves_nothing(filled: Filled, tmp_path: Path) -> None:
    filled.blobs.remove(filled.store.models.current(TASK).blob)
    with pytest.raises(StorageError, match="cannot be written"):
        saved(filled, tmp_path / "backups" / "b.tar.zst")
    (tmp_path / "backups").mkdir()
    with pytest.raises(StorageError, match="cannot be read"):
        saved(filled, tmp_path / "backups" / "b.tar.zst")
    assert list((tmp_path / "backups").iterdir()) == []


Change = Callable[[list[tuple[tarfile.TarInfo, bytes]]], Any]


def rewritten(source: Path, target: Path, change: Change) -> Path:
    """A backup with other members."""
    with zstd.open(source, "rb") as file, tarfile.open(fileobj=io.BytesIO(file.read())) as archive:
        members = [(m, archive.extractfile(m).read()) for m in archive]  # type: ignore[union-attr]
    change(members)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    target.write_bytes(zstd.compress(raw.getvalue()))
    return target


def put(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> Change:
    """A backup with one more file, or link, at its beginning."""

    def change(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        more = tarfile.TarInfo(name)
        more.type, more.linkname = kind, link
        members.insert(0, (more, b"" if kind != tarfile.REGTYPE else b"x"))

    return change


def _other_row(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    index = next(i for i, (member, _) in enumerate(members) if member.name == "tables/devices.jsonl")
    members[index] = (members[index][0], members[index][1].replace(b'"approved"', b'"revoked"', 1))


def _newer(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    member, content = members[-1]
    assert member.name == MANIFEST
    members[-1] = (member, content.replace(b'"revision": "', b'"revision": "9'))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        *((put(name), "backup") for name in ("../evil", "/etc/evil", "blobs/../../evil", "tables/Devices.jsonl")),
        (put(KEY, tarfile.SYMTYPE, "/etc/passwd"), "plain"),
        (put("blobs/" + "0" * 64), "damaged"),
        (_other_row, "damaged"),
        (_newer, "newer"),
        (lambda members: members.pop(), "cut"),
        (lambda members: members.pop(0), "damaged"),
        (lambda members: members.append(members[0]), "twice"),
    ],
)
def test_what_is_not_whole_is_refused_before_anything_is_touched(tmp_path: Path, change: Change, says: str) -> None:
    (tmp_path / "state").mkdir()
    filled = fill(tmp_path / "state")
    source = rewritten(saved(filled, tmp_path / "b"), tmp_path / "c", change)
    filled.store.close()
    there = {path: path.read_bytes() for path in filled.folder.rglob("*") if path.is_file()}

    with pytest.raises(BackupError, match=says):
        restore_backup(source, filled.folder, filled.blobs)

    assert {path: path.read_bytes() for path in filled.folder.rglob("*") if path.is_file()} == there
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("content", [b"", b"text", zstd.compress(b"no tar" * 999)])
def test_a_file_that_is_no_backup_is_said_so(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(BackupError):
        restore_backup(tmp_path / "file", tmp_path / "state", Blobs(tmp_path / "blobs"))
    with pytest.raises(BackupError, match="not there"):
        restore_backup(tmp_path / "none", tmp_path / "state", Blobs(tmp_path / "blobs"))


def test_nothing_is_replaced_under_a_running_coordinator(tmp_path: Path) -> None:
    filled = fill(tmp_path)
    source = saved(filled, tmp_path / "b")
    filled.store.rounds.plan(TASK, 1)

    with pytest.raises(StorageError, match="in use"):
        restore_backup(source, tmp_path, filled.blobs)
    filled.store.close()
    restore_backup(source, tmp_path, filled.blobs)

    kept = shutil.copy(tmp_path / f"{FILE}.before-restore", tmp_path / "kept.db")
    for path, rounds in ((tmp_path / FILE, 3), (Path(kept), 4)):
        store = Store(path)
        assert len(store.rounds.listed(TASK)) == rounds
        store.close()
