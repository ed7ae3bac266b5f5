"""The agent: a device's side of the protocol. The same code on a board and, many times, in an emulated fleet.

States (PROTOCOL section 6): new -> idle -> invited -> ready -> training -> outbox -> sent -> idle on acknowledgement.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from auricle.errors import AuricleError, WireError
from auricle.mqtt_link.deadline import within
from auricle.mqtt_link.link import BrokerAddress, Delivery, LinkSettings, MqttLink, Will
from auricle.wire.frames import UPGRADE, open_frame, seal
from auricle.wire.identity import DEVICE_KEY, Identity
from auricle.wire.messages import (
    Abort,
    Ack,
    CoordinatorState,
    Invite,
    Measure,
    Message,
    Model,
    Nothing,
    Target,
    Tune,
    Update,
)
from auricle.wire.tensors import Flat, decode
from auricle.wire.topics import Topics
from auricle_edge.board.gate import Decision
from auricle_edge.fleet.device_messages import DeviceMessages
from auricle_edge.fleet.fetch import fetch_blob
from auricle_edge.fleet.fleet_pack import FleetPack, other_pack
from auricle_edge.fleet.gate_watch import Declined, GateWatch, RoundControl
from auricle_edge.fleet.outbox import Outbox, Pending
from auricle_edge.fleet.readiness import Readiness, require_room
from auricle_edge.fleet.report.period import HearingFigures
from auricle_edge.fleet.standing import Updates
from auricle_edge.listening.detect import DetectTable, detect_settings
from auricle_edge.listening.tuning import Tunable
from auricle_edge.training.judge.round_judge import RoundJudge, Verdict
from auricle_edge.training.judge.sound import Judging
from auricle_edge.training.local_store import LocalStore
from auricle_edge.training.speech_data import DataSource
from auricle_edge.training.train import LocalState, RoundResult, Trainer, TrainingStopped

log = logging.getLogger("auricle.edge")

REMEMBERED = 1024
"""Invitations of which a copy is recognised."""


@dataclass(frozen=True)
class AgentSettings:
    """What an agent is told before it starts."""

    device: str
    fleet: str
    broker: BrokerAddress
    folder: Path
    """Where its key, local model and outbox live."""
    coordinator: bytes
    """Public key of the coordinator, 32 bytes; nobody else is obeyed."""
    ask_every: float = 30.0
    """Seconds between questions for what is next, so that a lost invitation costs time and nothing else."""
    resend_every: float = 10.0
    """Seconds after which an update without an answer is sent again."""
    fetch_timeout: float = 60.0
    gate_every: float = 5.0
    """Seconds between two looks at the gate."""


class Agent:
    """One device.

    Parameters
    ----------
    settings
        Name, broker, folder.
    trainer
        Its models and clips.
    executor
        Where training runs, so that the link stays alive.
    gate
        Says whether the device trains now; called in a thread. Without, always.
    source
        Where its clips come from when they change while it runs; without, they are the trainer's.
    learnt
        Called in the training thread after each round that was trained to its end, with the plug-in (P,) to listen with
        and what came out; of a round that the judge refused, the local state in it is the one that stays.
    judging
        What the judge listens by, where the trainer's settings ask for one; without, the pack's own way of
        listening and its negatives.
    updates
        Follows updates; without, the agent neither says what it runs nor installs what it is told to.
    tuning
        Takes the sensitivity that the coordinator wants; without, the agent takes none.
    """

    def __init__(
        self,
        settings: AgentSettings,
        trainer: Trainer,
        executor: Executor,
        *,
        gate: Callable[[], Decision] | None = None,
        source: DataSource | None = None,
        learnt: Callable[[Flat, RoundResult], None] | None = None,
        updates: Updates | None = None,
        judging: Judging | None = None,
        tuning: Tunable | None = None,
    ) -> None:
        self.settings, self.trainer, self._executor = settings, trainer, executor
        self.topics = Topics(settings.fleet)
        self.boot = os.urandom(8).hex()
        self.state = "new"
        self.base: str | None = None
        """The fleet's model of the last round that was kept since the start."""
        self.fleet_pack: FleetPack | None = None
        """What the fleet runs; None: its coordinator has not said it yet."""
        self._identity = Identity.load_or_create(settings.folder / DEVICE_KEY)
        self._outbox = Outbox(settings.folder)
        pack = trainer.pack
        self._store = LocalStore(settings.folder, pack.identity, pack.table(trainer.architecture))
        self._local: LocalState = self._store.read() or self._store.previous() or trainer.first_state()
        self._judge: RoundJudge | None = None
        if trainer.settings.judge:
            listens = judging or Judging(detect_settings(DetectTable(), pack))
            self._judge = RoundJudge(trainer, listens, settings.folder)
        self._messages = DeviceMessages(settings.fleet, settings.device, self.boot, trainer)
        self.gate = GateWatch(gate, settings.gate_every, self._say_presence)
        self._readiness = Readiness(self.gate, trainer, source, executor)
        self._learnt, self._updates, self._tuning = learnt, updates, tuning
        self._epoch = 0
        self._round = 0
        self._coordinator_boot = ""
        self._work: asyncio.Task[None] | None = None
        self._answered = False
        self._settled: tuple[int, str, int] | None = None
        """Epoch, task and round of the newest acknowledgement: an invitation to it was on its way and is void."""
        self._asked: deque[str] = deque(maxlen=REMEMBERED)
        """Nonces of invitations and questions: one that comes again was recorded by somebody, or is a redelivery."""
        self._wake = asyncio.Event()
        self._disk = asyncio.Lock()
        """Held while the outbox changes: an acknowledgement must not clear what a newer round just put there."""
        self._blob: tuple[str, Flat] | None = None
        topic = self.topics.device_state(settings.device)
        will = seal(self._identity, topic, self._messages.presence(online=False, gate=self.gate.told))
        self.link = MqttLink(
            LinkSettings(settings.broker, settings.device, will=Will(topic, will)),
            handlers={
                self.topics.down(settings.device, "+"): self._heard,
                self.topics.coordinator_state: self._coordinator_said,
                self.topics.model: self._offered,
            },
            on_connect=self._born,
        )

    # -- life

    async def run(self) -> None:
        """Take part until cancelled; then say goodbye. Nothing that was trained is lost: the outbox keeps it."""
        await self.gate.look()
        await self.link.start()
        watch = asyncio.create_task(self.gate.run())
        try:
            while True:
                await asyncio.sleep(self.settings.ask_every * random.uniform(0.8, 1.2))
                if watch.done():
                    watch.result()
                if self._work is None or self._work.done():
                    await self._send(self._up("get"), self._messages.get(self._round))
        finally:
            self._halt()
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            await self.link.stop()

    async def _born(self, _link: MqttLink) -> None:
        """On every connection: birth, registration, and the outbox once more."""
        await self._send(self._up("reg"), self._messages.register(self._identity.public))
        await self._say_presence()
        self.state = "idle" if self.state == "new" else self.state
        await self.say_release()
        pending = self._outbox.read()
        if pending is not None:
            self._hand_over(pending)

    def _hand_over(self, pending: Pending) -> None:
        """Send the pending update, at once also when it is being waited for: somebody may have lost it."""
        if self._work is None or self._work.done():
            self._begin(self._deliver(pending))
        else:
            self._wake.set()

    async def _say_presence(self) -> None:
        """Birth, or another verdict of the gate: retained, so that it is known before the next invitation."""
        topic = self.topics.device_state(self.settings.device)
        step = None if self._tuning is None else self._tuning.told
        message = self._messages.presence(online=True, gate=self.gate.told, sensitivity=step)
        birth = seal(self._identity, topic, message)
        await self.link.publish(topic, birth, retain=True)

    async def say_release(self) -> None:
        """What the device runs, and how far an update has come."""
        if self._updates is not None:
            await self._send(self._up("rel"), self._messages.release(self._updates.standing()))

    async def say_hearing(self, number: int, figures: HearingFigures) -> None:
        """How well the device hears."""
        await self._send(self._up("hear"), self._messages.hearing(number, figures))

    def _up(self, kind: str) -> str:
        return self.topics.up(self.settings.device, kind)

    async def _send(self, topic: str, message: Message, body: bytes = b"") -> None:
        await self.link.publish(topic, seal(self._identity, topic, message, body))

    # -- what the coordinator says

    async def _heard(self, arrived: Delivery) -> None:
        try:
            message, _ = open_frame(arrived.payload, arrived.topic, lambda _: self.settings.coordinator)
        except WireError as error:
            log.warning("%s: ignored a message on %s: %s", self.settings.device, arrived.topic, error)
            if str(error) == UPGRADE:
                await self._send(self._up("st"), self._messages.outdated(self._round))
            return
        if message.device != self.settings.device or message.fleet != self.settings.fleet:
            return
        if isinstance(message, Invite | Measure | Ack | Nothing | Abort | Target | Tune):
            if message.epoch < self._epoch:
                log.warning("%s: ignored a message of an older coordinator", self.settings.device)
                return
            self._epoch = message.epoch
        if isinstance(message, Invite | Measure | Target | Tune):
            if message.nonce in self._asked:
                log.warning("%s: ignored an invitation that came before", self.settings.device)
                return
            self._asked.append(message.nonce)
        match message:
            case Invite():
                await self._invited(message)
            case Measure() if self._work is None or self._work.done():
                self._begin(self._say_loss(message))
            case Ack():
                await self._acknowledged(message)
            case Abort() if message.round == self._round:
                self._halt()
            case Nothing(again=True):
                await self._born(self.link)
            case Target() if self._updates is not None:
                await self._updates.follow(message)
                await self.say_release()
            case Tune() if self._tuning is not None:
                await self._tuned(self._tuning, message)
            case _:
                pass

    async def _tuned(self, tuning: Tunable, message: Tune) -> None:
        """Take the sensitivity, and say which one is in effect now."""
        try:
            await tuning.tune(message.sensitivity)
        except AuricleError as error:
            log.warning("%s: sensitivity %+d was not taken: %s", self.settings.device, message.sensitivity, error)
        await self._say_presence()

    async def _coordinator_said(self, arrived: Delivery) -> None:
        """Register again with a coordinator that started after us."""
        try:
            message, _ = open_frame(arrived.payload, arrived.topic, lambda _: self.settings.coordinator)
        except WireError as error:
            log.warning("%s: ignored the coordinator's state: %s", self.settings.device, error)
            return
        if not isinstance(message, CoordinatorState) or message.epoch < self._epoch:
            return
        if message.online and message.boot != self._coordinator_boot:
            self._coordinator_boot = message.boot
            self._epoch = message.epoch
            await self._born(self.link)

    @property
    def other_pack(self) -> str | None:
        """What to do where the fleet runs another pack than this device; None where it does not, or has not said."""
        return other_pack(self.settings.fleet, self.fleet_pack, self.trainer.pack)

    async def _offered(self, arrived: Delivery) -> None:
        """The fleet's newest model: a device with another pack is never invited, and its owner is told why."""
        try:
            message, _ = open_frame(arrived.payload, arrived.topic, lambda _: self.settings.coordinator)
        except WireError as error:
            log.warning("%s: ignored the fleet's model: %s", self.settings.device, error)
            return
        if not isinstance(message, Model) or message.epoch < self._epoch:
            return
        before, self.fleet_pack = self.other_pack, FleetPack.of(message)
        if self.other_pack not in (None, before):
            log.warning("%s", self.other_pack)

    async def _invited(self, invite: Invite) -> None:
        if (invite.epoch, invite.task, invite.round) == self._settled:
            return
        pending = await asyncio.to_thread(self._outbox.read)
        if pending is not None and (pending.update.task, pending.update.round) == (invite.task, invite.round):
            self._hand_over(pending)
            return
        if invite.round <= self._round and self._work is not None and not self._work.done():
            return
        self._halt()
        self._round = invite.round
        self.state = "invited"
        self._begin(self._take_part(invite))

    async def _acknowledged(self, ack: Ack) -> None:
        async with self._disk:
            pending = await asyncio.to_thread(self._outbox.read)
            if pending is None or _named(pending.update) != _named(ack):
                return
            await asyncio.to_thread(self._outbox.clear)
        self._settled = (ack.epoch, ack.task, ack.round)
        log.info(
            "%s: round %d attempt %d body %s epoch %d: %s",
            self.settings.device,
            ack.round,
            ack.attempt,
            ack.body,
            ack.epoch,
            ack.verdict,
        )
        if ack.verdict.startswith("rejected"):
            log.warning("%s: the update of round %d was %s", self.settings.device, ack.round, ack.verdict)
        self.state = "idle"
        self._answered = True
        self._wake.set()

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._work = asyncio.get_running_loop().create_task(self._guarded(work))

    async def _guarded(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except TrainingStopped:
            self.state = "idle"
        except Declined as reason:
            self.state = "idle"
            log.info("%s: declined: %s", self.settings.device, reason)
        except AuricleError as error:
            self.state = "idle"
            log.warning("%s: %s", self.settings.device, error)

    def _halt(self) -> None:
        if self.gate.control is not None:
            self.gate.control.stop()
        if self._work is not None and not self._work.done():
            self._work.cancel()
            self.state = "idle"

    async def rollback(self) -> LocalState:
        """Go back to the local state before the newest one, durably; the round under way is given up.

        Raises
        ------
        StorageError
            No earlier one is kept, or the disk refuses.
        """
        self._halt()
        self._local = await asyncio.to_thread(self._store.rollback)
        return self._local

    # -- a round

    async def _take_part(self, invite: Invite) -> None:
        deadline = time.monotonic() + invite.ttl
        await self._consent(invite)
        try:
            judged = 0 if self._judge is None else self._judge.nbytes
            await asyncio.to_thread(require_room, self.settings.folder, self._local.nbytes + invite.length + judged)
            plugin = await self._model(invite)
            self.state = "training"
            result, verdict = await self._train(invite, plugin, self.gate.begin(deadline - time.monotonic()))
            if verdict.received is not None:
                await self._send(self._up("st"), self._messages.status(invite, "training", verdict.received))
            if verdict.reason is not None:
                await self._refuse(verdict, result)
                raise Declined(verdict.reason)
            pending = self._pending(invite, result)
            async with self._disk:
                await asyncio.to_thread(self._keep, pending, result.local, verdict)
        except TrainingStopped:
            raise
        except AuricleError as error:
            await self._report(invite, error)
            raise
        log.info("%s: round %d intends body %s", self.settings.device, invite.round, pending.update.body)
        self._local = result.local
        self.base = invite.base
        await self._let_listen(verdict.listen, result)
        self.state = "outbox"
        await self._deliver(pending)

    async def _refuse(self, verdict: Verdict, result: RoundResult) -> None:
        """Keep nothing of a round, and go back to the best state where the one before was worse than it."""
        if verdict.back is not None:
            await asyncio.to_thread(self._store.save, verdict.back)
            self._local = verdict.back
            log.info("%s: went back to its best state", self.settings.device)
        if self._judge is not None:
            await asyncio.to_thread(self._judge.keep, verdict)
        await self._let_listen(verdict.listen, replace(result, local=self._local))

    async def _let_listen(self, plugin: Flat, result: RoundResult) -> None:
        if self._learnt is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._learnt, plugin, result)

    async def _consent(self, asked: Invite | Measure) -> None:
        """Go on, or report why not; the coordinator hears how many clips there are now."""
        try:
            await self._readiness.require_gate()
            if await self._readiness.renew():
                await self._send(self._up("reg"), self._messages.register(self._identity.public))
            self._readiness.require_clips()
        except AuricleError as error:
            await self._report(asked, error)
            raise

    async def _report(self, asked: Invite | Measure, error: AuricleError) -> None:
        state: Literal["declined", "failed"] = "declined" if isinstance(error, Declined) else "failed"
        await self._send(self._up("st"), self._messages.status(asked, state, str(error)))

    async def _say_loss(self, asked: Measure) -> None:
        """Answer the first phase of a two-phase round; a lost answer is asked for again."""
        await self._consent(asked)
        plugin = await self._model(asked)
        loop = asyncio.get_running_loop()
        value = await loop.run_in_executor(self._executor, self.trainer.inference_loss, plugin)
        await self._send(self._up("loss"), self._messages.loss(asked, value))

    async def _model(self, invite: Invite | Measure) -> Flat:
        """The round's model, fetched unless it is the one we have."""
        if self._blob is None or self._blob[0] != invite.base:
            block = await fetch_blob(
                self.link, self.topics, invite.base, invite.length, invite.chunks, self.settings.fetch_timeout
            )
            self._blob = (invite.base, decode(block, self.trainer.pack.plugin_table.size, invite.codec))
        return self._blob[1]

    async def _train(self, invite: Invite, plugin: Flat, control: RoundControl) -> tuple[RoundResult, Verdict]:
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, self._trained, invite, plugin, self._local, control
        )

    def _trained(
        self, invite: Invite, plugin: Flat, local: LocalState, control: RoundControl
    ) -> tuple[RoundResult, Verdict]:
        """In the training thread: train, and ask the judge."""
        result = self.trainer.run(invite.plan, invite.round, plugin, local, control)
        if self._judge is None:
            return result, Verdict(None, plugin)
        return result, self._judge.judge(invite.plan, invite.round, plugin, local, result)

    def _pending(self, invite: Invite, result: RoundResult) -> Pending:
        return self._messages.update(invite, result)

    def _keep(self, pending: Pending, local: LocalState, verdict: Verdict) -> None:
        """The best states first: a crash after that leaves one that was judged but not kept, which is still a state."""
        if self._judge is not None:
            self._judge.keep(verdict)
        self._store.save(local)
        self._outbox.put(pending)

    async def _deliver(self, pending: Pending) -> None:
        """Send until the coordinator says what became of it."""
        topic = self._up("upd")
        self._answered = False
        wait = self.settings.resend_every
        while not self._answered:
            self._wake.clear()
            for update, piece in pending.parts():
                await self._send(topic, update, piece)
            self.state = "sent"
            try:
                await within(self._wake.wait(), wait * random.uniform(0.8, 1.2))
            except asyncio.TimeoutError:
                wait = min(wait * 2, 300.0)
        self.state = "idle"


def _named(message: Update | Ack) -> tuple[str, int, str]:
    """What says that an acknowledgement is for this update."""
    return message.task, message.round, message.body
