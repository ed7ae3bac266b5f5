"""What the inbox stands on: how often a device may speak, what was refused of it, and who acts on the rest."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

from auricle.errors import StorageError
from auricle.wire.messages import DeviceState, Get, HearingReport, Loss, Register, Release, Status, Update
from auricle.wire.secure_sum.messages import SumAnswer
from auricle.wire.tensors import Flat
from auricle.wire.vectors import Declared
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.device_records import Devices

MOST = 1000
"""Pairs of a device and a reason kept at a time; further ones are only counted in all."""


class RateLimit:
    """Token buckets by name.

    Parameters
    ----------
    rate
        Tokens a second that flow into each bucket.
    burst
        Tokens a full bucket holds.
    names
        Buckets kept; beyond that the one that was longest unused is forgotten, and would be full again.
    clock
        Seconds, rising.
    """

    def __init__(
        self, rate: float, burst: float, *, names: int = 100_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._names, self._clock = rate, burst, names, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, tokens: float = 1.0) -> bool:
        """Take tokens out of a bucket; False, and nothing is taken, when they are not there."""
        now = self._clock()
        level, then = self._buckets.pop(name, (self._burst, now))
        level = min(self._burst, level + (now - then) * self._rate)
        allowed = tokens <= level
        self._buckets[name] = (level - tokens if allowed else level, now)
        if len(self._buckets) > self._names:
            self._buckets.popitem(last=False)
        return allowed


class Refusals:
    """Counts refusals by device and reason.

    Parameters
    ----------
    devices
        Where they are written down.
    """

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._lock = threading.Lock()
        self._pending: dict[tuple[str, str], tuple[int, str]] = {}

    def add(self, device: str, code: str, detail: str, count: int = 1) -> None:
        """Count a refusal; `detail` is the sentence of the last one."""
        with self._lock:
            before = self._pending.get((device, code))
            if before is not None or len(self._pending) < MOST:
                self._pending[device, code] = (count + (before or (0,))[0], detail)

    def flush(self) -> None:
        """Write down what came since the last time; StorageError when it has to wait for the next time."""
        with self._lock:
            pending, self._pending = self._pending, {}
        try:
            if pending:
                self._devices.add_refusals(pending)
        except StorageError:
            for (device, code), (count, detail) in pending.items():
                self.add(device, code, detail, count)
            raise


class Receiver(Protocol):
    """Who acts on messages that passed."""

    async def on_register(self, message: Register) -> None:
        """A device is known now."""

    async def on_presence(self, message: DeviceState) -> None:
        """A device came or went."""

    async def on_get(self, message: Get) -> None:
        """A device asks what is next."""

    async def on_status(self, message: Status) -> None:
        """A device says how it fares."""

    async def on_loss(self, message: Loss) -> None:
        """A device's inference loss."""

    async def on_sum(self, message: SumAnswer) -> None:
        """A device's keys or shares for the secure sum of a round; also where they were kept before."""

    async def on_update(self, update: Update, verdict: Verdict) -> None:
        """An update was counted or refused."""

    async def on_release(self, message: Release, changed: list[tuple[str, str]]) -> None:
        """A device says what it runs; its rollouts whose state for it changed, with that state."""

    async def on_hearing(self, message: HearingReport) -> None:
        """A device says how well it hears."""

    async def on_kept(self, device: str) -> None:
        """The broker had kept that a device is here, and nothing was heard of it yet."""

    async def on_taken(self, message: Register, reason: str) -> None:
        """Another board asks for the name of a registered one."""

    async def on_unregistered(self, device: str) -> None:
        """Somebody speaks who is not registered."""

    def base(self, sha256: str) -> Flat | None:
        """The model (P,) of this hash, if it is at hand."""

    async def declared(self, task: str, number: int) -> Sequence[Declared] | None:
        """The vectors that updates of a round may bring; None where nothing is known of the round."""

    def refused(self, device: str, code: str, detail: str) -> None:
        """A frame was refused; `code` is a word, `detail` the sentence."""
