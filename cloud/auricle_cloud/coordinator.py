"""The coordinator: one asyncio process that runs a task's rounds over MQTT, with its state in the database.

A round is opened with its cohort, collects updates until all are in or a quorum and time are, aggregates, and publishes
(PROTOCOL section 6). A coordinator that starts again goes on with the round it finds.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from auricle.errors import AuricleError
from auricle.frames import CHUNK, seal
from auricle.identity import Identity
from auricle.messages import Ack, CoordinatorState, Invite, Message, Model, Nothing, Plan, Status, Update
from auricle.mqtt import LinkSettings, MqttLink, Will
from auricle.mqtt_deadline import within
from auricle.pack import Pack
from auricle.tensors import Flat, decode, encode
from auricle.topics import Topics
from auricle_cloud.aggregation import NextModel, next_model
from auricle_cloud.blobs import Blobs
from auricle_cloud.inbox import Inbox
from auricle_cloud.rules import get_rule
from auricle_cloud.run_settings import RoundDone, RunSettings
from auricle_cloud.server_optimizer import OptimizerState
from auricle_cloud.store import Store

log = logging.getLogger("auricle.cloud")

NAME = "coordinator"


Watcher = Callable[[RoundDone], Awaitable[None]]


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
    """

    def __init__(self, settings: RunSettings, pack: Pack, watcher: Watcher | None = None) -> None:
        self.settings, self.pack, self._watcher = settings, pack, watcher
        self.topics = Topics(settings.fleet)
        self.identity = Identity.load_or_create(settings.folder / "coordinator.key")
        self.store = Store(settings.folder / "coordinator.db")
        self.blobs = Blobs(settings.folder / "blobs")
        self.epoch = self.store.next_epoch()
        self.boot = os.urandom(8).hex()
        self._rule = get_rule(settings.preset.rule, **settings.preset.rule_options)
        self._changed = asyncio.Event()
        self._invite: Invite | None = None
        self._cohort: set[str] = set()
        self._said: set[str] = set()
        self._failed: dict[str, str] = {}
        self._current: dict[str, Any] | None = None
        self._offered: list[str] = []
        self._warned: set[str] = set()
        table = pack.plugin_table
        self.inbox = Inbox(settings.fleet, pack.identity, table.size, self.store, self.blobs, self._answer, self._greet)
        will = seal(self.identity, self.topics.coordinator_state, self._presence(online=False))
        link = LinkSettings(settings.broker, NAME, will=Will(self.topics.coordinator_state, will), high_water=256)
        handlers = {f"{self.topics.prefix}/d/+/{what}": self.inbox.handle for what in ("up/+", "state")}
        self.link = MqttLink(link, handlers=handlers, on_connect=self._born)

    def _head(self, device: str = NAME) -> dict[str, Any]:
        return {"fleet": self.settings.fleet, "device": device, "boot": self.boot}

    def _presence(self, *, online: bool) -> CoordinatorState:
        return CoordinatorState(**self._head(), online=online, epoch=self.epoch)

    async def _send(self, topic: str, message: Message, *, retain: bool = False) -> None:
        await self.link.publish(topic, seal(self.identity, topic, message), retain=retain)

    # -- life

    async def run(self) -> None:
        """Run all rounds that are still due, then leave; cancelling leaves everything ready to go on."""
        await self.link.start()
        try:
            await self.link.wait_connected(self.settings.connect_timeout)
            current = self._first_model()
            await self._publish_model(current)
            await self._gather()
            last = self.store.last_round(self.settings.task)
            number = 1 if last is None else last["round"] + (last["state"] in ("published", "aborted"))
            while number <= self.settings.rounds:
                await self._round(number)
                number += 1
        finally:
            await self.link.stop()
            self.store.close()

    async def _born(self, link: MqttLink) -> None:
        """On every connection: presence, and the model again, for a broker may have lost what it kept."""
        await self._send(self.topics.coordinator_state, self._presence(online=True), retain=True)
        if self._current is not None:
            await self._offer(self._current)

    def _first_model(self) -> dict[str, Any]:
        """The current model, or version 0: what the run starts from, or drawn from its seed."""
        current = self.store.current_model(self.settings.task)
        if current is None:
            start = self.settings.start
            first = self.pack.plugin_table.initial(self.settings.seed) if start is None else start
            blob = self.blobs.put(encode(first))
            self.store.add_model(self.settings.task, 0, blob, None, None)
            current = self.store.current_model(self.settings.task)
            assert current is not None
        return current

    def weights(self, blob: str) -> Flat:
        """The weights (P,) of a stored model."""
        return decode(self.blobs.get(blob), self.pack.plugin_table.size)

    async def _gather(self) -> None:
        """Wait for the devices the run was promised."""
        until = time.monotonic() + self.settings.gather
        while self._ready() < self.settings.devices and time.monotonic() < until:
            await self._wait_change(until - time.monotonic())
        if not self._ready():
            raise AuricleError("No device registered: check that agents run, and that they name this broker and fleet.")

    def _ready(self) -> int:
        return sum(row["online"] and row["pack"] == self.pack.identity for row in self.store.devices())

    async def _wait_change(self, timeout: float) -> None:
        self._changed.clear()
        try:
            await within(self._changed.wait(), max(0.01, timeout))
        except asyncio.TimeoutError:
            return

    # -- answers to devices

    async def _answer(self, message: Message, what: str) -> None:
        """Answer a device's message after it was acted on, and wake the round."""
        self._changed.set()
        device, invite = message.device, self._invite
        if isinstance(message, Update):
            if what in ("accepted", "duplicate") and self._is_current(message.round):
                self._said.add(device)
            ack = Ack(**self._head(device), task=message.task, round=message.round, attempt=message.attempt,
                      epoch=self.epoch, body=message.body, verdict=what[:200])  # fmt: skip
            await self._send(self.topics.down(device, "ack"), ack)
        elif what in ("registered", "get"):
            if invite is not None and device in self._cohort - self._said - self._failed.keys():
                await self._invite_device(device)
        elif isinstance(message, Status) and what in ("failed", "declined") and self._is_current(message.round):
            self._failed[device] = message.reason

    def _is_current(self, number: int) -> bool:
        """Whether updates of this round are being collected."""
        return self._invite is not None and self._invite.round == number

    async def _greet(self, device: str) -> None:
        """Ask a device that is not registered to register."""
        await self._send(self.topics.down(device, "cmd"), Nothing(**self._head(device), epoch=self.epoch, again=True))

    async def _invite_device(self, device: str) -> None:
        assert self._invite is not None
        invite = msgspec.structs.replace(self._invite, device=device)
        await self._send(self.topics.down(device, "inv"), invite)

    # -- a round

    async def _round(self, number: int) -> None:
        """Run a round from the state in which it is: new, collecting, closing or aggregated."""
        task, began = self.settings.task, time.monotonic()
        last = self.store.last_round(task)
        state = last["state"] if last is not None and last["round"] == number else "new"
        self._failed = {}
        if state in ("new", "collecting") and not await self._collected(number, began):
            return
        if state != "aggregated":
            await self._make_model(number)
        model = self.store.current_model(task)
        assert model is not None
        await self._publish_model(model)
        counted = self.store.counted(task, number)
        self._forget(counted)
        self.store.set_state(task, number, "published")
        report = self.store.report(task, number)
        self._cohort = set(report["invited"])
        await self._tell(number, "published", self.weights(model["blob"]), began, len(counted), report)

    async def _collected(self, number: int, began: float) -> bool:
        """Invite and collect; True once the counted set is closed, False when the round was aborted."""
        task = self.settings.task
        await self._somebody()
        current = self.store.current_model(task)
        assert current is not None
        plan = self._open(number, current["blob"])
        self._said = {row["device"] for row in self.store.counted(task, number)}
        self._invite = self._invitation(number, current["blob"], plan)
        await asyncio.gather(*(self._invite_device(d) for d in sorted(self._cohort - self._said)))
        enough = await self._collect()
        self._invite = None
        if enough:
            self.store.set_state(task, number, "closing")
            return True
        report = {"invited": sorted(self._cohort), "failed": self._failures(), "reason": "no quorum at the deadline"}
        self.store.set_state(task, number, "aborted", report)
        counted = self.store.counted(task, number)
        self._forget(counted)
        await self._tell(number, "aborted", self.weights(current["blob"]), began, len(counted), report)
        if self._cohort and self._failed.keys() >= self._cohort:
            raise AuricleError(f"All devices failed in round {number}: {sorted(self._failed.values())[0]}")
        return False

    def _forget(self, counted: list[dict[str, Any]]) -> None:
        """Remove the bodies of a finished round's updates; one that is a model as well stays: a single update is."""
        for body in {row["body"] for row in counted} - self.store.kept_blobs(self.settings.task):
            self.blobs.remove(body)

    def _failures(self) -> dict[str, str]:
        """Who failed, and what they said."""
        return dict(sorted(self._failed.items()))

    async def _somebody(self) -> None:
        """Wait until at least one device is there: an empty fleet costs time, not rounds."""
        while not self._ready():
            log.warning("no device is online: waiting")
            await self._wait_change(30.0)

    async def _make_model(self, number: int) -> None:
        """Aggregate the counted set; model, report and the round's state change in one transaction."""
        task = self.settings.task
        current, last = self.store.current_model(task), self.store.last_round(task)
        assert current is not None
        assert last is not None
        counted = self.store.counted(task, number)
        made = await asyncio.to_thread(self._aggregate, number, current, counted)
        report: dict[str, Any] = {
            "invited": sorted(last["cohort"]), "failed": self._failures(), "updates": counted,
            "layers": made.aggregate.explain(), "flag": made.aggregate.flag,
            "dropped": list(made.aggregate.dropped), "warnings": list(made.aggregate.warnings),
        }  # fmt: skip
        self._warn([*made.aggregate.warnings, *([made.aggregate.flag] if made.aggregate.flag else [])])
        blob = self.blobs.put(encode(made.weights))
        optimizer = None if made.optimizer is None else self.blobs.put(made.optimizer.to_bytes())
        self.store.add_model(task, number, blob, optimizer, report)

    def _warn(self, sentences: list[str]) -> None:
        """Log what a rule has to say, each sentence once (A13)."""
        for sentence in sentences:
            if sentence not in self._warned:
                self._warned.add(sentence)
                log.warning("%s: %s", self.settings.preset.rule, sentence)

    def _open(self, number: int, base: str) -> Plan:
        """Enter the round, or take it up where an earlier process left it; sets the cohort."""
        task, last = self.settings.task, self.store.last_round(self.settings.task)
        if last is not None and last["round"] == number:
            self._cohort = set(last["cohort"])
            self.store.set_state(task, number, "collecting")
            return msgspec.msgpack.decode(last["plan"], type=Plan)
        able = [r["device"] for r in self.store.devices() if r["online"] and r["pack"] == self.pack.identity]
        size = max(1, round(self.settings.participation * len(able))) if able else 0
        chosen = random.Random(f"{self.settings.seed}/{number}").sample(sorted(able), size)
        plan = self.settings.preset.plan_for(number, self.settings.rounds, self.settings.seed)
        self._cohort = set(chosen)
        self.store.open_round(task, number, base, sorted(chosen), msgspec.msgpack.encode(plan))
        return plan

    def _invitation(self, number: int, blob: str, plan: Plan) -> Invite:
        return Invite(
            **self._head(), task=self.settings.task, round=number, epoch=self.epoch, base=blob,
            ttl=self.settings.deadline, plan=plan, length=self._length, codec="float32", chunks=self._chunks,
        )  # fmt: skip

    async def _collect(self) -> bool:
        """Wait until everybody has answered, or a quorum has and patience is over; False: no quorum at the deadline."""
        began = time.monotonic()
        quorum = max(1, math.ceil(self.settings.quorum * len(self._cohort) - 1e-9))
        reached: float | None = None
        while True:
            now = time.monotonic()
            waited = self._cohort - self._said - self._failed.keys()
            if len(self._said) >= quorum:
                reached = reached if reached is not None else now
                patience = max(self.settings.least_wait, self.settings.patience * (reached - began))
                until = min(began + self.settings.deadline, reached + patience)
                if not waited & self._online() or now >= until:
                    return True
            else:
                until = began + self.settings.deadline
                if now >= until or not self._cohort or (not waited and len(self._said) < quorum):
                    return False
            await self._wait_change(min(until - now, 1.0))

    def _online(self) -> set[str]:
        return {row["device"] for row in self.store.devices() if row["online"]}

    def _aggregate(self, number: int, current: dict[str, Any], counted: list[dict[str, Any]]) -> NextModel:
        saved = current["optimizer"]
        size = self.pack.plugin_table.size
        state = None if saved is None else OptimizerState.from_bytes(self.blobs.get(saved), size)
        return next_model(self.pack.plugin_table, self.weights(current["blob"]), counted, self.blobs, self._rule,
                          self.settings.preset.server_for(number, self.settings.rounds), state)  # fmt: skip

    async def _publish_model(self, model: dict[str, Any]) -> None:
        """Make a model the current one for all devices, and take back the chunks of the one before the last."""
        self._current = model
        await self._offer(model)
        if model["blob"] not in self._offered:
            self._offered.append(model["blob"])
        while len(self._offered) > 2:
            old = self._offered.pop(0)
            for i in range(self._chunks):
                await self.link.publish(self.topics.blob(old, i), b"", retain=True)

    @property
    def _chunks(self) -> int:
        return -(-self._length // CHUNK)

    @property
    def _length(self) -> int:
        return self.pack.plugin_table.size * 4

    async def _offer(self, model: dict[str, Any]) -> None:
        """Publish a model's chunks and its manifest, retained. Doing it again is harmless."""
        data = self.blobs.get(model["blob"])
        for i in range(self._chunks):
            await self.link.publish(self.topics.blob(model["blob"], i), data[i * CHUNK : (i + 1) * CHUNK], retain=True)
        manifest = Model(
            **self._head(), task=model["task"], version=model["version"], epoch=self.epoch, pack=self.pack.identity,
            blob=model["blob"], length=len(data), codec="float32", chunks=self._chunks, ttl=86400.0,
        )  # fmt: skip
        await self._send(self.topics.model, manifest, retain=True)

    async def _tell(
        self, number: int, state: str, model: Flat, began: float, counted: int, report: dict[str, Any]
    ) -> None:
        seconds = time.monotonic() - began
        log.info("round %d %s: %d of %d counted in %.1f s", number, state, counted, len(self._cohort), seconds)
        if self._watcher is not None:
            done = RoundDone(number, self.settings.rounds, state, model, seconds, len(self._cohort), counted, report)
            await self._watcher(done)
