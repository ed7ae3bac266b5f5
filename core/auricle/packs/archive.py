"""The two forms of a pack on disk, read with limits: a `.tar.zst` of plain files, or a folder."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from backports import zstd
from backports.zstd import CompressionParameter, Strategy

from auricle.errors import PackError
from auricle.packs.manifest import LARGEST_PACK
from auricle.packs.plain_tar import BLOCK_BYTES, NotPlainError, Readable, members
from auricle.packs.zstd_frames import Frames

LARGEST_WINDOW = 16 << 20
"""Bytes that zstd may look back; a frame that asks for more memory is refused."""

PACKING: Mapping[int, int] = {
    CompressionParameter.compression_level: 19,
    CompressionParameter.window_log: 24,
    CompressionParameter.chain_log: 24,
    CompressionParameter.hash_log: 22,
    CompressionParameter.search_log: 7,
    CompressionParameter.min_match: 3,
    CompressionParameter.target_length: 256,
    CompressionParameter.strategy: Strategy.btultra2,
    CompressionParameter.enable_long_distance_matching: 1,
}
"""How hard zstd works on a pack, which is written once and sent to every board: level 19 for content of unknown size,
number by number, as zstd takes less for a size that it knows. Tests write theirs at a lower one."""


def tar_bytes(files: Iterable[tuple[str, bytes]]) -> bytes:
    """Files as `.tar.zst`, in their order: no times, no owners; the same files give the same bytes."""
    import tarfile

    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, content in files:
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return zstd.compress(raw.getvalue(), options=PACKING)


class PackedFiles(Mapping[str, bytes]):
    """Files by name, each compressed in memory and unpacked when it is asked for: a board needs few of a pack's graphs.

    Parameters
    ----------
    files
        Names and contents; taken one after the other.
    """

    def __init__(self, files: Iterable[tuple[str, bytes]] = ()) -> None:
        self._packed: dict[str, bytes] = {}
        self._facts: dict[str, tuple[int, str]] = {}
        for name, content in files:
            self.add(name, len(content), (content,))

    def add(self, name: str, size: int, content: Iterable[bytes]) -> None:
        """Enter a file of so many bytes that comes in blocks."""
        pack, sha256 = zstd.ZstdCompressor(1), hashlib.sha256()
        pack.set_pledged_input_size(size)
        blocks = []
        for block in content:
            sha256.update(block)
            blocks.append(pack.compress(block))
        # joined: what the compressor gives keeps as much memory as it might have needed
        self._packed[name] = b"".join([*blocks, pack.flush()])
        self._facts[name] = size, sha256.hexdigest()

    def facts(self, name: str) -> tuple[int, str]:
        """Bytes and SHA-256 of a file, without unpacking it."""
        return self._facts[name]

    def __getitem__(self, name: str) -> bytes:
        return zstd.decompress(self._packed[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    def __contains__(self, name: object) -> bool:
        return name in self._packed

    def _empty(self) -> PackedFiles:
        return PackedFiles()

    def only(self, names: Iterable[str]) -> PackedFiles:
        """Those files of these names, in this order."""
        kept = self._empty()
        kept._packed = {name: self._packed[name] for name in names}
        kept._facts = {name: self._facts[name] for name in kept._packed}
        return kept


class LeftFiles(PackedFiles):
    """Files that lie in a `.tar.zst` on disk, of which nothing is held: each time one is asked for it is read there.

    The archive stays open, so it may be renamed or removed meanwhile. What is read is held against what was read first.

    Parameters
    ----------
    files
        The files of that archive.
    path
        Where it is.

    Raises
    ------
    PackError
        On construction: it cannot be opened. On reading: it holds something else now.
    """

    def __init__(self, files: PackedFiles, path: Path) -> None:
        super().__init__()
        self._facts = {name: files.facts(name) for name in files}
        self._packed = dict.fromkeys(self._facts, b"")
        self._path = path
        try:
            self._archive = open_archive(path)
        except OSError as error:
            raise PackError(f"{path} cannot be read ({error.strerror}).") from error

    def _empty(self) -> PackedFiles:
        kept = LeftFiles.__new__(LeftFiles)
        kept._path, kept._archive = self._path, self._archive
        return kept

    def __getitem__(self, name: str) -> bytes:
        size, sha256 = self._facts[name]
        unpacked = Frames(_At(self._archive), LARGEST_WINDOW)
        try:
            for member, content in members(_Bounded(unpacked, str(self._path))):
                if member.name == name and member.size == size:
                    data = b"".join(content)
                    if hashlib.sha256(data).hexdigest() == sha256:
                        return data
                    break
        except (OSError, zstd.ZstdError, NotPlainError) as error:
            raise PackError(f"{self._path} cannot be read any more ({error}): start again.") from error
        raise PackError(f"{self._path} was changed while it was in use: start again.")


class _At(io.RawIOBase):
    """A file read from its start, with a place of its own: several threads may read one file."""

    def __init__(self, file: io.FileIO) -> None:
        self._file, self._place = file, 0

    def read(self, size: int = -1) -> bytes:
        block = os.pread(self._file.fileno(), BLOCK_BYTES if size < 0 else size, self._place)
        self._place += len(block)
        return block


def untar(data: bytes, where: str) -> PackedFiles:
    """The files of a `.tar.zst` by name.

    Raises
    ------
    PackError
        It is not one, is cut short, unpacks to more than `LARGEST_PACK`, or holds anything but plain files, once each.
        No file of it is ever in memory as a whole.
    """
    packed = PackedFiles()
    stream = _Bounded(Frames(io.BytesIO(data), LARGEST_WINDOW), where)
    try:
        for member, content in members(stream):
            if member.name in packed:
                raise PackError(f"{where} holds {member.name!r} twice: build or fetch it again.")
            packed.add(member.name, member.size, content)
        while stream.read(BLOCK_BYTES):
            """Read what is left, so that a cut or an endless archive shows."""
    except zstd.ZstdError as error:
        raise PackError(f"{where} is not a pack: it is not a .tar.zst archive, or it is damaged.") from error
    except NotPlainError as error:
        raise PackError(f"{where} is not a pack: {error}.") from error
    return packed


class _Bounded(io.RawIOBase):
    """What is unpacked, whatever size the archive claims for itself; PackError after `LARGEST_PACK`."""

    def __init__(self, unpacked: Readable, where: str) -> None:
        self._unpacked, self._where, self._left = unpacked, where, LARGEST_PACK

    def read(self, size: int = -1) -> bytes:
        block = self._unpacked.read(BLOCK_BYTES if size < 0 else size)
        self._left -= len(block)
        if self._left < 0:
            raise PackError(f"{self._where} unpacks to more than {LARGEST_PACK >> 20} MiB.")
        return block


def read_file(path: Path, largest: int = LARGEST_PACK) -> bytes:
    """A file that is no larger than it may be; of a larger one nothing is read.

    Raises
    ------
    PackError
        It is larger.
    """
    with open_archive(path) as file:
        data = file.read(min(largest, path.stat().st_size) + 1)
    if path.stat().st_size > largest or len(data) > largest:
        raise PackError(f"{path} holds more than {_size(largest)}.")
    return data


def open_archive(path: Path) -> io.FileIO:
    """A file to read; a pipe in its place, which would be waited for, is an OSError."""
    file = io.FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return file


def read_inside(folder: Path, name: str, size: int) -> bytes | None:
    """A file of a folder that is expected to have a size; None when it is not there.

    Raises
    ------
    PackError
        It is a link that leads out of the folder, or larger.
    """
    path = folder / name
    if not path.is_file():
        return None
    if not path.resolve().is_relative_to(folder.resolve()):
        raise PackError(f"{path} is a link that leads out of the pack.")
    return read_file(path, size)


def _size(largest: int) -> str:
    return f"{largest >> 20} MiB" if largest >= 1 << 20 else f"{largest} bytes"
