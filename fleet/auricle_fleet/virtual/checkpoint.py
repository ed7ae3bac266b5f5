"""What a virtual run goes on with: the newest model, and what every device had learnt when it was made.

A device has two files, of which the older one is written: until the note names the new round, the other one holds the
state of the round before. The note is written last and durably, and says with a digest which states belong to it.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from safetensors import SafetensorError
from safetensors.numpy import load, save

from auricle.errors import StorageError
from auricle.files import describe, read_kept, write_durably
from auricle.wire.kinds import UNDECODABLE
from auricle.wire.tensors import TensorTable, decode, encode
from auricle_edge.training.local_store import as_tensors, of_tensors
from auricle_fleet.virtual.model import Model
from auricle_learning.training.train import LocalState

NOTE = "virtual.msgpack"
ROOM = 1 << 30
"""Bytes of states that stay in memory."""
DAMAGED = "{} is damaged, so that this run cannot go on: begin another."


class Kept(msgspec.Struct, frozen=True):
    """A device's state on the disk."""

    side: int
    """Which of its two files, 0 or 1."""
    steps: int
    digest: str
    selected: int


class Note(msgspec.Struct, frozen=True):
    """After which round, and what belongs to it."""

    round: int
    pack: str
    models: tuple[tuple[bytes, bytes], ...]
    """The newest one and the one it was made from, where it is there: weights, and what is kept with them; empty before
    the first round."""
    devices: dict[str, Kept]
    own: tuple[dict[str, str], ...] = ()
    """Of each of the models: digests of those that devices begin with of their own, by device."""
    weights: dict[str, bytes] = {}
    """These models, by digest."""
    clock: float = 0.0
    """When the next round begins at the earliest, seconds since the run began."""
    watch: bytes = b""
    """What detection knows."""


