"""Takes a backup back: everything is verified before anything is replaced."""

from __future__ import annotations

import hashlib
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

import msgspec
import sqlalchemy as sa
from backports.zstd import ZstdError

from auricle.errors import REFUSED_CODE, StorageError
from auricle.files import describe, open_kept, read_kept, sync_folder, write_durably
from auricle.packs.plain_tar import members
from auricle.packs.zstd_frames import Frames
from auricle.wire.kinds import UNDECODABLE, plain
from auricle_cloud.storage.backup import FORMAT_VERSION, MANIFEST, Entry, Manifest
from auricle_cloud.storage.backup_rows import BackupError, batches
from auricle_cloud.storage.blobs import BlobStore
from auricle_cloud.storage.database import Database, revisions
from auricle_cloud.storage.release_folder import FOLDER as RELEASES
from auricle_cloud.storage.schema import metadata
from auricle_cloud.storage.state_folders import KEY, belongs, hash_in_name, put_in_place, released_files
from auricle_cloud.storage.store import FILE

LARGEST_BYTES = 1 << 40
"""Bytes of all files of a backup, and never more than the disk has free."""
LARGEST_FILE = 16 << 30
LARGEST_MANIFEST = 256 << 20
LONGEST_REASON = 300
"""Characters of what a database says."""
MOST_FILES = 1 << 20
WINDOW_BYTES = 128 << 20
EPOCH_LEAP = 1000
"""Added to the epoch: devices may have seen later ones than the backup knows, and obey none that is lower."""
MOST_STARTS = 1 << 30
"""Epoch of a backup: a coordinator that starts every second of thirty years has not as many."""

_NAME = re.compile(rf"{re.escape(MANIFEST)}|{re.escape(KEY)}|tables/[a-z_]{{1,64}}\.jsonl|blobs/[0-9a-f]{{64}}")


class DatabaseInUseError(StorageError):
    """A coordinator, or a command that reads it, is at work."""

    exit_code = REFUSED_CODE


def restore_backup(source: Path, folder: Path, blobs: BlobStore, database: str | None = None) -> Manifest:
    """Verify a backup, then put it in place of a coordinator's state.

    Parameters
    ----------
    source
        The backup.
    folder
        The state folder; an old database there is kept as `coordinator.db.before-restore`, and so are folders that the
        backup holds, unless they are the same.
    blobs
        Where models and updates are put.
    database
        URL of an empty PostgreSQL database; None: SQLite in the folder.

    Raises
    ------
    BackupError
        The file is not a backup, is damaged or too large, or was made by a newer version.
    StorageError
        A coordinator runs on the folder, the database is not empty, or the disk cannot take the state.
    """
    try:
        if not source.is_file():
            what = "is a folder" if source.is_dir() else "is no regular file" if source.exists() else "is not there"
            raise BackupError(f"{source} {what}: name a backup's file.")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".restore-", dir=folder) as beside:
            manifest = _unpack(source, Path(beside))
            _put_in_place(Path(beside), manifest, folder, blobs, database)
    except OSError as error:
        raise StorageError(describe(error, folder)) from error
    return manifest


# -- verifying


def _unpack(source: Path, folder: Path) -> Manifest:
    """Unpack a backup below a folder; BackupError unless everything in it is as its manifest says."""
    (folder / "tables").mkdir()
    (folder / "blobs").mkdir()
    found: dict[str, Entry] = {}
    try:
        with open_kept(source) as file:
            left = min(LARGEST_BYTES, shutil.disk_usage(folder).free)
            for path, content, size in _members(file, source):
                left -= size
                if path in found:
                    raise BackupError(f"{source} holds {path} twice: restore another backup.")
                if left < 0 or size > LARGEST_FILE:
                    place = folder.parent
                    raise BackupError(f"{source} is larger, at {path}, than a backup or the disk of {place} can be.")
                found[path] = _keep(content, folder, path)
    except (ZstdError, EOFError, ValueError) as error:
        why = "" if isinstance(error, ZstdError) else f": {error}"  # what zstd says is for who reads its code
        raise BackupError(f"{source} is not a backup, or is damaged{why}.") from error
    except OSError as error:
        raise BackupError(f"{source} cannot be read, or its content written: {error.strerror or error}.") from error
    manifest = _manifest(source, folder, found)
    if [found[path] for path in found if path != MANIFEST] != manifest.files:
        raise BackupError(f"{source} is damaged: its content is not what its manifest says.")
    for path, entry in found.items():
        if entry.sha256 != (hash_in_name(path) or entry.sha256):
            raise BackupError(f"{source} is damaged: {path} has another content.")
    if (folder / RELEASES).is_dir():
        _check_releases(source, folder / RELEASES)
    return manifest


def _check_releases(source: Path, folder: Path) -> None:
    """BackupError unless everything is there that their metadata names."""
    try:
        for _ in released_files(folder):
            pass
    except StorageError as error:
        raise BackupError(f"{source} is damaged: its releases are not whole. {error}") from error


def _members(file: IO[bytes], source: Path) -> Iterator[tuple[str, Iterator[bytes], int]]:
    for member, content in members(Frames(file, WINDOW_BYTES), MOST_FILES):
        if not _is_known(member.name):
            raise BackupError(f"{source} holds {member.name!r}, which is no part of a backup: name a backup's file.")
        yield member.name, content, member.size


