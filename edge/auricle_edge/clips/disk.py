"""The files of the store: written so that a power cut leaves them whole or absent, and destroyed by overwriting.

Every step that changes the disk is announced to `step` before and after it, so that a test can cut the power there.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from auricle.errors import StorageError
from auricle.files import describe, sync_folder

BLOCK_BYTES = 1 << 20


class Disk:
    """Writes, destroys and syncs; all files are readable by their owner only."""

    def step(self, name: str, path: Path, old: Path | None = None) -> None:
        """Hear of a step that begins or has ended, and for a rename of the name before; a test overrides it."""

    @contextmanager
    def announced(self, name: str, path: Path, old: Path | None = None) -> Iterator[None]:
        """Announce what happens inside."""
        self.step(f"before {name}", path, old)
        yield
        self.step(f"after {name}", path, old)

    def folder(self, path: Path) -> None:
        """Make a folder that only its owner can enter, and make it survive; StorageError."""
        try:
            if not path.is_dir():
                with self.announced("mkdir", path):
                    path.mkdir(mode=0o700, parents=True)
                self.sync(path.parent)
            if stat.S_IMODE(path.stat().st_mode) != 0o700:
                path.chmod(0o700)
        except OSError as error:
            raise StorageError(describe(error, path)) from error

    def write(self, path: Path, data: bytes, *, lasting: bool = True) -> None:
        """Write a file durably: beside, synced, renamed, folder synced; StorageError leaves nothing behind.

        What need not last is not synced: who reads it has to see whether it is whole.
        """
        beside = path.with_name(f".{path.name}.tmp")
        try:
            with self.announced("create", beside):
                handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "wb", buffering=0) as file:
                os.fchmod(handle, 0o600)
                with self.announced("write", beside):
                    written = 0
                    while written < len(data):
                        written += file.write(data[written:])
                if lasting:
                    with self.announced("fsync", beside):
                        os.fsync(handle)
            with self.announced("rename", path, beside):
                beside.replace(path)
            if lasting:
                self.sync(path.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            raise StorageError(describe(error, path)) from error

    def destroy(self, path: Path) -> None:
        """Overwrite a file with noise in place, sync, remove it; nothing where it is missing. StorageError."""
        try:
            self.overwrite(path)
            with self.announced("unlink", path):
                path.unlink()
            self.sync(path.parent)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(describe(error, path)) from error

    def overwrite(self, path: Path, first: int = 0) -> None:
        """Overwrite a file with noise in place, and sync; the `first` bytes are synced before the rest is touched."""
        with path.open("r+b", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            for end in sorted({min(first, size) or size, size}):
                with self.announced("overwrite", path):
                    while file.tell() < end:
                        file.write(os.urandom(min(end - file.tell(), BLOCK_BYTES)))
                with self.announced("fsync", path):
                    os.fsync(file.fileno())

    def move(self, old: Path, new: Path) -> None:
        """Rename durably; needs no free space."""
        with self.announced("rename", new, old):
            old.replace(new)
        self.sync(new.parent)

    def sync(self, folder: Path) -> None:
        """Make renames and removals in a folder survive a power cut."""
        with self.announced("sync", folder):
            sync_folder(folder)
