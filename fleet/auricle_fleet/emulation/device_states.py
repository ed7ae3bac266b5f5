"""What devices of a virtual run have learnt: in memory as far as there is room, the rest as the checkpoint has it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from auricle_learning.training.train import LocalState

ROOM = 1 << 30
"""Bytes of states that stay in memory."""


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
