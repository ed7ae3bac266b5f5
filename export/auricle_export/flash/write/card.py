"""Writing an image: past the page cache, its first blocks last, then all of it read back and compared.

The first blocks hold the partition table: a card that was pulled out too early has none, and nothing boots from it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import lzma
import mmap
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Literal

from auricle.errors import AuricleError, DataError
from auricle_export.flash.write.disks import DiskError
from auricle_export.flash.write.image import Image

CHUNK_BYTES = 4 << 20
"""Bytes written at once: the size of a card's erase blocks, or a multiple of it."""
BLOCK_OF_FILES = 4096
BLKFLSBUF = 0x1261
"""linux/fs.h: forget what is cached of a block device."""

Step = Literal["writing", "checking"]
Heard = Callable[[Step, int], None]
"""Called with the step and the bytes that it has done."""


class InterruptedWriteError(AuricleError):
    """Somebody pressed Ctrl-C."""

    exit_code = 130


@dataclass(frozen=True)
class Written:
    """What was written and read back."""

    size: int
    sha256: str
    """Of the unpacked image."""


@dataclass(frozen=True)
class Target:
    """A disk or a file that is open for writing."""

    name: str
    descriptor: int
    block: int
    """Bytes that it writes at once."""

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(os.fstat(self.descriptor).st_mode)


