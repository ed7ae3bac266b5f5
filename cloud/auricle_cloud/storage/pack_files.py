"""Many small blobs in one file: a batch of updates costs a disk a few synchronisations, and not some for each.

A parcel is `AURP`, the number of its blobs, the SHA-256 and the length of each, and their bytes one after the other. It
is written once, whole or not at all, and removed when none of its blobs is wanted any more.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from auricle.errors import StorageError
from auricle.files import describe, open_kept, write_whole
from auricle.wire.tensors import digest

MAGIC = b"AURP"
_COUNT, _ENTRY = struct.Struct("<4sI"), struct.Struct("<32sQ")
SMALL_BYTES = 1 << 20
"""Bytes up to which a blob may share a file."""
LARGEST_BYTES = 4 << 20
"""Bytes of a parcel: so much memory it takes to write one."""
FEWEST = 2
"""Fewer than these are files of their own."""


class PackFiles:
    """The parcels of a folder; what others write into it or remove is seen by `look`.

    Parameters
    ----------
    folder
        Made when it is first needed.
    durable
        What is written survives a power cut, once the folder is synchronised.
    """

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder, self._durable = folder, durable
        self._lock = threading.Lock()
        self._wanted: dict[str, dict[str, tuple[int, int]]] = {}
        """By name of the parcel: offset and length of each blob that is wanted."""
        self._holders: dict[str, list[str]] = {}
        """By blob, the parcels that hold it."""

    def __contains__(self, sha256: str) -> bool:
        """Whether a parcel is known that holds this blob."""
        return sha256 in self._holders

    def put(self, blobs: Mapping[str, bytes]) -> None:
        """Keep blobs by their SHA-256; they are durable once the folder is synchronised.

        Raises
        ------
        StorageError
            The disk cannot take them.
        """
        batch: dict[str, bytes] = {}
        size = 0
        for sha256, data in blobs.items():
            if batch and size + len(data) > LARGEST_BYTES:
                self._write(batch)
                batch, size = {}, 0
            batch[sha256] = data
            size += len(data)
        if batch:
            self._write(batch)

    def _write(self, batch: Mapping[str, bytes]) -> None:
        entries = b"".join(_ENTRY.pack(bytes.fromhex(sha256), len(data)) for sha256, data in batch.items())
        header = _COUNT.pack(MAGIC, len(batch)) + entries
        name = f"{digest(header)}.parcel"
        content = b"".join([header, *batch.values()])
        write_whole(self.folder / name, content, durable=self._durable, settle=False)
        with self._lock:
            self._forget(name)
            self._enter(name, _places(header))

    def copies(self, sha256: str) -> Iterator[bytes]:
        """The bytes of a blob as the parcels have them, which may be damaged; none if no parcel is known to hold it."""
        with self._lock:
            places = [(name, *self._wanted[name][sha256]) for name in self._holders.get(sha256, ())]
        for name, offset, length in places:
            with contextlib.suppress(OSError), open_kept(self.folder / name) as file:
                file.seek(offset)
                yield file.read(length)

    def remove(self, names: Iterable[str]) -> None:
        """Want blobs no more; StorageError when a parcel is to go and the disk refuses.

        Parcels lose their names at once. A disk takes 10 ms to give up a large file: several go in a thread, and what
        is left of them if the process ends is swept as of a writer that was killed.
        """
        with self._lock:
            gone = [
                path for sha256 in names for name in self._release_parcels(sha256) if (path := self._put_aside(name))
            ]
        if len(gone) > 1:
            threading.Thread(target=_unlink, args=(gone,), name="auricle-parcels").start()
        else:
            _unlink(gone)

    def _release_parcels(self, sha256: str) -> Iterator[str]:
        """The parcels that nothing is wanted of any more without this blob."""
        for name in self._holders.pop(sha256, ()):
            del self._wanted[name][sha256]
            if not self._wanted[name]:
                del self._wanted[name]
                yield name

    def _put_aside(self, name: str) -> Path | None:
        """Rename a parcel to what `sweep` takes for the beginning of one; None where another process was first."""
        aside = self.folder / f".{name}.{os.urandom(4).hex()}.tmp"
        try:
            (self.folder / name).rename(aside)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(describe(error, self.folder / name)) from error
        return aside

    def names(self) -> set[str]:
        """Every blob that is wanted."""
        with self._lock:
            return set(self._holders)

    def look(self) -> None:
        """Learn of parcels that others wrote or removed."""
        try:
            there = {name for name in os.listdir(self.folder) if name.endswith(".parcel")}  # noqa: PTH208 - of each batch
        except OSError:  # who reads or writes there says what is wrong with it
            there = set()
        with self._lock:
            for name in self._wanted.keys() - there:
                self._forget(name)
            for name in there - self._wanted.keys():
                self._enter(name, _read(self.folder / name))

    def _enter(self, name: str, places: dict[str, tuple[int, int]]) -> None:
        self._wanted[name] = places
        for sha256 in places:
            self._holders.setdefault(sha256, []).append(name)

    def _forget(self, name: str) -> None:
        for sha256 in self._wanted.pop(name, ()):
            self._holders[sha256].remove(name)
            if not self._holders[sha256]:
                del self._holders[sha256]


def _unlink(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, tuple[int, int]]:
    """Where a parcel has its blobs; nowhere, if it is damaged or gone."""
    try:
        with open_kept(path) as file:
            start = file.read(_COUNT.size)
            magic, count = _COUNT.unpack(start)
            if magic == MAGIC and count * _ENTRY.size <= path.stat().st_size:
                return _places(start + file.read(count * _ENTRY.size))
    except (OSError, struct.error):
        pass
    return {}


def _places(header: bytes) -> dict[str, tuple[int, int]]:
    places, offset = {}, len(header)
    for sha256, length in _ENTRY.iter_unpack(header[_COUNT.size :]):
        places[sha256.hex()] = (offset, length)
        offset += length
    return places
