"""Content-addressed files: a model, an update or a state is stored under its SHA-256 and never changes."""

from __future__ import annotations

from pathlib import Path

from auricle.errors import StorageError
from auricle.files import describe, write_durably
from auricle.tensors import digest


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
        sha256 = digest(data)
        try:
            self.get(sha256)
        except StorageError:
            write_durably(self.path(sha256), data)
        return sha256

    def get(self, sha256: str) -> bytes:
        """Read a blob; StorageError when it is missing or damaged."""
        try:
            data = self.path(sha256).read_bytes()
        except OSError as error:
            raise StorageError(f"The blob {sha256} cannot be read ({error.strerror}).") from error
        if digest(data) != sha256:
            raise StorageError(f"The blob {sha256} is damaged: its content has another hash.")
        return data

    def remove(self, sha256: str) -> None:
        """Forget a blob that nothing refers to any more; StorageError when the disk refuses."""
        try:
            self.path(sha256).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(describe(error, self.path(sha256))) from error
