"""What all parts of one coordinator process share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from auricle.mqtt_link.deadline import within
from auricle.packs.pack import Pack
from auricle.wire.tensors import Flat, decode
from auricle_cloud.aggregation.bounded import BoundedRule
from auricle_cloud.aggregation.by_device import by_device
from auricle_cloud.aggregation.cohort import Cohort
from auricle_cloud.aggregation.compute.matrix import NumpyMatrix, Opener
from auricle_cloud.aggregation.server_optimizer import OptimizerState
from auricle_cloud.link.messenger import Messenger
from auricle_cloud.observing.announcements import Announcements
from auricle_cloud.observing.metrics import Metrics
from auricle_cloud.rounds.read_cohort import cohort_of
from auricle_cloud.settings import RoundDone, RunSettings
from auricle_cloud.states.selection import unfit
from auricle_cloud.storage.blobs import BlobStore
from auricle_cloud.storage.rows import DeviceRow, ModelRow, RoundRow, UpdateRow
from auricle_cloud.storage.store import Store

log = logging.getLogger("auricle.cloud")

POLL = 1.0
"""Seconds after which a wait looks at the database, where operators write."""

T = TypeVar("T")

Watcher = Callable[[RoundDone], Awaitable[None]]


class Pace:
    """Keeps looks at the database to a fifth of the time, however many devices there are."""

    def __init__(self) -> None:
        self._next = 0.0

    @property
    def due(self) -> bool:
        """Whether it is time to look again."""
        return time.monotonic() >= self._next

    async def look(self, work: Callable[[], T]) -> T:
        """Look, in a thread."""
        began = time.monotonic()
        found = await asyncio.to_thread(work)
        now = time.monotonic()
        self._next = now + min(POLL, 5 * (now - began))
        return found


@dataclass
class RoundContext:
    """One coordinator's settings, memory and voice."""

    settings: RunSettings
    pack: Pack
    store: Store
    blobs: BlobStore
    rule: BoundedRule
    messenger: Messenger
    announcements: Announcements
    metrics: Metrics
    watcher: Watcher | None = None
    opener: Opener = NumpyMatrix
    """Where a cohort's matrix is computed with."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    warned: set[str] = field(default_factory=set)
    presence_known: bool = False
    """Whether devices that were not heard since the coordinator started count as gone."""

    @property
    def task(self) -> str:
        """Name of the task."""
        return self.settings.task

    @property
    def horizon(self) -> int:
        """Rounds over which rates change."""
        return self.settings.rounds or self.settings.horizon

    def weights(self, blob: str) -> Flat:
        """The weights (P,) of a stored model."""
        return decode(self.blobs.get(blob), self.pack.plugin_table.size)

    def cohort(self, row: RoundRow, counted: Sequence[UpdateRow]) -> Cohort:
        """A synchronous round's updates as arrays: put onto the repaired model where they were trained from another."""
        sent = (row.detection or {}).get("trained_from")
        base_of = None if sent is None else lambda _: self.weights(sent)
        start = self.weights(row.begun.base)
        return self.read(start, counted, base_of)

    def read(self, start: Flat, counted: Sequence[UpdateRow], base_of: Callable[[int], Flat] | None = None) -> Cohort:
        """Updates as arrays, a row a device, with what it registered; parameters as of `cohort_of`."""
        registered = self.store.devices.registered({row.device for row in counted})
        return by_device(
            cohort_of(self.pack.plugin_table, start, counted, self.blobs, base_of, self.opener, registered)
        )

    def optimizer_after(self, model: ModelRow) -> OptimizerState | None:
        """The server optimizer's state after a model (its row); None before the first step."""
        saved = model.optimizer
        return self.optimizer_of(None if saved is None else self.blobs.get(saved))

    def optimizer_of(self, saved: bytes | None) -> OptimizerState | None:
        """A saved state of the server optimizer."""
        return None if saved is None else OptimizerState.from_bytes(saved, self.pack.plugin_table.size)

    def eligible(self) -> tuple[list[DeviceRow], dict[str, str]]:
        """Devices that can be invited now, and why the others cannot."""
        rows = self.store.devices.all()
        why = {row.device: unfit(row, self.pack.identity) for row in rows}
        fit = [row for row in rows if why[row.device] is None]
        return fit, {name: reason for name, reason in why.items() if reason is not None}

    async def all_heard(self) -> bool:
        """Whether every device that was here before the coordinator started has been heard, or counts as gone."""
        return self.presence_known or not await asyncio.to_thread(self.store.devices.unheard)

    async def wait_change(self, timeout: float = POLL) -> None:
        """Wait until something happened, or for some seconds."""
        self.changed.clear()
        try:
            await within(self.changed.wait(), max(0.01, timeout))
        except asyncio.TimeoutError:
            return

    def warn(self, *sentences: str | None) -> None:
        """Log what a rule or detection has to say, each sentence once (A13)."""
        for sentence in sentences:
            if sentence and sentence not in self.warned:
                self.warned.add(sentence)
                log.warning("%s: %s", self.rule.name, sentence)
