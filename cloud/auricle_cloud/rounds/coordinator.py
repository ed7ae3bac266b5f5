"""The coordinator: one asyncio process that runs a task's rounds over MQTT, with its state in the database.

It can be killed at any instant: whatever it does is a step from one row in the database to the next, and a coordinator
that starts goes on from the rows it finds. One that was overtaken by another writes nothing any more and stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from auricle.errors import AuricleError, StorageError
from auricle.mqtt_link.link import Delivery, LinkSettings, MqttLink, Will
from auricle.packs.manifest import SPECIAL_LABELS
from auricle.packs.pack import Pack
from auricle.wire.identity import Identity
from auricle.wire.messages import DeviceState, Get, HearingReport, Loss, Register, Release, Status, Update
from auricle.wire.tensors import Flat, encode
from auricle_cloud.aggregation.bounded import BoundedRule
from auricle_cloud.aggregation.compute.accelerator import choose
from auricle_cloud.aggregation.rules import get_rule
from auricle_cloud.evaluation.evaluator import Evaluator
from auricle_cloud.link.inbox import Inbox, device_of
from auricle_cloud.link.keyed_queue import KeyedQueue
from auricle_cloud.link.ledger import Ledger
from auricle_cloud.link.messenger import Messenger
from auricle_cloud.link.tuner import Tuner
from auricle_cloud.observing.announcements import Announcements
from auricle_cloud.observing.hearing_watch import HearingWatch
from auricle_cloud.observing.metrics import ROLLOUTS, Metrics
from auricle_cloud.ota.conductor import Conductor
from auricle_cloud.ota.renewal import Renewal
from auricle_cloud.rounds.asynchronous import Asynchronous
from auricle_cloud.rounds.chores import Chores, Every
from auricle_cloud.rounds.closing import Closing
from auricle_cloud.rounds.context import POLL, RoundContext, Watcher
from auricle_cloud.rounds.poisoning import Judgement
from auricle_cloud.rounds.schedule import due
from auricle_cloud.rounds.synchronous import RoundFailedError, Synchronous
from auricle_cloud.settings import NAME, RunSettings
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.blobs import open_blobs
from auricle_cloud.storage.database import Pulse, SupersededError
from auricle_cloud.storage.hearing_records import DAY
from auricle_cloud.storage.release_folder import FOLDER
from auricle_cloud.storage.rows import DeviceRow
from auricle_cloud.storage.state_folders import KEY
from auricle_cloud.storage.store import FILE, Store

__all__ = ["NAME", "Coordinator", "Watcher"]

log = logging.getLogger("auricle.cloud")

MOST_AT_ONCE = 256
"""Messages in hand at a time; the socket is not read for more."""

TRIM = 300.0
"""Seconds between looks for events that are not kept any more; rounds may be rare, and events are not."""

BEAT = 10.0
"""Seconds between two rows that say that the coordinator works."""

HEARD_WITHIN = 10.0
"""Seconds after the first connection in which a device that was here before may still be heard."""

GRACE = 10.0
"""Seconds for what is in hand when the coordinator is asked to stop."""


class Coordinator:
    """Runs the rounds of one task.

    Parameters
    ----------
    settings
        The run.
    pack
        The task's pack; its plug-in is what is trained.
    watcher
        Awaited after every round.
    evaluator
        Judges models on the operator's validation set, where there is one.
    probe
        See `Database`.
    """

    def __init__(
        self,
        settings: RunSettings,
        pack: Pack,
        watcher: Watcher | None = None,
        evaluator: Evaluator | None = None,
        probe: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.settings, self.pack = settings, pack
        self.identity = Identity.load_or_create(settings.folder / KEY)
        self.store = Store(settings.database or settings.folder / FILE, probe=probe)
        self.blobs = open_blobs(settings.blobs or settings.folder / "blobs")
        self.epoch = self.store.database.take_over()
        self.announcements = Announcements()
        size = pack.plugin_table.size
        messenger = Messenger(
            settings.fleet, settings.task, pack, self.identity, self.epoch, os.urandom(8).hex(), self.blobs
        )
        wanted = get_rule(settings.preset.rule, **settings.preset.rule_options)
        rule = BoundedRule(wanted, settings.limits.share, settings.limits.prune_few)
        self.metrics = Metrics()
        opener = choose(settings.compute).opener
        self.site = RoundContext(
            settings, pack, self.store, self.blobs, rule, messenger, self.announcements, self.metrics, watcher, opener
        )
        self.chores = Chores()
        self._looking = threading.Lock()
        self._trim = Every(TRIM, lambda: self.store.journal.trim(settings.keep_events, settings.keep_audit))
        self.closing = Closing(self.site, evaluator)
        self.conductor = Conductor(self.store, messenger, self.announcements, settings.fleet)
        self.tuner = Tuner(self.store, messenger)
        self.renewal = Renewal(settings.folder, self.store)
        self.hearing = HearingWatch(self.store.hearing, self.metrics.hearing, settings.keep_hearing * DAY)
        detection = settings.detection
        judgement = None if detection is None else Judgement(self.site, detection, evaluator)
        self._synchronous = Synchronous(self.site, judgement, self.closing)
        self._asynchronous = Asynchronous(self.site, self.closing)
        self._runner: Synchronous | Asynchronous | None = None
        self._bases: dict[str, Flat] = {}
        standing: Literal["approved", "pending"] = "approved" if settings.approval == "auto" else "pending"
        ledger = Ledger(self.store, self.blobs, settings.buffer.stale_limit)
        self.inbox = Inbox(
            settings.fleet,
            size,
            self.store,
            ledger,
            self,
            standing=standing,
            approve_claimed=settings.approval == "claimed",
            limits=settings.limits,
        )
        self._lanes = KeyedQueue(MOST_AT_ONCE)
        self._connected_at: float | None = None
        self._next_beat, self._was_connected = 0.0, False
        self._said_waiting: set[str] = set()
        """Devices of which the log has said that they wait for approval."""
        self._standings: dict[str, str] = {}
        """What devices were told of their standing."""
        self._came: dict[str, float] = {}
        """When the last part of an update came, of devices that are registered."""
        topics = messenger.topics
        will = Will(topics.coordinator_state, messenger.presence(online=False))
        link = LinkSettings(settings.broker, NAME, will=will, high_water=MOST_AT_ONCE)
        handlers = {f"{topics.prefix}/d/+/{what}": self._take for what in ("up/+", "state")}
        self.link = messenger.link = MqttLink(link, handlers=handlers, on_connect=self._born)

    # -- life

    async def run(self) -> None:
        """Run all rounds that are due, then leave; cancelling leaves everything ready to go on.

        Raises
        ------
        SupersededError
            Another coordinator has taken over.
        """
        await asyncio.to_thread(self._begin)
        await self.link.start()
        ticking = asyncio.create_task(self._tick())
        rounds = asyncio.create_task(self._rounds())
        try:
            await asyncio.wait({ticking, rounds}, return_when=asyncio.FIRST_COMPLETED)
            for task in (ticking, rounds):
                if task.done():
                    task.result()
        finally:
            for task in (ticking, rounds):
                task.cancel()
            await asyncio.gather(ticking, rounds, return_exceptions=True)
            await self._lanes.drain(GRACE)
            await self.link.stop()
            with contextlib.suppress(StorageError):  # another coordinator has taken over, or the disk is full
                await asyncio.to_thread(self.inbox.flush)
                await asyncio.to_thread(self.store.database.beat, Pulse(time.time(), running=False, connected=False))
            self.store.close()

    def _begin(self) -> None:
        """The task and its first model, what the run plans, and nothing that is not needed any more."""
        settings, store = self.settings, self.store
        start = self.pack.plugin_table.initial(settings.seed) if settings.start is None else settings.start
        store.devices.forget_presence()
        store.models.begin(settings.task, self.pack.identity, self.blobs.put(encode(start)))
        words = [label for label in self.pack.labels if label not in SPECIAL_LABELS]
        store.hearing.name_keywords(self.pack.identity, words)
        if settings.rounds is not None:
            store.rounds.plan_up_to(settings.task, settings.rounds, mode=settings.mode, who="serve")
        used = store.models.in_use_by_any()
        for name in list(self.blobs.names()):
            if name not in used:
                self.blobs.remove(name)

    async def _rounds(self) -> None:
        settings, store = self.settings, self.store
        await self.link.wait_connected(settings.connect_timeout)
        await self.site.messenger.offer(await asyncio.to_thread(store.models.current, settings.task))
        await self._gather()
        while True:
            try:
                row = await asyncio.to_thread(store.rounds.due, settings.task)
            except SupersededError:
                raise
            except StorageError as error:  # as within a round: it comes back, and nothing is lost meanwhile
                log.error("rounds wait: %s", error)
                await asyncio.sleep(POLL)
                continue
            if row is not None:
                self._runner = self._asynchronous if row.mode == "async" else self._synchronous
                await self._go_on(self._runner, row.round)
                continue
            self._runner = None
            if settings.rounds is not None:
                return
            await self.site.wait_change()

    async def _go_on(self, runner: Synchronous | Asynchronous, number: int) -> None:
        """Run a round; where the database or the disk refuses, wait: whatever was not committed is done again."""
        try:
            await runner.run(number)
        except SupersededError:
            raise
        except StorageError as error:
            log.error("round %d waits: %s", number, error)
            await asyncio.sleep(POLL)
        except RoundFailedError as error:
            if self.settings.rounds is not None:
                raise
            log.error("%s", error)  # operators see it and decide: a service goes on

    async def _gather(self) -> None:
        """Wait for the devices the run was promised."""
        if self.settings.rounds is None:
            return
        until = time.monotonic() + self.settings.gather
        fit, _ = await asyncio.to_thread(self.site.eligible)
        while len(fit) < self.settings.devices and time.monotonic() < until:
            await self.site.wait_change(min(POLL, until - time.monotonic()))
            fit, _ = await asyncio.to_thread(self.site.eligible)
        known = await asyncio.to_thread(self.store.devices.all)
        if not known:
            raise AuricleError("No device registered: check that agents run, and that they name this broker and fleet.")
        own = self.site.pack.identity
        if all(row.pack != own for row in known):
            said = f"{known[0].device} has {known[0].pack[:12]}"
            raise AuricleError(f"No device registered with the pack {own[:12]}: {said}. Start both with one pack.")

    async def _tick(self) -> None:
        """Every second: what operators changed, what is to be published, what schedules say."""
        while True:
            await asyncio.sleep(POLL)
            await asyncio.to_thread(self._look)
            await self.chores.do_async({"presence of devices": self._settle_presence, "sign of life": self._beat})
            if self.link.connected:
                await self.chores.do_async(
                    {
                        "publishing of models": self.closing.send_outgoing,
                        "rollouts": self.conductor.look,
                        "tuning of devices": self.tuner.look,
                    }
                )
            self.site.changed.set()

    async def _beat(self) -> None:
        """Say every few seconds, and when the link comes or goes, that this coordinator works."""
        connected = self.link.connected
        if time.monotonic() < self._next_beat and connected == self._was_connected:
            return
        problem = "" if connected else self.link.last_error or ""
        await asyncio.to_thread(self.store.database.beat, Pulse(time.time(), connected=connected, problem=problem))
        self._next_beat, self._was_connected = time.monotonic() + BEAT, connected

    async def _settle_presence(self) -> None:
        """Devices that were here when the last coordinator stopped had time enough to answer this one."""
        since = self._connected_at
        if not self.site.presence_known and since is not None and time.monotonic() > since + HEARD_WITHIN:
            await asyncio.to_thread(self.store.devices.give_up_unheard)
            self.site.presence_known = True

    def _look(self) -> None:
        with self._looking:  # a connection looks, too: nothing is planned or signed twice
            self._do_chores()

    def _do_chores(self) -> None:
        if not self.chores.do({"database": self._require_epoch}):
            self.chores.do({"renewal of update metadata": self.renewal.look})  # others would wait for it in turn
            return
        self.chores.do(
            {
                "reading of keys": self.inbox.reload,
                "journal of refusals": self.inbox.flush,
                "journal of events": self._trim,
                "renewal of update metadata": self.renewal.look,
                "watch over hearing": self.hearing.look,
                "metrics": self._show_figures,
                "schedules": self._heed_schedules,
            }
        )

    def _require_epoch(self) -> None:
        """SupersededError when another coordinator has taken over."""
        with self.store.database.writing():
            pass

    def _heed_schedules(self) -> None:
        schedules = self.store.schedules.all()
        idle = len(self.site.eligible()[0]) if schedules else 0
        for schedule in due(schedules, time.time(), idle):
            if schedule.task == self.settings.task and self.store.rounds.due(self.settings.task) is None:
                planned = {"mode": self.settings.mode, "who": f"schedule {schedule.name}"}
                self.store.rounds.plan(self.settings.task, schedule.rounds, **planned)
                self.store.schedules.ran(schedule.name, time.time())

    def _show_figures(self) -> None:
        self.metrics.look(
            self.store.devices.all(),
            self.store.models.current(self.settings.task),
            connected=self.link.connected,
            waiting=len(self._lanes),
            unfinished=self.inbox.unfinished,
            rollouts=self.store.rollouts.watched(ROLLOUTS),
        )

    async def _born(self, link: MqttLink) -> None:
        """On every connection: presence, and the model again, for a broker may have lost what it kept."""
        try:
            await asyncio.to_thread(self._look)
        except SupersededError:
            return  # `_tick` finds out as well, and ends the process
        await self.site.messenger.be_present()
        self._connected_at = self._connected_at or time.monotonic()
        await self.site.messenger.offer(await asyncio.to_thread(self.store.models.current, self.settings.task))

    async def _take(self, arrived: Delivery) -> None:
        """Take a message in hand; the broker may forget it, for its device sends again until it hears from us."""
        device = device_of(arrived.topic)
        if arrived.retain and "/up/" in arrived.topic:
            await self._lanes.put(device, lambda: self.site.messenger.take_back(arrived.topic))
            return
        if arrived.topic.endswith("/upd") and device in self.inbox.keys:
            self._came[device] = time.monotonic()
        await self._lanes.put(device, lambda: self.inbox.handle(arrived))

    # -- what the inbox passes on

    async def on_register(self, message: Register) -> None:
        """A device is known now."""
        self.announcements.tell("device", device=message.device, online=True)
        self.conductor.came(message.device)
        self.tuner.came(message.device)
        row = await self._tell_standing(message.device)
        if row.standing == "pending" and self.settings.approval != "auto" and message.device not in self._said_waiting:
            self._said_waiting.add(message.device)
            log.warning("%s waits: auricle cloud devices approve %s", message.device, message.device)
        await self._idle(message.device)

    async def _tell_standing(self, device: str) -> DeviceRow:
        """Tell a device whether it may take part."""
        row = await asyncio.to_thread(self.store.devices.get, device)
        self._standings[device] = row.standing
        await self.site.messenger.tell_standing(device, row.standing, row.reason)
        return row

    async def on_taken(self, message: Register, reason: str) -> None:
        """Another board has the name of one that is registered: tell it, not the other."""
        await self.site.messenger.tell_standing(message.device, "refused", reason, message.public_key)

    async def on_presence(self, message: DeviceState) -> None:
        """A device came or went."""
        self.announcements.tell("device", device=message.device, online=message.online)
        self.site.changed.set()

    async def on_get(self, message: Get) -> None:
        """A device asks what is next."""
        if self._standings.get(message.device, "approved") != "approved":
            await self._tell_standing(message.device)
        await self._idle(message.device)

    async def released(self, message: Release, changed: list[tuple[str, str]]) -> None:
        """A device says what it runs."""
        await self.conductor.released(message, changed)

    async def reported(self, message: HearingReport) -> None:
        """A device says how well it hears."""
        self.announcements.tell("hearing", device=message.device)

    async def _idle(self, device: str) -> None:
        self.site.changed.set()
        if self._runner is not None:
            await self._runner.idle(device)

    async def on_status(self, message: Status) -> None:
        """A device says how it fares."""
        if self._runner is not None and message.task == self.settings.task:
            await self._runner.mark_failed(message)

    async def on_loss(self, message: Loss) -> None:
        """A device's inference loss."""
        self.announcements.tell("update", device=message.device, round=message.round, verdict="loss")
        await self._synchronous.on_loss(message)

    async def on_update(self, update: Update, verdict: Verdict) -> None:
        """An update was counted or refused: tell the round, so that it does not ask again, then the device."""
        if self._runner is not None and update.task == self.settings.task:
            await self._runner.on_update(update, verdict)
        await self._synchronous.note_late(update, verdict)
        await self.site.messenger.acknowledge(update, verdict)
        self.metrics.update(verdict.code, time.monotonic() - self._came.pop(update.device, time.monotonic()))
        self.announcements.tell("update", device=update.device, round=update.round, verdict=verdict.code)

    async def on_kept(self, device: str) -> None:
        """Nobody knows whether a device is here: ask it."""
        await self.site.messenger.greet(device)

    async def on_unregistered(self, device: str) -> None:
        """Somebody speaks who is not registered."""
        await self.site.messenger.greet(device)

    def refused(self, device: str, code: str, detail: str) -> None:
        """A frame was refused."""
        self.metrics.refusal(code)
        self.announcements.tell("refusal", device=device, code=code)

    def base(self, sha256: str) -> Flat | None:
        """The model (P,) of this hash: the last few are kept at hand; None for one that no round started from."""
        if sha256 not in self._bases:
            try:
                self._bases[sha256] = self.site.weights(sha256)
            except AuricleError:
                return None
            while len(self._bases) > 4:
                self._bases.pop(next(iter(self._bases)))
        return self._bases[sha256]

    @property
    def releases(self) -> Path:
        """Folder of the signed releases that devices are offered."""
        return self.settings.folder / FOLDER

    def look_again(self) -> None:
        """An operator changed something: act on it at once, and tell who watches. Call it on the event loop."""
        self.site.changed.set()
        self.conductor.wake()
        self.tuner.wake()
        self.announcements.tell("plan")

    def weights(self, blob: str) -> Flat:
        """The weights (P,) of a stored model."""
        return self.site.weights(blob)
