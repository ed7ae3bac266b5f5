"""The files of the clips in one folder: sealed where there is a key, named by clip and revision."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from auricle.errors import DataError, StorageError
from auricle.files import NotAFileError, describe, open_kept
from auricle.wire.kinds import UNDECODABLE
from auricle_edge.clips.coding import AUDIO, FEATURES, LARGEST_BYTES, Content, decode
from auricle_edge.clips.disk import Disk
from auricle_edge.clips.index import Row
from auricle_edge.clips.key import Plain, Seal
from auricle_edge.clips.record import Clip, Record

SEALED = ".sealed"
GONE = ".gone"
_NAME = re.compile(rf"([0-9a-f]{{12}})-[0-9a-f]{{8}}({AUDIO}|{FEATURES})({SEALED})?")


class GoneError(DataError):
    """There is no such file."""


@dataclass
class Shelf:
    """Where the files lie, and what opens them.

    Parameters
    ----------
    folder
        The files' folder.
    disk
        Writes and destroys them.
    seal
        Opens and closes them and the records of the index.
    """

    folder: Path
    disk: Disk
    seal: Seal | Plain

    def boxed(self, data: bytes, suffix: str, record: Record) -> tuple[Clip, bytes]:
        """A clip under a new file name, and the bytes to write there."""
        box = self.seal.close(data, f"clip {record.id}")
        file = f"{record.id}-{os.urandom(4).hex()}{suffix}{SEALED if self.seal.mark else ''}"
        return Clip(record=record, file=file, bytes=len(box), sha256=hashlib.sha256(box).hexdigest()), box

    def write(self, clip: Clip, box: bytes) -> None:
        """Write a clip's file durably; StorageError."""
        self.disk.folder(self.folder)
        self.disk.write(self.folder / clip.file, box)

    def content(self, file: str, sha256: str | None = None) -> tuple[Content, bytes]:
        """What a file holds, and its bytes as they lie on the disk.

        Raises
        ------
        GoneError
            It is not there.
        DataError
            It is not whole: a reason without a full stop.
        StorageError
            It cannot be read.
        """
        found = _NAME.fullmatch(file)
        if found is None:
            raise DataError("it is not named as a clip")
        path = self.folder / file
        try:
            with open_kept(path) as opened:
                box = opened.read(LARGEST_BYTES + 1)
        except FileNotFoundError as error:
            raise GoneError("its file is missing") from error
        except NotAFileError as error:
            raise DataError(str(error)) from error
        except OSError as error:
            raise StorageError(describe(error, path)) from error
        if len(box) > LARGEST_BYTES or (sha256 is not None and hashlib.sha256(box).hexdigest() != sha256):
            raise DataError("its file was changed or is not whole")
        if bool(found[3]) != bool(self.seal.mark):
            raise DataError("it was kept with encryption and there is no key" if found[3] else "it is not encrypted")
        content = decode(self.seal.open(box, f"clip {found[1]}"), found[2])
        if content.record.id != found[1]:
            raise DataError("it says that it is another clip")
        return content, box

    def adopted(self, file: str) -> Clip:
        """A file that the index does not know, as a clip; DataError where it is not whole."""
        content, box = self.content(file)
        digest = hashlib.sha256(box).hexdigest()
        return Clip(record=content.record, file=file, bytes=len(box), sha256=digest)

    def names(self) -> list[str]:
        """Names of all files, sorted; StorageError."""
        try:
            return sorted(path.name for path in self.folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageError(describe(error, self.folder)) from error

    def size(self, file: str) -> int:
        """Bytes of a file; 0 where it is missing."""
        try:
            return (self.folder / file).stat().st_size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise StorageError(describe(error, self.folder / file)) from error

    def doom(self, file: str) -> None:
        """Mark a file as one to destroy: from now on it is not a clip, even if the power is cut."""
        self._rename(file, f".{file}{GONE}")

    def revive(self, file: str) -> None:
        """Take the mark off again."""
        self._rename(f".{file}{GONE}", file)

    def _rename(self, old: str, new: str) -> None:
        try:
            self.disk.move(self.folder / old, self.folder / new)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(describe(error, self.folder / new)) from error

    def bury(self, file: str) -> None:
        """Destroy a file, doomed or not."""
        for name in (f".{file}{GONE}", file):
            self.disk.destroy(self.folder / name)

    def row(self, clip: Clip) -> Row:
        """A clip as it stands in the index."""
        record = self.seal.close(msgspec.json.encode(clip.record), f"row {clip.id}")
        return Row(clip.id, clip.file, clip.bytes, clip.sha256, clip.damaged, record)

    def clips(self, rows: list[Row]) -> Iterator[Clip]:
        """The clips of rows; a row that cannot be read is passed over: its file is adopted at the next start."""
        for row in rows:
            try:
                record = msgspec.json.decode(self.seal.open(row.record, f"row {row.id}"), type=Record)
            except (DataError, *UNDECODABLE):
                continue
            yield Clip(record=record, file=row.file, bytes=row.size, sha256=row.sha256, damaged=row.damaged)
