"""A first file system for a kernel: a cpio archive of the kind `newc`.

Source: Linux, Documentation/driver-api/early-userspace/buffer-format.rst
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

REGULAR, FOLDER = 0o100000, 0o040000
END = "TRAILER!!!"


@dataclass(frozen=True)
class File:
    """A file in it."""

    path: str
    data: bytes
    mode: int = 0o644


def archive(files: Sequence[File], folders: Sequence[str] = ()) -> bytes:
    """The archive: the folders, those that the files lie in, and the files."""
    parents = {path.rsplit("/", 1)[0] for path in (file.path for file in files) if "/" in path}
    parts = [_entry(path, b"", FOLDER | 0o755) for path in sorted({*folders, *parents})]
    parts += [_entry(file.path, file.data, REGULAR | file.mode) for file in files]
    return b"".join([*parts, _entry(END, b"", 0)])


def _entry(path: str, data: bytes, mode: int) -> bytes:
    name = path.encode() + b"\0"
    numbers = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
    return _padded(b"070701" + b"".join(b"%08X" % number for number in numbers) + name) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
