"""The coordinator: one asyncio process that runs a task's rounds over MQTT, with its state in the database.

It can be killed at any instant: whatever it does is a step from one row in the database to the next, and a coordinator
that starts goes on from the rows it finds. One that was overtaken by another writes nothing any more and stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from auricle.errors import StorageError, refuse_misfits_of
from auricle.mqtt_link.link import Delivery, LinkSettings, MqttLink, Will
from auricle.packs.manifest import SPECIAL_LABELS
from auricle.packs.pack import Pack
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle.wire.frames import UP, device_of
from auricle.wire.identity import Identity
from auricle.wire.tensors import Flat, encode
from auricle_cloud.evaluation.evaluator import Evaluator
from auricle_cloud.evaluation.labelled_clips import labelled_clips
from auricle_cloud.evaluation.validation_set import ValidationSet, load_validation
from auricle_cloud.link.inbox import Inbox
from auricle_cloud.link.keyed_queue import KeyedQueue
from auricle_cloud.link.ledger import Ledger
from auricle_cloud.link.messenger import Messenger
from auricle_cloud.observing.announcements import Announcements
from auricle_cloud.observing.metrics import Metrics
from auricle_cloud.ota.conductor import Conductor
from auricle_cloud.rounds.arrived_weights import ArrivedWeights
from auricle_cloud.rounds.asynchronous import Asynchronous
from auricle_cloud.rounds.closing import Closing
from auricle_cloud.rounds.context import RoundContext, Watcher
from auricle_cloud.rounds.dispatcher import Dispatcher
from auricle_cloud.rounds.poisoning import Judgement
from auricle_cloud.rounds.privacy import rule_of
from auricle_cloud.rounds.round_loop import RoundLoop
from auricle_cloud.rounds.synchronous import Synchronous
from auricle_cloud.rounds.upkeep import Tuner, Upkeep
from auricle_cloud.settings import NAME, RunSettings
from auricle_cloud.storage.blobs import open_blobs
from auricle_cloud.storage.database import Pulse
from auricle_cloud.storage.database_errors import SupersededError
from auricle_cloud.storage.release_folder import FOLDER
from auricle_cloud.storage.state_folders import KEY
from auricle_cloud.storage.store import FILE, Store
from auricle_learning.aggregation.compute.accelerator import choose

__all__ = ["NAME", "Coordinator", "Watcher"]

MOST_AT_ONCE = 256
"""Messages in hand at a time; the socket is not read for more."""

GRACE = 10.0
"""Seconds for what is in hand when the coordinator is asked to stop."""


@refuse_misfits_of
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
    clock
        Whom its rounds and chores ask for the time.

    Raises
    ------
    PackError
        The rule asks devices for what the pack's step graphs cannot do.
    """

    def __init__(
        self,
        settings: RunSettings,
        pack: Pack,
        watcher: Watcher | None = None,
        evaluator: Evaluator | None = None,
        probe: Callable[[str], None] = lambda _: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.settings, self.pack = settings, pack
        settings.preset.require_pack(pack)
        self.identity = Identity.load_or_create(settings.folder / KEY, durable=settings.durable)
        self.store = Store(settings.database or settings.folder / FILE, probe=probe, durable=settings.durable)
        self.blobs = open_blobs(settings.blobs or settings.folder / "blobs", durable=settings.durable)
        self.epoch = self.store.database.take_over()
        self.announcements, self.metrics = Announcements(), Metrics()
        messenger = Messenger(
            settings.fleet, settings.task, pack, self.identity, self.epoch, os.urandom(8).hex(), self.blobs
        )
        hidden = settings.privacy.clip is not None or settings.secure_sum.on
        rule = rule_of(settings.preset.method, settings.limits, hidden=hidden)
        opener = choose(settings.compute).opener
        arrived = ArrivedWeights(pack.plugin_table.size)
        self.site = RoundContext(
            settings,
            pack,
            self.store,
            self.blobs,
            rule,
            messenger,
            self.announcements,
            self.metrics,
            watcher,
            opener,
            arrived=arrived,
            clock=clock,
        )
        if settings.labelled is not None:
            told = settings.labelled
            clips = told if isinstance(told, ValidationSet) else load_validation(Path(str(told)), pack)
            self.site.labelled = labelled_clips(pack, clips, settings.seed)
        closing = Closing(self.site, evaluator)
        detection = settings.detection
        judgement = None if detection is None else Judgement(self.site, detection, evaluator)
        self.rounds = RoundLoop(self.site, Synchronous(self.site, judgement, closing), Asynchronous(self.site, closing))
        self.conductor = Conductor(self.store, messenger, self.announcements, settings.fleet)
        self.tuner = Tuner(self.store, messenger, clock)
        self.dispatcher = Dispatcher(self.site, self.rounds, self.conductor, self.tuner)
        self.inbox = Inbox(
            settings.fleet,
            pack.plugin_table,
            self.store,
            Ledger(
                self.store,
                self.blobs,
                settings.buffer.stale_limit,
                awaited=self.dispatcher.awaits,
                row=arrived.row,
                keep=arrived.put,
                expects=self._expects_updates,
            ),
            self.dispatcher,
            standing="approved" if settings.approval == "auto" else "pending",
            approve_claimed=settings.approval == "claimed",
            limits=settings.limits,
            declared=settings.preset.declared(pack),
        )
        self._lanes = KeyedQueue(MOST_AT_ONCE)
        topics = messenger.topics
        will = Will(topics.coordinator_state, messenger.presence(online=False))
        link = LinkSettings(settings.broker, NAME, will=will, high_water=MOST_AT_ONCE)
        said = ("up/+",) if settings.worker is None else tuple(f"up/{kind}" for kind in UP if kind != "upd")
        handlers = {f"{topics.prefix}/d/+/{what}": self._take for what in (*said, "state")}
        self.link = messenger.link = MqttLink(link, handlers=handlers, on_connect=self._born)
        self.upkeep = Upkeep(
            self.site, self.inbox, self.link, lambda: len(self._lanes), closing, self.conductor, self.tuner
        )

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
        ticking = asyncio.create_task(self.upkeep.run())
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
                await asyncio.to_thread(self.store.devices.forget_presence)  # who leaves now is not heard by anybody
                await asyncio.to_thread(
                    self.store.database.beat, Pulse(self.site.clock.now(), running=False, connected=False)
                )
            self.store.close()

    def _begin(self) -> None:
        """The task and its first model, what the run plans, and nothing that is not needed any more."""
        settings, store = self.settings, self.store
        start = self.pack.plugin_table.initial(settings.seed) if settings.start is None else settings.start
        if not self.site.presence_known:
            store.devices.forget_presence()
        elif store.devices.unheard():  # nor did the coordinator before this one know it yet
            self.site.presence_known = False
        store.models.begin(settings.task, self.pack.identity, self.blobs.put(encode(start)))
        words = [label for label in self.pack.labels if label not in SPECIAL_LABELS]
        store.hearing.name_keywords(self.pack.identity, words)
        if settings.rounds is not None:
            store.rounds.plan_up_to(settings.task, settings.rounds, mode=settings.mode, who="serve")
        with store.database.sweeping():
            self.blobs.remove_all(set(self.blobs.names()) - store.models.in_use_by_any())

    async def _rounds(self) -> None:
        await self.link.wait_connected(self.settings.connect_timeout)
        await self._offer()
        await self.rounds.run()

    async def _offer(self) -> None:
        current = await asyncio.to_thread(self.store.models.current, self.settings.task)
        await self.site.messenger.offer(current)
        await self.site.messenger.lend_again()

    async def _born(self, link: MqttLink) -> None:
        """On every connection: presence, and the model again, for a broker may have lost what it kept."""
        try:
            await asyncio.to_thread(self.upkeep.look)
        except SupersededError:
            return  # the upkeep finds out as well, and ends the process
        await self.site.messenger.be_present()
        self.upkeep.note_connection()
        await self._offer()

    def _take(self, arrived: Delivery) -> Awaitable[None] | None:
        """Take a message in hand, or return what waits for room.

        The broker may forget it then, for its device sends again until it hears from us.
        """
        device = device_of(arrived.topic)
        if arrived.retain and "/up/" in arrived.topic:
            return self._lanes.put(device, lambda: self.site.messenger.take_back(arrived.topic))
        if arrived.topic.endswith("/upd") and device in self.inbox.keys:
            self.dispatcher.update_came(device)
        return self._lanes.put(device, lambda: self.inbox.handle(arrived))

    def _expects_updates(self, in_hand: int) -> bool:
        """Whether updates wait for others to be counted with: the round does, and there is room for them."""
        return 2 * in_hand < MOST_AT_ONCE and self.rounds.progress.expects(in_hand)

    @property
    def releases(self) -> Path:
        """Folder of the signed releases that devices are offered."""
        return self.settings.folder / FOLDER

    def look_again(self) -> None:
        """An operator changed something: act on it at once, and tell who watches. Call it on the event loop."""
        self.site.stirred.set()
        self.site.changed.set()
        self.conductor.wake()
        self.tuner.wake()
        self.announcements.tell("plan")

    def weights(self, blob: str) -> Flat:
        """The weights (P,) of a stored model."""
        return self.site.weights(blob)