class Checkpoint:
    """The checkpoint of one run.

    Parameters
    ----------
    folder
        Where it lies.
    pack, table
        Identity of the pack, and the table of its plug-in.
    """

    def __init__(self, folder: Path, pack: str, table: TensorTable) -> None:
        self._folder, self._pack, self._table = folder, pack, table
        self._devices: dict[str, Kept] = {}

    def read(self) -> Note | None:
        """The note; None where the run has none yet.

        Raises
        ------
        StorageError
            It is damaged, or of another pack.
        """
        place = self._folder / NOTE
        try:
            found = msgspec.msgpack.decode(read_kept(place), type=Note)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(describe(error, place)) from error
        except UNDECODABLE as error:
            raise StorageError(DAMAGED.format(place)) from error
        if found.pack != self._pack or not found.models:
            raise StorageError(f"{place} is of another pack: go on with the pack that the run began with.")
        self._devices = dict(found.devices)
        return found

    def models(self, note: Note) -> tuple[Model, Model | None]:
        """The newest model of a note, and the one that it was made from.

        Raises
        ------
        WireError
            They do not fit the plug-in.
        StorageError
            One that a device begins with is not there.
        """
        size = self._table.size
        decoded = {name: decode(weights, size) for name, weights in note.weights.items()}
        own = note.own or ({},) * len(note.models)
        try:
            found = [
                Model(decode(weights, size), kept or None, {device: decoded[name] for device, name in of.items()})
                for (weights, kept), of in zip(note.models, own, strict=True)
            ]
        except (KeyError, ValueError) as error:
            raise StorageError(DAMAGED.format(self._folder / NOTE)) from error
        return found[0], found[1] if len(found) > 1 else None

    def state(self, device: str) -> LocalState | None:
        """What a device had learnt; None where it had taken part in no round.

        Raises
        ------
        StorageError
            Its file is missing or damaged.
        """
        kept = self._devices.get(device)
        if kept is None or not kept.digest:
            return None
        place = self._file(device, kept.side)
        try:
            data = read_kept(place)
            if _digest(data) != kept.digest:
                raise StorageError(DAMAGED.format(place))
            return of_tensors(load(data), kept.steps)
        except (OSError, SafetensorError) as error:
            raise StorageError(DAMAGED.format(place)) from error

    def selected(self, device: str) -> int:
        """Rounds that a device was invited to."""
        kept = self._devices.get(device)
        return 0 if kept is None else kept.selected

    def write(
        self,
        number: int,
        model: Model,
        before: Model | None,
        changed: Mapping[str, LocalState],
        selected: Mapping[str, int],
        clock: float = 0.0,
        watch: bytes = b"",
    ) -> None:
        """Keep everything after a round.

        Parameters
        ----------
        model, before
            Of now, and of before the newest round.
        changed
            States that are not those of the last call.
        selected
            Rounds that devices were invited to, as far as that has changed; those of `changed` among them.
        clock
            When the next round begins at the earliest, seconds since the run began.
        watch
            What detection knows; empty without any.

        Raises
        ------
        StorageError
            The disk cannot take it; the checkpoint before still holds.
        """
        devices = dict(self._devices)
        devices |= {name: msgspec.structs.replace(self._of(name), selected=count) for name, count in selected.items()}
        for name, state in changed.items():
            data = save(as_tensors(state))
            side = 1 - devices[name].side
            self._put(self._file(name, side), data)
            devices[name] = Kept(side, state.steps, _digest(data), devices[name].selected)
        both = [each for each in (model, before) if each is not None]
        models = tuple((encode(each.weights), each.kept or b"") for each in both)
        written = [{device: encode(weights) for device, weights in each.own.items()} for each in both]
        own = tuple({device: _digest(data) for device, data in each.items()} for each in written)
        weights = {_digest(data): data for each in written for data in each.values()}
        note = Note(number, self._pack, models, devices, own, weights, clock, watch)
        write_durably(self._folder / NOTE, msgspec.msgpack.encode(note))
        self._devices = devices

    def _of(self, device: str) -> Kept:
        return self._devices.get(device, Kept(0, 0, "", 0))

    def _put(self, place: Path, data: bytes) -> None:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        except OSError as error:
            raise StorageError(describe(error, place)) from error

    def _file(self, device: str, side: int) -> Path:
        return self._folder / "devices" / device / f"state.{side}.safetensors"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class DeviceStates:
    """The newest state of each device that has learnt anything.

    Parameters
    ----------
    read
        Gives a device's state as the checkpoint has it; None where it has none.
    room
        Bytes that stay in memory once they are in the checkpoint.
    """

    def __init__(self, read: Callable[[str], LocalState | None], room: int = ROOM) -> None:
        self._read, self._room = read, room
        self._held: OrderedDict[str, LocalState] = OrderedDict()
        self._bytes = 0
        self.changed: set[str] = set()
        """Whose states the checkpoint does not have yet."""

    def get(self, device: str) -> LocalState | None:
        """What a device has learnt; None: nothing yet. StorageError where the checkpoint has lost it."""
        state = self._held.get(device)
        if state is None:
            state = self._read(device)
            if state is not None:
                self._hold(device, state)
        else:
            self._held.move_to_end(device)
        return state

    def put(self, device: str, state: LocalState) -> None:
        """Keep what a device has learnt now."""
        self._hold(device, state)
        self.changed.add(device)

    @property
    def is_full(self) -> bool:
        """Whether more is waiting for the checkpoint than there is room for."""
        return self._bytes > self._room and len(self.changed) > len(self._held) // 2

    def unkept(self) -> dict[str, LocalState]:
        """Those that the checkpoint does not have yet."""
        return {name: self._held[name] for name in sorted(self.changed)}

    def settle(self) -> None:
        """The checkpoint has all of them now: give back what there is no room for, the longest unused first."""
        self.changed = set()
        while self._bytes > self._room and self._held:
            self._bytes -= self._held.popitem(last=False)[1].nbytes

    def _hold(self, device: str, state: LocalState) -> None:
        before = self._held.pop(device, None)
        self._bytes += state.nbytes - (0 if before is None else before.nbytes)
        self._held[device] = state
        while self._bytes > self._room and (oldest := next(iter(self._held))) not in self.changed:
            self._bytes -= self._held.pop(oldest).nbytes
