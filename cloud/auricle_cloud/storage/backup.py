"""A coordinator's whole state as one file: tables as JSON lines, files they refer to, keys, authority and releases.

A `.tar.zst` of plain files, the same for the same state: `tables/NAME.jsonl`, `blobs/SHA256`, `coordinator.key`, those
of `state_folders`, and last `manifest.json` with the hash of each. Tables are read in one transaction, so a coordinator
may go on meanwhile; SQLite and PostgreSQL give the same file, which either restores (see `restore`).
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
import sqlalchemy as sa
from backports import zstd

from auricle.errors import StorageError
from auricle.files import describe, read_kept, sync_folder
from auricle_cloud.storage.blobs import BlobStore
from auricle_cloud.storage.database import Database, revision_of
from auricle_cloud.storage.personal_records import personal_files
from auricle_cloud.storage.schema import metadata
from auricle_cloud.storage.state_folders import KEY, hash_in_name, state_files

FORMAT_VERSION = 2
"""1 had no folders."""
MANIFEST = "manifest.json"
ATTEMPTS = 3
"""A model that retention removes while it is read asks for a new attempt."""
ROWS_AT_ONCE = 1000
TOO_LARGE = 8 << 30
"""Bytes of a file that no USTAR archive holds."""


class Entry(msgspec.Struct, frozen=True):
    """A file of a backup."""

    path: str
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds."""

    format: int
    revision: str
    """Of the tables, see `migrations`."""
    files: list[Entry]


def write_backup(
    database: Database, blobs: BlobStore, folder: Path | None, target: Path, *, authority: bool = True
) -> Manifest:
    """Write a backup; the file is whole or absent, and readable by its owner only: it holds private keys.

    Parameters
    ----------
    database, blobs
        The coordinator's, which may be running.
    folder
        Its state folder, where keys, authority and releases lie; None: without them.
    target
        The file.
    authority
        Also the certificate authority.

    Raises
    ------
    StorageError
        A model's or release's file is missing or damaged, or the disk cannot take the backup.
    """
    for attempt in range(ATTEMPTS):
        try:
            return _write(database, blobs, folder, target, authority)
        except StorageError:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError


def _write(database: Database, blobs: BlobStore, folder: Path | None, target: Path, authority: bool) -> Manifest:
    beside = target.with_name(f".{target.name}.{os.urandom(4).hex()}.tmp")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            with zstd.open(file, "wb", level=3) as packed:
                manifest = _archive(database, blobs, folder, authority, packed)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise StorageError(describe(error, target)) from error
    finally:
        beside.unlink(missing_ok=True)
    return manifest


def _archive(
    database: Database, blobs: BlobStore, folder: Path | None, authority: bool, packed: zstd.ZstdFile
) -> Manifest:
    files: list[Entry] = []
    with tarfile.open(fileobj=packed, mode="w|", format=tarfile.USTAR_FORMAT) as archive:
        with _snapshot(database) as tx:
            revision = str(revision_of(tx))
            for table in sorted(metadata.tables.values(), key=lambda table: table.name):
                with tempfile.TemporaryFile() as lines:
                    for row in _rows(tx, table):
                        lines.write(json.dumps(row, sort_keys=True).encode() + b"\n")
                    files.append(_add(archive, f"tables/{table.name}.jsonl", lines))
            needed, useful = _files_referred_to(tx)
        kept = set(blobs.names())
        for sha256 in sorted(needed | (useful & kept)):
            files.append(_add(archive, f"blobs/{sha256}", io.BytesIO(blobs.get(sha256))))
        if folder is not None and (folder / KEY).is_file():
            files.append(_add(archive, KEY, io.BytesIO(read_kept(folder / KEY))))
        for path, content in state_files(folder, authority=authority) if folder is not None else ():
            files.append(_add(archive, path, content))
        manifest = Manifest(format=FORMAT_VERSION, revision=revision, files=files)
        _add(archive, MANIFEST, io.BytesIO(msgspec.json.format(msgspec.json.encode(manifest))))
    return manifest


@contextmanager
def _snapshot(database: Database) -> Iterator[sa.Connection]:
    """A transaction that sees all tables as they are at one moment."""
    with database.reading() as tx:
        if tx.dialect.name == "postgresql":
            tx.execute(sa.text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        yield tx


def _rows(tx: sa.Connection, table: sa.Table) -> Iterator[dict[str, object]]:
    binary = [column.name for column in table.columns if isinstance(column.type, sa.LargeBinary)]
    query = sa.select(table).order_by(*table.primary_key.columns)
    for part in tx.execution_options(yield_per=ROWS_AT_ONCE).execute(query).mappings().partitions(ROWS_AT_ONCE):
        for row in part:
            values = dict(row)
            for name in binary:
                values[name] = None if values[name] is None else base64.b64encode(values[name]).decode()
            yield values


def _files_referred_to(tx: sa.Connection) -> tuple[set[str], set[str]]:
    """Files that a coordinator cannot do without, and those that it may still ask for."""
    models, rounds, updates = (metadata.tables[name] for name in ("models", "rounds", "updates"))
    needed = {name for row in tx.execute(sa.select(models.c.blob, models.c.optimizer)) for name in row if name}
    needed |= personal_files(tx)
    bodies = tx.execute(sa.select(updates.c.body)).scalars()
    return needed, {*bodies, *(base for base in tx.execute(sa.select(rounds.c.base)).scalars() if base)}


def _add(archive: tarfile.TarFile, path: str, content: IO[bytes]) -> Entry:
    entry = tarfile.TarInfo(path)
    content.seek(0)
    sha256 = hashlib.sha256()
    while block := content.read(1 << 20):
        sha256.update(block)
    entry.size, entry.mode = content.tell(), 0o600
    if entry.size >= TOO_LARGE:
        raise StorageError(f"{path} is too large for a backup: less than {TOO_LARGE >> 30} GiB fit.")
    if sha256.hexdigest() != (hash_in_name(path) or sha256.hexdigest()):
        raise StorageError(f"{path} is damaged: its content has another hash.")
    content.seek(0)
    archive.addfile(entry, content)
    return Entry(path, entry.size, sha256.hexdigest())
