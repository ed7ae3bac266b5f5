"""The update that is on its way, on disk until the coordinator says that it committed it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from auricle.errors import StorageError
from auricle.files import describe, sync_folder, write_durably
from auricle.wire.frames import CHUNK
from auricle.wire.messages import Update
from auricle.wire.tensors import digest


@dataclass(frozen=True)
class Pending:
    """An update and its body."""

    update: Update
    body: bytes

    def parts(self) -> list[tuple[Update, bytes]]:
        """The update as one message a chunk; each says its part and how many there are."""
        pieces = [self.body[i : i + CHUNK] for i in range(0, len(self.body), CHUNK)]
        return [
            (msgspec.structs.replace(self.update, part=i, parts=len(pieces)), piece) for i, piece in enumerate(pieces)
        ]


class Outbox:
    """One pending update at most: a newer round replaces it.

    Parameters
    ----------
    folder
        Where `pending.update` lies; made when it is first needed.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "pending.update"

    def put(self, pending: Pending) -> None:
        """Keep an update durably; only then may it be sent. StorageError: the disk cannot take it."""
        header = msgspec.msgpack.encode(pending.update)
        write_durably(self._path, len(header).to_bytes(4, "little") + header + pending.body)

    def read(self) -> Pending | None:
        """The pending update; None without one or when what lies there is not whole."""
        try:
            data = self._path.read_bytes()
            length = int.from_bytes(data[:4], "little")
            update = msgspec.msgpack.decode(data[4 : 4 + length], type=Update)
            body = data[4 + length :]
        except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        except OSError as error:
            raise StorageError(f"{self._path} cannot be read ({error.strerror}).") from error
        if not body or len(body) != update.length or digest(body) != update.body:
            return None
        return Pending(update, body)

    def clear(self) -> None:
        """Forget the pending update: it was acknowledged, or is of no more use. StorageError: the disk refuses."""
        try:
            self._path.unlink()
            sync_folder(self._path.parent)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(describe(error, self._path)) from error
