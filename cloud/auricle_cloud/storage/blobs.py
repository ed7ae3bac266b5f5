"""Content-addressed files: a model, an update or a state is stored under its SHA-256 and never changes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from auricle.errors import StorageError
from auricle.files import describe, read_kept, sync_folder, write_whole
from auricle.wire.tensors import digest
from auricle_cloud.storage.pack_files import FEWEST, SMALL_BYTES, PackFiles
from auricle_cloud.storage.remote_blobs import NAME, RemoteBlobs, checked

ABANDONED_SECONDS = 3600.0
"""Seconds after which the beginning of a file belongs to a writer that was killed."""
FEW_BODIES = 8
"""Bodies of a folder up to which each is looked for by its name; of more, the folder is listed."""


class BlobStore(Protocol):
    """Where content-addressed files lie."""

    def put(self, data: bytes) -> str:
        """Keep bytes durably and return their SHA-256; StorageError when they cannot be kept."""

    def put_all(self, blobs: Sequence[bytes], names: Sequence[str] | None = None) -> list[str]:
        """Keep several; all of them are durable when it returns. `names`: their SHA-256, where the caller has it."""

    def get(self, sha256: str) -> bytes:
        """Read a blob; StorageError when it is missing or damaged."""

    def remove(self, sha256: str) -> None:
        """Forget a blob that nothing refers to any more."""

    def remove_all(self, names: Iterable[str]) -> None:
        """Forget several."""

    def names(self) -> Iterator[str]:
        """Every blob there is."""


def open_blobs(place: Path | str, *, durable: bool = True) -> BlobStore:
    """Open a folder, or an object store by its URL, e.g. `s3://bucket/prefix` (needs fsspec and its driver).

    What writers that were killed have left in a folder is removed.

    Parameters
    ----------
    place
        The folder or URL.
    durable
        See `Blobs`; object stores decide for themselves.

    Raises
    ------
    SettingsError
        The driver of the URL is not installed.
    """
    if isinstance(place, str) and "://" in place:
        if not place.startswith("file://"):
            return RemoteBlobs(place)
        place = unquote(urlsplit(place).path)
    blobs = Blobs(Path(place), durable=durable)
    blobs.sweep()
    return blobs


class Blobs:
    """A folder of content-addressed files.

    Parameters
    ----------
    folder
        Made when it is first needed.
    durable
        What was put survives a power cut; without, it survives the end of the process alone.
    """

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self._folder, self._durable = folder, durable
        # A name of two letters, so that `sweep` comes by.
        self._pack_files = PackFiles(folder / "up", durable=durable)
        self._entered: set[Path] = set()
        """Folders in it whose own names are durable, as far as is known here."""

    def path(self, sha256: str) -> Path:
        """Where a blob lies."""
        return self._folder / sha256[:2] / sha256

    def put(self, data: bytes) -> str:
        """Keep bytes and return their SHA-256; StorageError when the disk cannot take them.

        What is already there is left alone, unless it is damaged: then it is written again.
        """
        return self.put_all([data])[0]

    def put_all(self, blobs: Sequence[bytes], names: Sequence[str] | None = None) -> list[str]:
        """Keep several; many small ones share a file, and each folder is synchronised once."""
        names = [digest(data) for data in blobs] if names is None else list(names)
        if not names:
            return []
        self._pack_files.look()
        missing = {sha256: data for sha256, data in zip(names, blobs, strict=True) if not self._is_whole(sha256)}
        small = {sha256: data for sha256, data in missing.items() if len(data) <= SMALL_BYTES}
        together = small if len(small) >= FEWEST else {}
        self._pack_files.put(together)
        apart = {name for name in names if name not in together and (name in missing or name not in self._pack_files)}
        for sha256 in apart & missing.keys():
            write_whole(self.path(sha256), missing[sha256], durable=self._durable, settle=False)
        if not self._durable:
            return names
        # Folders of bodies that exist too: their writer may have failed before it synchronised the folder.
        folders = {self.path(sha256).parent for sha256 in apart}
        if apart != set(names):
            folders.add(self._pack_files.folder)
        try:
            for folder in folders if folders <= self._entered else {self._folder, *folders}:
                sync_folder(folder)
            self._entered |= folders
        except OSError as error:
            raise StorageError(describe(error, self._folder)) from error
        return names

    def _copies(self, sha256: str) -> Iterator[bytes]:
        yield from self._pack_files.copies(sha256)
        yield read_kept(self.path(sha256))

    def _is_whole(self, sha256: str) -> bool:
        if sha256 not in self._pack_files and not os.path.exists(f"{self._folder}/{sha256[:2]}/{sha256}"):  # noqa: PTH110 - of each update
            return False
        try:
            return any(digest(data) == sha256 for data in self._copies(sha256))
        except OSError:
            return False

    def get(self, sha256: str) -> bytes:
        """Read a blob; StorageError when it is missing or damaged."""
        if sha256 not in self._pack_files:
            self._pack_files.look()
        damaged = None
        try:
            for data in self._copies(sha256):
                if digest(data) == sha256:
                    return data
                damaged = data
        except OSError as error:
            if damaged is None:
                raise StorageError(f"The blob {sha256} cannot be read ({error.strerror}).") from error
        return checked(damaged or b"", sha256)

    def remove(self, sha256: str) -> None:
        """Forget a blob that nothing refers to any more; StorageError when the disk refuses."""
        self.remove_all([sha256])

    def remove_all(self, names: Iterable[str]) -> None:
        """Forget several; StorageError when the disk refuses one of them."""
        names = set(names)
        self._pack_files.remove(names)
        # Most lie in parcels alone: a look into the folders costs less than an attempt for each.
        by_folder: dict[str, set[str]] = {}
        for sha256 in names:
            by_folder.setdefault(sha256[:2], set()).add(sha256)
        for begin, wanted in by_folder.items():
            folder = self._folder / begin
            path = folder
            try:
                there = folder.iterdir() if len(wanted) >= FEW_BODIES and folder.is_dir() else ()
                apart = wanted & {each.name for each in there} if len(wanted) >= FEW_BODIES else wanted
                for path in (folder / sha256 for sha256 in apart):
                    path.unlink(missing_ok=True)
            except OSError as error:
                raise StorageError(describe(error, path)) from error

    def names(self) -> Iterator[str]:
        """Every blob there is."""
        self._pack_files.look()
        apart = {path.name for path in self._folder.glob("??/*") if NAME.fullmatch(path.name)}
        yield from sorted(apart | self._pack_files.names())

    def sweep(self) -> None:
        """Remove what writers that were killed have left.

        One that lives and is only very slow fails when it wants to give its file a name, and nothing is acknowledged.
        """
        for path in self._folder.glob("??/.*.tmp"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                    path.unlink()
