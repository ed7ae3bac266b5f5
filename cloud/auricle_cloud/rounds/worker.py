"""A worker: takes updates in beside others, while one coordinator of the same database leads the rounds.

Each update comes to one worker (a shared subscription), which checks, keeps and counts it, and answers after the
commit. It knows nothing of the round under way but what the database says; what it had in hand when it dies, devices
send again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import OrderedDict
from collections.abc import Awaitable, Sequence

from auricle.errors import AuricleError, StorageError
from auricle.mqtt_link.link import Delivery, LinkSettings, MqttLink
from auricle.packs.pack import Pack
from auricle.process.clock import SYSTEM_CLOCK
from auricle.wire.frames import device_of
from auricle.wire.identity import Identity
from auricle.wire.messages import DeviceState, Get, HearingReport, Loss, Register, Release, Status, Update
from auricle.wire.secure_sum.messages import SumAnswer
from auricle.wire.tensors import Flat, decode
from auricle.wire.vectors import Declared
from auricle_cloud.link.assembly import BUDGET_BYTES, PATIENCE_SECONDS
from auricle_cloud.link.inbox import Inbox
from auricle_cloud.link.keyed_queue import KeyedQueue
from auricle_cloud.link.ledger import Ledger
from auricle_cloud.link.messenger import Messenger
from auricle_cloud.rounds.chores import Chores, Every
from auricle_cloud.rounds.cohort_progress import mark_uncounted
from auricle_cloud.rounds.context import POLL, read_declared
from auricle_cloud.settings import RunSettings
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.blobs import open_blobs
from auricle_cloud.storage.part_records import SharedAssemblies
from auricle_cloud.storage.state_folders import KEY
from auricle_cloud.storage.store import Store

log = logging.getLogger("auricle.cloud")

MOST_AT_ONCE = 256
"""Messages in hand at a time; the socket is not read for more."""
GRACE_SECONDS = 10.0
"""For what is in hand when the worker is asked to stop."""
KEYS_SECONDS = 5.0
"""Seconds between two looks at whose key is believed; a device that is not known is looked for at once."""
AT_HAND = 4
"""Models that updates started from, and rounds whose updates are read, that are kept in memory."""


class Worker:
    """Takes in the updates of one task; the `Receiver` of its own inbox.

    Parameters
    ----------
    settings
        The run, with `worker`: as whom it connects.
    pack
        The task's pack.
    """

    def __init__(self, settings: RunSettings, pack: Pack) -> None:
        address = settings.worker
        assert address is not None and address.username is not None
        self._settings, self._pack, self._name = settings, pack, address.username
        self._store = Store(settings.database or "", durable=settings.durable)
        database = self._store.database
        database.follow()
        self._blobs = open_blobs(settings.blobs or settings.folder / "blobs", durable=settings.durable)
        identity = Identity.load_or_create(settings.folder / KEY, durable=settings.durable)
        self._messenger = Messenger(
            settings.fleet, settings.task, pack, identity, database.epoch or 0, os.urandom(8).hex(), self._blobs
        )
        self._inbox = Inbox(
            settings.fleet,
            pack.plugin_table,
            self._store,
            Ledger(self._store, self._blobs, awaited=self._awaits, expects=self._expects_updates),
            self,
            standing="approved" if settings.approval == "auto" else "pending",
            approve_claimed=settings.approval == "claimed",
            limits=settings.limits,
            declared=settings.preset.declared(pack),
            assemblies=SharedAssemblies(database, BUDGET_BYTES, PATIENCE_SECONDS),
            notes_presence=False,
        )
        self._lanes = KeyedQueue(MOST_AT_ONCE)
        link = LinkSettings(address, self._name, session_expiry=0, high_water=MOST_AT_ONCE)
        shared = self._messenger.topics.update_group(identity)
        self.link = self._messenger.link = MqttLink(link, handlers={shared: self._take})
        self._chores = Chores()
        self._keys = Every(KEYS_SECONDS, self._inbox.reload)
        self._flush = Every(KEYS_SECONDS, self._inbox.flush)
        self._looked = 0.0
        self._bases: OrderedDict[str, Flat] = OrderedDict()
        self._declared: OrderedDict[int, Sequence[Declared]] = OrderedDict()
        self._answered = (0, set[str]())
        """The newest round that it knows of, and whose updates it has answered in that."""

    async def run(self) -> None:
        """Take updates in until cancelled; what is in hand is still answered."""
        await self.link.start()
        try:
            while True:
                await SYSTEM_CLOCK.pause(POLL)
                work = {"reading of keys": self._keys, "journal of refusals": self._flush}
                await asyncio.to_thread(self._chores.do, work)
        finally:
            await self._lanes.drain(GRACE_SECONDS)
            await self.link.stop()
            with contextlib.suppress(StorageError):  # as of the coordinator
                await asyncio.to_thread(self._inbox.flush)
            self._store.close()

    def _take(self, arrived: Delivery) -> Awaitable[None] | None:
        """Take an update in hand, or return what waits for room; its device sends it again until it is answered."""
        return self._lanes.put(device_of(arrived.topic), lambda: self._handle(arrived))

    async def _handle(self, arrived: Delivery) -> None:
        known = device_of(arrived.topic) in self._inbox.keys
        if not known and SYSTEM_CLOCK.monotonic() > self._looked + POLL:  # it registered just now, with who leads
            self._looked = SYSTEM_CLOCK.monotonic()
            await asyncio.to_thread(self._inbox.reload)
        await self._inbox.handle(arrived)

    def _awaits(self, update: Update) -> bool:
        """Whether an update is the first of its device in the newest round here, which is judged as it is counted."""
        number, devices = self._answered
        return update.task == self._settings.task and update.round == number and update.device not in devices

    @staticmethod
    def _expects_updates(in_hand: int) -> bool:
        """Whether updates wait for others: always, while there is room, since only who leads knows how many come."""
        return 2 * in_hand < MOST_AT_ONCE

    # -- as the receiver of the inbox

    async def on_update(self, update: Update, verdict: Verdict) -> None:
        """An update was counted or refused: note that it does not count, and tell the device, as who leads."""
        number, devices = self._answered
        if update.round == number:
            devices.add(update.device)
        await asyncio.to_thread(mark_uncounted, self._store.rounds, update, verdict)
        self._messenger.epoch = self._store.database.epoch or 0
        await self._messenger.acknowledge(update, verdict)

    async def on_unregistered(self, device: str) -> None:
        """Somebody speaks who is not registered."""
        self._messenger.epoch = self._store.database.epoch or 0
        await self._messenger.greet(device)

    def base(self, sha256: str) -> Flat | None:
        """The model (P,) of this hash: the last few are kept at hand; None for one that no round started from."""
        if sha256 not in self._bases:
            try:
                self._bases[sha256] = decode(self._blobs.get(sha256), self._pack.plugin_table.size)
            except AuricleError:
                return None
            if len(self._bases) > AT_HAND:
                self._bases.popitem(last=False)
        return self._bases[sha256]

    async def declared(self, task: str, number: int) -> Sequence[Declared] | None:
        """The vectors that a round's updates may bring; None where it has not begun, or is of another task."""
        if task != self._settings.task:
            return None
        if number not in self._declared:
            place = (self._store, self._pack, task, number)
            known = await asyncio.to_thread(read_declared, *place, log.warning)
            if known is None:
                return None
            self._declared[number] = known
            if number > self._answered[0]:
                self._answered = number, set()
            if len(self._declared) > AT_HAND:
                self._declared.popitem(last=False)
        return self._declared[number]

    def refused(self, device: str, code: str, detail: str) -> None:
        """A frame was refused: the inbox writes it down."""

    async def on_register(self, message: Register) -> None:
        """Who leads hears this and what follows."""

    async def on_presence(self, message: DeviceState) -> None:
        """See `on_register`."""

    async def on_get(self, message: Get) -> None:
        """See `on_register`."""

    async def on_status(self, message: Status) -> None:
        """See `on_register`."""

    async def on_loss(self, message: Loss) -> None:
        """See `on_register`."""

    async def on_sum(self, message: SumAnswer) -> None:
        """See `on_register`."""

    async def on_release(self, message: Release, changed: list[tuple[str, str]]) -> None:
        """See `on_register`."""

    async def on_hearing(self, message: HearingReport) -> None:
        """See `on_register`."""

    async def on_kept(self, device: str) -> None:
        """See `on_register`."""

    async def on_taken(self, message: Register, reason: str) -> None:
        """See `on_register`."""
