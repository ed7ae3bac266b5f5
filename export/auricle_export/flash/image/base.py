"""The system's image that cards are made from: unpacked once, then copied without its holes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import lzma
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from auricle.errors import StorageError
from auricle.files import describe
from auricle.process.checkup import size
from auricle_export.flash.image.partitions import ImageError
from auricle_export.flash.write.image import Image

PIECE_BYTES = 1 << 20
HOLE_BYTES = 1 << 16
"""Bytes: runs of zeros from this size on take no room."""
FICLONE = 0x40049409
"""Linux: let a file share the content of another."""

Progress = Callable[[int, int], None]
"""Called with how many bytes are done, and of how many."""


def unpack(source: Image, target: Path, progress: Progress | None = None) -> None:
    """Copy an image, unpacked where it is xz, to a sparse file.

    Parameters
    ----------
    progress
        Told of the bytes that are done, and of how many.

    Raises
    ------
    ImageError
        The file cannot be read, or its xz is damaged or not whole.
    StorageError
        The disk cannot take it.
    """
    done = 0
    try:
        with source.open() as stream, _writing(target) as out:
            while piece := stream.read(PIECE_BYTES):
                _put_sparse(out, piece)
                done += len(piece)
                if progress is not None:
                    progress(done, source.size)
            out.truncate(done)
    except (lzma.LZMAError, EOFError) as error:
        raise ImageError(f"{source.path} is not whole, or damaged: fetch it again.") from error
    except OSError as error:
        raise ImageError(f"{source.path} cannot be read ({error.strerror}): fetch it again.") from error


def copy(source: Path, target: Path) -> None:
    """Copy a file: sharing its content where the file system can, else without its holes. StorageError: no room."""
    with source.open("rb") as original, _writing(target) as out:
        if not _reflink(original, out):
            end = original.seek(0, 2)
            for first, last in _data(original, end):
                original.seek(first)
                out.seek(first)
                while first < last:
                    piece = original.read(min(PIECE_BYTES, last - first))
                    out.write(piece)
                    first += len(piece)
            out.truncate(end)


def require_room(folder: Path, count: int, each: int) -> None:
    """Make sure that a folder can take so many images of so many bytes. StorageError: it cannot, with both sizes."""
    needed, there = each * count, shutil.disk_usage(folder).free
    if needed > there:
        images = "1 image needs" if count == 1 else f"{count} images need"
        raise StorageError(
            f"{images} {size(needed)}, and {folder} has {size(there)} free: take another disk, or fewer at once."
        )


def room_of_copy(base: Path) -> int:
    """Bytes that a copy of a file in its own folder takes: none where the file system lets copies share."""
    return 0 if _can_share(base.parent) else base.stat().st_blocks * 512


def sha256(path: Path) -> str:
    """SHA-256 of a file, holes included, 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


@contextlib.contextmanager
def _writing(target: Path) -> Iterator[BinaryIO]:
    """A new file for its owner alone: images hold tokens and keys."""
    try:
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as out:
            yield out
    except OSError as error:
        if error.filename not in (None, str(target)):
            raise
        raise StorageError(describe(error, target)) from error


def _put_sparse(out: BinaryIO, piece: bytes) -> None:
    """Write what is not zero, and pass over what is."""
    for at in range(0, len(piece), HOLE_BYTES):
        part = piece[at : at + HOLE_BYTES]
        if any(part):
            out.write(part)
        else:
            out.seek(len(part), 1)


def _data(file: BinaryIO, end: int) -> Iterator[tuple[int, int]]:
    """Where a file has content: from, to."""
    at = 0
    while at < end:
        try:
            first = os.lseek(file.fileno(), at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        at = os.lseek(file.fileno(), first, os.SEEK_HOLE)
        yield first, at


def _reflink(original: BinaryIO, out: BinaryIO) -> bool:
    try:
        fcntl.ioctl(out.fileno(), FICLONE, original.fileno())
    except OSError:
        return False
    return True


def _can_share(folder: Path) -> bool:
    """Whether two files in a folder can share their content."""
    one, other = folder / f".share-{os.getpid()}-1", folder / f".share-{os.getpid()}-2"
    try:
        one.write_bytes(bytes(4096))
        with one.open("rb") as original, other.open("wb") as out:
            return _reflink(original, out)
    except OSError as error:
        raise StorageError(describe(error, folder)) from error
    finally:
        one.unlink(missing_ok=True)
        other.unlink(missing_ok=True)