def _is_known(path: str) -> bool:
    return _NAME.fullmatch(path) is not None or belongs(path)


def _keep(content: Iterator[bytes], folder: Path, path: str) -> Entry:
    sha256, size = hashlib.sha256(), 0
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    with (folder / path).open("xb") as kept:
        for block in content:
            sha256.update(block)
            size += len(block)
            kept.write(block)
    return Entry(path, size, sha256.hexdigest())


def _manifest(source: Path, folder: Path, found: dict[str, Entry]) -> Manifest:
    entry = found.get(MANIFEST)
    if entry is None or entry.bytes > LARGEST_MANIFEST:
        raise BackupError(f"{source} is not a backup, or was cut short: it has no {MANIFEST}.")
    try:
        manifest = msgspec.json.decode(read_kept(folder / MANIFEST), type=Manifest)
    except UNDECODABLE as error:
        raise BackupError(f"The manifest of {source} is not valid: {error}.") from error
    if not 1 <= manifest.format <= FORMAT_VERSION or manifest.revision not in revisions():
        raise BackupError(f"{source} was made by a newer version of Auricle: restore it with that.")
    return manifest


# -- replacing


def _put_in_place(beside: Path, manifest: Manifest, folder: Path, blobs: BlobStore, database: str | None) -> None:
    old = folder / FILE
    if database is None:
        _fill(sa.create_engine(f"sqlite:///{beside / FILE}"), beside, manifest)
        Database(beside / FILE, must_exist=True).close()
        _release(beside / FILE)
        if old.exists():
            _release(old)
    for path in sorted((beside / "blobs").iterdir()):
        blobs.put(read_kept(path))
    if database is None:
        if old.exists():
            shutil.copy2(old, folder / f"{FILE}.before-restore")
        (beside / FILE).replace(old)
    else:
        _fill_empty(database, beside, manifest)
    if (beside / KEY).is_file():
        write_durably(folder / KEY, read_kept(beside / KEY), mode=0o600)
    put_in_place(beside, folder)
    sync_folder(folder)


def _release(path: Path) -> None:
    """Fold the write-ahead log into its database; StorageError while anybody else has it open."""
    try:
        with closing(sqlite3.connect(path, timeout=1, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=FULL")
            mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if "locked" not in str(error):
            return
        mode = "wal"
    if mode != "delete":
        raise DatabaseInUseError(
            f"{path} is in use: stop the coordinator, or end the command, such as rounds watch, that reads it."
        )


def _fill_empty(database: str, beside: Path, manifest: Manifest) -> None:
    target = Database(database)
    try:
        with target.reading() as tx:
            full = [table.name for table in metadata.tables.values() if tx.execute(sa.select(table).limit(1)).first()]
        if full:
            raise StorageError(f"The database {target.name} is not empty (see {full[0]}): name an empty one.")
        with target.writing() as tx:
            _load(tx, beside, manifest)
    finally:
        target.close()


def _fill(engine: sa.Engine, beside: Path, manifest: Manifest) -> None:
    """Make a database of the backup's revision and fill it."""
    from alembic import command  # loaded only by what migrates

    from auricle_cloud.storage.migrations import config

    try:
        with engine.begin() as tx:
            settings = config()
            settings.attributes["connection"] = tx
            command.upgrade(settings, manifest.revision)
        with engine.begin() as tx:
            _load(tx, beside, manifest)
    finally:
        engine.dispose()


def _load(tx: sa.Connection, beside: Path, manifest: Manifest) -> None:
    there = sa.MetaData()
    there.reflect(tx)
    try:
        for entry in manifest.files:
            if entry.path.startswith("tables/"):
                table = there.tables[Path(entry.path).stem]
                for rows in batches(beside / entry.path, table):
                    tx.execute(table.insert(), rows)
        # Devices of the time of the backup may be gone: the coordinator that starts hears those that are here.
        tx.execute(sa.update(there.tables["devices"]).values(online=False))
        meta = there.tables["meta"]
        last = tx.execute(sa.select(meta.c.value).where(meta.c.key == "epoch")).scalar()
        tx.execute(sa.update(meta).where(meta.c.key == "epoch").values(value=str(_starts(last) + EPOCH_LEAP)))
        if tx.dialect.name == "postgresql":
            for name in ("events", "outbox"):
                newest = f"(SELECT COALESCE(MAX(id), 0) + 1 FROM {name})"
                tx.execute(sa.text(f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), {newest}, false)"))
    except (KeyError, ValueError, TypeError, RecursionError, sa.exc.SQLAlchemyError) as error:
        why = plain(str(error).partition("\n")[0])[:LONGEST_REASON]
        raise BackupError(
            f"The tables of the backup do not fit its revision {manifest.revision} ({why}): restore another one."
        ) from error


def _starts(told: str | None) -> int:
    """The epoch that a backup states; BackupError where that is not an epoch."""
    text = told or "0"
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= MOST_STARTS):
        raise BackupError(
            f'The backup is damaged: its epoch "{plain(text[:40])}" is not a count of starts: restore another one.'
        )
    return int(text)
