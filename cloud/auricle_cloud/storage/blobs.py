"""Content-addressed files: a model, an update or a state is stored under its SHA-256 and never changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from auricle.errors import SettingsError, StorageError
from auricle.files import describe, sync_folder, write_durably
from auricle.tensors import digest

_NAME = re.compile(r"[0-9a-f]{64}")


class BlobStore(Protocol):
    """Where content-addressed files lie."""

    def put(self, data: bytes) -> str:
        """Keep bytes durably and return their SHA-256; StorageError when they cannot be kept."""

    def put_all(self, blobs: Sequence[bytes]) -> list[str]:
        """Keep several; all of them are durable when it returns."""

    def get(self, sha256: str) -> bytes:
        """Read a blob; StorageError when it is missing or damaged."""

    def remove(self, sha256: str) -> None:
        """Forget a blob that nothing refers to any more."""

    def names(self) -> Iterator[str]:
        """Every blob there is."""


def open_blobs(place: Path | str) -> BlobStore:
    """Open a folder, or an object store by its URL, e.g. `s3://bucket/prefix` (needs fsspec and its driver).

    Raises
    ------
    SettingsError
        The driver of the URL is not installed.
    """
    if isinstance(place, str) and "://" in place:
        return RemoteBlobs(place)
    return Blobs(Path(place))


def _checked(data: bytes, sha256: str) -> bytes:
    if digest(data) != sha256:
        raise StorageError(f"The blob {sha256} is damaged: its content has another hash.")
    return data


class Blobs:
    """A folder of content-addressed files.

    Parameters
    ----------
    folder
        Made when it is first needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, sha256: str) -> Path:
        """Where a blob lies."""
        return self._folder / sha256[:2] / sha256

    def put(self, data: bytes) -> str:
        """Keep bytes durably and return their SHA-256; StorageError when the disk cannot take them.

        What is already there is left alone, unless it is damaged: then it is written anew.
        """
        return self.put_all([data])[0]

    def put_all(self, blobs: Sequence[bytes]) -> list[str]:
        """Keep several; each folder is synchronised once."""
        names = [digest(data) for data in blobs]
        folders = set()
        for sha256, data in zip(names, blobs, strict=True):
            path = self.path(sha256)
            # Also of what is there: whoever wrote it may have failed before its folder was synchronised.
            folders |= {path.parent, self._folder}
            try:
                self.get(sha256)
            except StorageError:
                write_durably(path, data, settle=False)
        try:
            for folder in folders:
                sync_folder(folder)
        except OSError as error:
            raise StorageError(describe(error, self._folder)) from error
        return names

    def get(self, sha256: str) -> bytes:
        """Read a blob; StorageError when it is missing or damaged."""
        try:
            return _checked(self.path(sha256).read_bytes(), sha256)
        except OSError as error:
            raise StorageError(f"The blob {sha256} cannot be read ({error.strerror}).") from error

    def remove(self, sha256: str) -> None:
        """Forget a blob that nothing refers to any more; StorageError when the disk refuses."""
        try:
            self.path(sha256).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(describe(error, self.path(sha256))) from error

    def names(self) -> Iterator[str]:
        """Every blob there is."""
        for path in sorted(self._folder.glob("??/*")):
            if _NAME.fullmatch(path.name):
                yield path.name


class RemoteBlobs:
    """Content-addressed objects behind an fsspec URL, e.g. `s3://bucket/prefix`.

    Parameters
    ----------
    url
        Where they lie; credentials come from the driver's own environment.

    Raises
    ------
    SettingsError
        fsspec or the driver of this URL is not installed, or the URL cannot be used.
    """

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ModuleNotFoundError as error:
            raise SettingsError('Blobs behind a URL need fsspec: pip install "auricle[s3]"') from error
        try:
            self._files, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise SettingsError(f"Blobs cannot be kept at {url}: {error}") from error
        self._root: str = root.rstrip("/")

    def _path(self, sha256: str) -> str:
        return f"{self._root}/{sha256[:2]}/{sha256}"

    def put(self, data: bytes) -> str:
        """Keep bytes and return their SHA-256; StorageError when the object store refuses.

        What is already there is left alone, unless it is damaged: then it is written anew.
        """
        sha256 = digest(data)
        try:
            self.get(sha256)
        except StorageError:
            self._call("makedirs", self._path(sha256).rpartition("/")[0], exist_ok=True)
            self._call("pipe_file", self._path(sha256), data)
        return sha256

    def put_all(self, blobs: Sequence[bytes]) -> list[str]:
        """Keep several."""
        return [self.put(data) for data in blobs]

    def get(self, sha256: str) -> bytes:
        """Read a blob; StorageError when it is missing or damaged."""
        return _checked(self._call("cat_file", self._path(sha256)), sha256)

    def remove(self, sha256: str) -> None:
        """Forget a blob that nothing refers to any more."""
        if self._call("exists", self._path(sha256)):
            self._call("rm_file", self._path(sha256))

    def names(self) -> Iterator[str]:
        """Every blob there is."""
        for path in sorted(self._call("find", self._root)):
            name = str(path).rpartition("/")[2]
            if _NAME.fullmatch(name):
                yield name

    def _call(self, name: str, *arguments: object, **options: object) -> Any:
        try:
            return getattr(self._files, name)(*arguments, **options)
        except Exception as error:
            raise StorageError(f"The object store at {self._root} failed ({name}: {error}).") from error
