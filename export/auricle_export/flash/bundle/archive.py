"""Archives that are the same bytes each time: sorted, without owners, with one date."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from auricle.errors import SettingsError, StorageError
from auricle.files import describe, open_kept, sync_folder

EPOCH = "SOURCE_DATE_EPOCH"
EARLIEST = 315_532_800
"""1980-01-01: GNU tar warns of times at 0, and FAT has none before."""
LONGEST_NAME = 100
"""Characters of a file's name in a ustar archive."""

FIRST_IN_ZIP = (1980, 1, 1, 0, 0, 0)
"""The same date, as a zip archive keeps it."""


@dataclass(frozen=True)
class Part:
    """A file that goes into an archive."""

    content: bytes | Path
    """What it holds, or the file that holds it."""
    mode: int = 0o644

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.content) if isinstance(self.content, bytes) else self.content.stat().st_size

    @property
    def sha256(self) -> str:
        """In hex."""
        with self.open() as file:
            made = hashlib.sha256()
            while block := file.read(1 << 20):
                made.update(block)
        return made.hexdigest()

    def open(self) -> IO[bytes]:
        """The content, to be read."""
        return io.BytesIO(self.content) if isinstance(self.content, bytes) else open_kept(self.content)


def epoch() -> int:
    """The date of all files, in seconds since 1970; SettingsError when SOURCE_DATE_EPOCH is no such number."""
    text = os.environ.get(EPOCH, str(EARLIEST))
    if not text.isdecimal() or int(text) >= 1 << 33:
        raise SettingsError(f"{EPOCH} is {text!r}: it takes seconds since 1970.")
    return int(text)


def name_in_tar(wheel: str) -> str:
    """The file name of a wheel, with the first of its platforms alone where plain tar has no room for all of them."""
    name, _, platforms = wheel.rpartition("-")
    return wheel if len(wheel) <= LONGEST_NAME else f"{name}-{platforms.split('.')[0]}.whl"


def write_tar(to: IO[bytes], parts: Mapping[str, Part]) -> None:
    """Write an uncompressed tar of files by their names."""
    date = epoch()
    with tarfile.open(fileobj=to, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(parts):
            part = parts[name]
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = part.size, part.mode, date
            with part.open() as content:
                archive.addfile(entry, content)


def store_zip(files: Mapping[str, bytes], before: bytes = b"") -> bytes:
    """A zip archive of files in their order, not compressed.

    Parameters
    ----------
    before
        Goes before the archive: a first line that names an interpreter, as `zipapp` writes it.
    """
    written = io.BytesIO()
    written.write(before)
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, FIRST_IN_ZIP)
            info.create_system, info.external_attr = 3, 0o100644 << 16
            archive.writestr(info, content)
    return written.getvalue()


@contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes its place when it is whole; nothing is left of it otherwise.

    Raises
    ------
    StorageError
        The disk is full or the folder cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with beside.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
            sync_folder(path.parent)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(describe(error, path)) from error
