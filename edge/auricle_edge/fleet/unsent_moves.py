"""What the codec left out of a device's updates, on disk until the next update of the task takes it along.

It may only hold what the coordinator did not receive: what counted and is sent again counts twice. So the file has both
what the newest update left out and what was there before it, and what became of that update says which of them stays:

- it counted: what it left out;
- it did not count (late, closed, too stale, another one of the round counted, too large for the broker): what was
  there before, as if the device had taken no part. The trained moves themselves are lost, as those of a `float32`
  update are: a device that is late in every round would add them up until they are far too large;
- it was refused: nothing, for what was left out before may be why, and would be why again;
- nobody ever says (a newer round came before the answer, or the device ended between two files): what it left out,
  the one of the two that was surely not received.

Of another task or pack, or damaged, it is nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from auricle.errors import StorageError, WireError
from auricle.files import read_kept, remove_file, write_whole
from auricle.wire.kinds import UNDECODABLE, Sha256, Token
from auricle.wire.messages import Ack, Update
from auricle.wire.tensors import Flat, decode, digest, encode

FILE = "unsent.moves"
RECEIVED = ("accepted", "duplicate")


class _Note(msgspec.Struct, frozen=True):
    """What stands before the moves."""

    pack: Sha256
    task: Token
    update: Sha256
    """Of the body of the update that left the first ones out."""
    moves: Sha256
    """Of their bytes."""


@dataclass(frozen=True, eq=False)
class _Entry:
    note: _Note
    after: Flat
    """(P,) what the update left out."""
    before: Flat | None
    """(P,) what earlier ones had; None: nothing."""


class UnsentMoves:
    """Keeps them for one device.

    Parameters
    ----------
    folder
        The device's.
    pack, size
        Identity of the pack, and how many weights its plug-in has, P.
    durable
        They survive a power cut.
    """

    def __init__(self, folder: Path, pack: str, size: int, *, durable: bool = True) -> None:
        self._path, self._pack, self._size, self._durable = folder / FILE, pack, size, durable

    def of(self, task: str) -> Flat | None:
        """What the next update of a task takes along (P,); None: nothing. StorageError: the disk cannot be read."""
        entry = self._read()
        return None if entry is None or entry.note.task != task else entry.after

    def keep(self, update: Update, after: Flat | None) -> None:
        """Keep what an update leaves out (P,), before it leaves; None: it is whole. StorageError: the disk is full."""
        if after is None:
            remove_file(self._path, durable=self._durable)
        else:
            self._write(update.task, update.body, after, self.of(update.task))

    def settle(self, update: Update, ack: Ack | None) -> None:
        """Go by what became of an update, as often as it is said; None: it cannot arrive. StorageError as of `keep`."""
        entry = self._read()
        if entry is None or (entry.note.task, entry.note.update) != (update.task, update.body):
            return
        verdict = "" if ack is None else ack.verdict
        if verdict in RECEIVED or (ack is not None and verdict == "stale" and ack.weight > 0):
            return
        if entry.before is None or verdict.startswith("rejected"):
            remove_file(self._path, durable=self._durable)
        else:
            self._write(update.task, digest(b""), entry.before, None)

    def _write(self, task: str, update: str, after: Flat, before: Flat | None) -> None:
        moves = b"".join(encode(each) for each in (after, before) if each is not None)
        note = msgspec.msgpack.encode(_Note(self._pack, task, update, digest(moves)))
        write_whole(self._path, len(note).to_bytes(4, "little") + note + moves, durable=self._durable, mode=0o600)

    def _read(self) -> _Entry | None:
        try:
            data = read_kept(self._path)
            start = 4 + int.from_bytes(data[:4], "little")
            note, moves = msgspec.msgpack.decode(data[4:start], type=_Note), data[start:]
            length = 4 * self._size
            first, second = (decode(moves[at : at + length], self._size) for at in (0, max(0, len(moves) - length)))
        except (FileNotFoundError, WireError, *UNDECODABLE):
            return None
        except OSError as error:
            raise StorageError(f"{self._path} cannot be read ({error.strerror}).") from error
        if note.pack != self._pack or len(moves) not in (length, 2 * length) or digest(moves) != note.moves:
            return None
        return _Entry(note, first, second if len(moves) > length else None)
