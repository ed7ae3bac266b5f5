"""A backup every night into a folder, of which the newest are kept; what became of it is in the journal."""

from __future__ import annotations

import re
import time
from pathlib import Path

from auricle.errors import StorageError
from auricle.files import describe, remove_file
from auricle.process.checkup import Verdict
from auricle.process.clock import Clock
from auricle.process.times import about, latest_at
from auricle_cloud.storage.backup import write_backup
from auricle_cloud.storage.blobs import BlobStore
from auricle_cloud.storage.store import Store

AT = "04:00"
BACKUPS = "backups"
"""Their folder in the state of a home's hub."""
OLD_SECONDS = 50 * 3600.0
"""The newest backup is that old after two nights without one."""
DONE, FAILED = "backup", "backup failed"
"""Kinds of events."""
NAME = "auricle-%Y-%m-%dT%H%M%S.tar.zst"
"""Of a file, by the local time at which it was begun: copies have other times of their own."""
_NAME = re.compile(r"auricle-\d{4}-\d\d-\d\dT\d{6}\.tar\.zst")


class NightlyBackup:
    """Writes them.

    Parameters
    ----------
    store, blobs, state
        What is saved; the coordinator goes on meanwhile.
    folder
        Where the files go: `auricle-2026-11-30T040012.tar.zst`, by the clock of this machine.
    keep
        So many of them stay.
    clock
        Whom it asks for the time.
    """

    def __init__(self, store: Store, blobs: BlobStore, state: Path, folder: Path, keep: int, clock: Clock) -> None:
        self._store, self._blobs, self._state, self._folder = store, blobs, state, folder
        self._keep, self._clock = keep, clock

    def look(self) -> None:
        """Write a backup if none was since the last night; StorageError where that cannot be."""
        now = self._clock.now()
        there = backups_in(self._folder)
        if there and _time_of(there[-1]) >= latest_at(AT, now):
            return
        name = time.strftime(NAME, time.localtime(now))
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            manifest = write_backup(self._store.database, self._blobs, self._state, self._folder / name)
        except OSError as error:
            raise self._note_failure(StorageError(describe(error, self._folder))) from error
        except StorageError as error:
            raise self._note_failure(error) from error
        for old in backups_in(self._folder)[: -self._keep]:
            remove_file(old, durable=True)
        self._store.journal.note(DONE, who="serve", detail=f"{self._folder / name}: {len(manifest.files)} files")

    def _note_failure(self, error: StorageError) -> StorageError:
        """Say it once: the next look tries again."""
        newest = self._store.journal.events(kind=FAILED, limit=1)
        if not newest or newest[0].detail != str(error)[:500] or self._clock.now() - newest[0].at > OLD_SECONDS:
            self._store.journal.note(FAILED, who="serve", detail=str(error))
        return error


def backups_in(folder: Path) -> list[Path]:
    """The backups in a folder, the newest last."""
    return sorted(path for path in folder.glob("auricle-*.tar.zst") if _NAME.fullmatch(path.name))


def how_old(folder: Path, now: float) -> tuple[Verdict, str]:
    """Whether the newest backup in a folder is of the last two nights."""
    there = backups_in(folder)
    if not there:
        return "bad", f"There is no backup in {folder} yet: auricle cloud backup FILE makes one."
    age = now - _time_of(there[-1])
    said = f"The newest of {len(there)} backups in {folder} is {about(age)} old."
    return ("bad" if age > OLD_SECONDS else "good"), said


def _time_of(backup: Path) -> float:
    return time.mktime(time.strptime(backup.name, NAME))
