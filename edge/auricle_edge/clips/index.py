"""The index of the clips: one SQLite file in WAL mode that several processes use at the same time."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auricle.errors import StorageError
from auricle.files import describe
from auricle_edge.clips.disk import Disk

VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS clips (
  id TEXT PRIMARY KEY, file TEXT NOT NULL UNIQUE, bytes INTEGER NOT NULL, sha256 TEXT NOT NULL,
  damaged INTEGER NOT NULL, record BLOB NOT NULL) WITHOUT ROWID;
"""
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "secure_delete=ON",
    "temp_store=MEMORY",
    "cache_size=-256",
    "wal_autocheckpoint=64",
    "journal_size_limit=262144",
)
_DAMAGE = (
    "malformed",
    "not a database",
    "no such table",
    "no such column",
    "unsupported file format",
    "closed database",
)
WAL_HEADER = 32
"""Bytes at the beginning of SQLite's write-ahead log without which it counts for nothing."""
AFTER = ("-wal", "-shm", "")
"""What SQLite adds to the name of its file."""


class DamagedIndexError(StorageError):
    """The index is not whole: it has to be made again from the clips' files."""


@dataclass(frozen=True)
class Row:
    """A clip in the index; `record` is JSON, sealed where there is a key."""

    id: str
    file: str
    size: int
    sha256: str
    damaged: bool
    record: bytes


class Index:
    """Rows and a few named numbers.

    Parameters
    ----------
    path
        The database; made where it is missing.
    patience
        Seconds to wait for another process's transaction.
    disk
        Hears of every commit.
    """

    def __init__(self, path: Path, patience: float, disk: Disk) -> None:
        self._path, self._patience, self._disk = path, patience, disk
        self._lock = threading.RLock()
        self._depth = 0
        self._undo: list[Callable[[], None]] = []
        self._connection = self._connect()

    def _connect(self) -> sqlite3.Connection:
        with self._errors():
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
            self._path.chmod(0o600)
            self._inode = self._path.stat().st_ino
            connection = sqlite3.connect(
                self._path, timeout=self._patience, isolation_level=None, check_same_thread=False
            )
            try:
                for pragma in _PRAGMAS:
                    connection.execute(f"PRAGMA {pragma}")
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise StorageError(f"{self._path} was written by a newer version of Auricle: install that one.")
        if version == VERSION:
            connection.execute("SELECT count(*) FROM clips, meta").fetchone()
            return
        with self._disk.announced("commit", self._path):
            connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version={VERSION}; COMMIT;")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Say what SQLite and the file system say as sentences."""
        try:
            yield
        except OSError as error:
            raise StorageError(describe(error, self._path)) from error
        except sqlite3.DatabaseError as error:
            said = str(error)
            if "is full" in said:
                full = f"The disk that holds {self._path} is full: free some space or choose another folder."
                raise StorageError(full) from error
            if "locked" in said:
                busy = f"Another process holds {self._path} for {self._patience:g} seconds now: try again."
                raise StorageError(busy) from error
            if any(sign in said for sign in _DAMAGE):
                raise DamagedIndexError(f"The index {self._path} is damaged ({said}).") from error
            raise StorageError(f"{self._path} cannot be used ({said}): check the disk and its permissions.") from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of what is done inside, or nothing; others wait. May be nested.

        Raises
        ------
        StorageError
            The disk is full or does not answer, or another process holds the index: nothing was changed.
        DamagedIndexError
            The index is not whole.
        """
        with self._lock:
            if self._depth:
                yield
                return
            self._follow()
            with self._errors():
                self._connection.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
                with self._disk.announced("commit", self._path), self._errors():
                    self._connection.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._depth -= 1
                self._undo.clear()

    def after_failure(self, undo: Callable[[], None]) -> None:
        """Within a transaction: what to do with files if it comes to nothing; the last one first."""
        self._undo.append(undo)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
        for undo in reversed(self._undo):
            with contextlib.suppress(StorageError):
                undo()

    def _follow(self) -> None:
        """Turn to the new file where another process made the index again."""
        try:
            same = self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            same = False
        if not same:
            self._connection.close()
            self._connection = self._connect()

    def _execute(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        with self._lock, self._errors():
            if not self._depth:
                self._follow()
            return self._connection.execute(statement, values).fetchall()

    def rows(self) -> list[Row]:
        """All rows, by id."""
        found = self._execute("SELECT id, file, bytes, sha256, damaged, record FROM clips ORDER BY id")
        return [Row(i, file, size, sha, bool(damaged), record) for i, file, size, sha, damaged, record in found]

    def has(self, clip: str) -> bool:
        """Whether there is such a row."""
        return bool(self._execute("SELECT 1 FROM clips WHERE id = ?", (clip,)))

    def put(self, row: Row) -> None:
        """Write a row, in the place of one with the same id."""
        with self.transaction():
            self._execute(
                "INSERT OR REPLACE INTO clips (id, file, bytes, sha256, damaged, record) VALUES (?, ?, ?, ?, ?, ?)",
                (row.id, row.file, row.size, row.sha256, int(row.damaged), row.record),
            )
            self._grow()

    def remove(self, clips: Iterable[str]) -> None:
        """Take rows out."""
        with self.transaction():
            for clip in clips:
                self._execute("DELETE FROM clips WHERE id = ?", (clip,))
            self._grow()

    def value(self, name: str) -> str | int | float | bytes | None:
        """A named value; None without one."""
        found = self._execute("SELECT value FROM meta WHERE name = ?", (name,))
        return found[0][0] if found else None

    def set_value(self, name: str, value: str | int | float) -> None:
        """Name a value."""
        with self.transaction():
            self._execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (name, value))

    def _grow(self) -> None:
        self.set_value("generation", int(self.value("generation") or 0) + 1)

    def check(self) -> None:
        """Raise DamagedIndexError when the file is not whole: every page and row is looked at."""
        said = self._execute("PRAGMA quick_check(1)")
        if said != [("ok",)]:
            raise DamagedIndexError(f"The index {self._path} is damaged ({said[0][0]}).")

    def scrub(self) -> None:
        """After rows were removed: leave nothing of them in the file, its free pages or its write-ahead log.

        `secure_delete` has zeroed them in the pages, VACUUM makes the file small, and the log is overwritten before it
        is cut to nothing. StorageError where another process reads on and on: do it again.
        """
        with self._lock, self._errors():
            with self._disk.announced("vacuum", self._path):
                self._connection.execute("VACUUM")
            while True:
                seen = self._connection.execute("PRAGMA data_version").fetchone()
                if self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0]:
                    raise sqlite3.OperationalError("database is locked")
                if self._overwritten_log(seen):
                    break
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _overwritten_log(self, seen: tuple[int]) -> bool:
        """Overwrite the log, all of which is in the database now; False where somebody wrote to it meanwhile.

        While the write lock is held nobody appends to it, and nobody reads a log that was checkpointed to its end. Its
        header goes first: with a header and half of its frames it would count again after a power cut.
        """
        log = self._path.with_name(self._path.name + "-wal")
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            if self._connection.execute("PRAGMA data_version").fetchone() != seen:
                return False
            if log.exists():
                self._disk.overwrite(log, first=WAL_HEADER)
            return True
        finally:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close it."""
        with self._lock:
            self._connection.close()


def destroy_index(path: Path, disk: Disk) -> None:
    """Overwrite and remove an index that is of no more use."""
    for after in AFTER:
        disk.destroy(path.with_name(path.name + after))