@contextmanager
def open_target(path: Path, block: int | None = None) -> Iterator[Target]:
    """Open a disk, or a file, for writing past the page cache.

    Parameters
    ----------
    block
        Bytes that the disk writes at once; it is opened with O_EXCL, which the kernel refuses while anything uses it.
        None: a file, made if it is not there.

    Raises
    ------
    DiskError
        It is in use, read-only or empty, or only root may write to it; or it went away in between.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_TRUNC if block is None else os.O_EXCL)
    try:
        descriptor = _direct(path, flags)
    except OSError as error:
        raise DiskError(_reason(error, str(path))) from error
    try:
        yield Target(str(path), descriptor, block or BLOCK_OF_FILES)
    finally:
        # Whatever the last close has to tell, fsync told before.
        with suppress(OSError):
            os.close(descriptor)


def _direct(path: Path, flags: int) -> int:
    if sys.platform.startswith("linux"):
        try:
            return os.open(path, flags | os.O_DIRECT, 0o600)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
    return os.open(path, flags, 0o600)  # an image may hold keys and tokens


def write_image(image: Image, target: Target, heard: Heard) -> Written:
    """Write an image to a target and compare what is read back.

    Raises
    ------
    DataError
        The image ends early or is damaged.
    DiskError
        The target fails, was unplugged, or gives back something else.
    InterruptedWriteError
        Somebody pressed Ctrl-C.
    """
    step: Step = "writing"
    try:
        whole, sums = _write(image, target, heard)
        step = "checking"
        _check(target, image.size, sums, heard)
    except KeyboardInterrupt:
        raise InterruptedWriteError(_interruption(step, target.name)) from None
    except (EOFError, lzma.LZMAError) as error:
        raise DataError(
            f"{image.path} is damaged ({error}); nothing boots from {target.name} now: write another image."
        ) from error
    except OSError as error:
        raise DiskError(_reason(error, target.name)) from error
    return Written(image.size, whole)


def _write(image: Image, target: Target, heard: Heard) -> tuple[str, list[bytes]]:
    """Write all chunks, the first one last; SHA-256 of the whole and of each."""
    whole, sums = hashlib.sha256(), []
    first, place = b"", 0
    _put(target, memoryview(bytes(min(CHUNK_BYTES, image.size))), 0)
    with image.open() as stream, closing(_chunks(stream, image.size)) as chunks:
        for chunk in chunks:
            whole.update(chunk)
            sums.append(hashlib.sha256(chunk).digest())
            if place == 0:
                first = bytes(chunk)
            else:
                _put(target, chunk, place)
            place += len(chunk)
            heard("writing", place)
    os.fsync(target.descriptor)
    _put(target, memoryview(first), 0)
    if target.is_file:
        os.ftruncate(target.descriptor, image.size)
    os.fsync(target.descriptor)
    return whole.hexdigest(), sums


def _chunks(stream: BufferedIOBase, size: int) -> Generator[memoryview, None, None]:
    """The image in order; the next chunk is unpacked while this one is written.

    Raises
    ------
    EOFError
        There is more or less of it than was announced.
    """
    buffers = [memoryview(mmap.mmap(-1, CHUNK_BYTES)) for _ in range(2)]
    places = range(0, size, CHUNK_BYTES)
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(_fill, stream, buffers[0][: min(CHUNK_BYTES, size)])
        for turn, place in enumerate(places):
            ready = coming.result()
            left = min(CHUNK_BYTES, size - place - CHUNK_BYTES)
            if left > 0:
                coming = reader.submit(_fill, stream, buffers[(turn + 1) % 2][:left])
            yield ready
        if stream.read(1):
            raise EOFError("it is longer than it says")


def _fill(stream: BufferedIOBase, buffer: memoryview) -> memoryview:
    place = 0
    while place < len(buffer):
        count = stream.readinto(buffer[place:])
        if not count:
            raise EOFError("it ends early")
        place += count
    return buffer


def _put(target: Target, data: memoryview, place: int) -> None:
    """Write at a place, from aligned memory and padded by zeros to whole blocks, as O_DIRECT wants it."""
    length = -(-len(data) // target.block) * target.block
    with mmap.mmap(-1, length) as aligned, memoryview(aligned) as view:
        view[: len(data)] = data
        done = 0
        while done < length:
            with view[done:] as rest:
                done += os.pwrite(target.descriptor, rest, place + done)


def _check(target: Target, size: int, sums: list[bytes], heard: Heard) -> None:
    """Read everything back and compare."""
    _forget(target.descriptor)
    with mmap.mmap(-1, CHUNK_BYTES) as aligned, memoryview(aligned) as view:
        for number, expected in enumerate(sums):
            place = number * CHUNK_BYTES
            wanted = min(CHUNK_BYTES, size - place)
            with view[: _get(target.descriptor, view, place, wanted)] as back:
                if hashlib.sha256(back[:wanted]).digest() != expected:
                    raise DiskError(
                        f"{target.name} does not give back what was written, from byte {place:,} on: it is worn out, "
                        "or smaller than it says; take another one."
                    )
            heard("checking", place + wanted)


def _get(descriptor: int, view: memoryview, place: int, wanted: int) -> int:
    done = 0
    while done < wanted:
        with view[done:] as rest:
            count = os.preadv(descriptor, [rest], place + done)
        if not count:
            break
        done += count
    return done


def _forget(descriptor: int) -> None:
    """Drop what is cached, so that the medium itself is read; files have only the weaker way, other systems none."""
    if sys.platform.startswith("linux"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        with suppress(OSError):
            fcntl.ioctl(descriptor, BLKFLSBUF)


def _interruption(step: Step, target: str) -> str:
    if step == "writing":
        return f"Interrupted: {target} holds a part of the image, from which nothing boots; write it again."
    return f"Interrupted: {target} was written but not read back to the end; write it again to be sure."


def _reason(error: OSError, target: str) -> str:
    """Why a target could not be written, in a sentence."""
    sentences = {
        errno.EBUSY: "is in use by the system (mounted, or part of something); unmount it first.",
        errno.EACCES: "may be written to by root only: put sudo before the command.",
        errno.EPERM: "may be written to by root only: put sudo before the command.",
        errno.EROFS: "is read-only: move the lock of the card, or take another one.",
        getattr(errno, "ENOMEDIUM", errno.ENXIO): "has no medium: put a card in.",
        errno.ENOSPC: "is full: the image does not fit.",
        errno.ENOENT: "went away: plug it in again.",
        errno.ENXIO: "went away: plug it in again.",
        errno.ENODEV: "went away: plug it in again.",
        errno.EISDIR: "is a folder: name a disk, or a file with --file.",
    }
    told = sentences.get(
        error.errno or 0, f"failed ({error.strerror or error}): plug it in again, or take another one."
    )
    return f"{target} {told}"
