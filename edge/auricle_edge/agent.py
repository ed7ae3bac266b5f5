"""The agent: a device's side of the protocol. The same code on a board and, many times, in an emulated fleet.

States (PROTOCOL section 6): new -> idle -> invited -> ready -> training -> outbox -> sent -> idle on acknowledgement.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
from collections.abc import Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from auricle import __version__
from auricle.errors import AuricleError, StorageError, WireError
from auricle.files import describe
from auricle.frames import open_frame, seal
from auricle.identity import Identity
from auricle.messages import (
    Abort,
    Ack,
    CoordinatorState,
    DeviceState,
    Get,
    Invite,
    Loss,
    Measure,
    Nothing,
    Register,
    Status,
    Update,
)
from auricle.messages import Message as Header
from auricle.mqtt import BrokerAddress, LinkSettings, Message, MqttLink, Will
from auricle.mqtt_deadline import within
from auricle.tensors import CODECS, Flat, decode, digest, encode
from auricle.topics import Topics
from auricle_edge.fetch import fetch_blob
from auricle_edge.local_store import LocalStore
from auricle_edge.outbox import Outbox, Pending
from auricle_edge.train import LocalState, RoundResult, Trainer, TrainingStopped

log = logging.getLogger("auricle.edge")

ROOM = 1 << 16
"""Bytes on disk beside a round's models: headers, folders, and what a file system rounds up."""


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
    """

    def __init__(self, settings: AgentSettings, trainer: Trainer, executor: Executor) -> None:
        self.settings, self.trainer, self._executor = settings, trainer, executor
        self.topics = Topics(settings.fleet)
        self.boot = os.urandom(8).hex()
        self.state = "new"
        self._identity = Identity.load_or_create(settings.folder / "device.key")
        self._outbox = Outbox(settings.folder)
        pack = trainer.pack
        self._store = LocalStore(settings.folder, pack.identity, pack.table(trainer.architecture))
        self._local: LocalState = self._store.read() or trainer.first_state()
        self._epoch = 0
        self._round = 0
        self._coordinator_boot = ""
        self._work: asyncio.Task[None] | None = None
        self._stop_training = False
        self._answered = False
        self._settled: tuple[int, str, int] | None = None
        """Epoch, task and round of the newest acknowledgement: an invitation to it was on its way and is void."""
        self._wake = asyncio.Event()
        self._disk = asyncio.Lock()
        """Held while the outbox changes: an acknowledgement must not clear what a newer round just put there."""
        self._blob: tuple[str, Flat] | None = None
        will = seal(self._identity, self.topics.device_state(settings.device), self._presence(online=False))
        self.link = MqttLink(
            LinkSettings(settings.broker, settings.device, will=Will(self.topics.device_state(settings.device), will)),
            handlers={
                self.topics.down(settings.device, "+"): self._heard,
                self.topics.coordinator_state: self._coordinator_said,
            },
            on_connect=self._born,
        )

    def _presence(self, *, online: bool) -> DeviceState:
        pack = self.trainer.pack
        return DeviceState(
            fleet=self.settings.fleet, device=self.settings.device, boot=self.boot, online=online, agent=__version__,
            pack=pack.identity, architecture=self.trainer.architecture,
        )  # fmt: skip

    # -- life

    async def run(self) -> None:
        """Take part until cancelled; then say goodbye. Nothing that was trained is lost: the outbox keeps it."""
        await self.link.start()
        try:
            while True:
                await asyncio.sleep(self.settings.ask_every * random.uniform(0.8, 1.2))
                if self._work is None or self._work.done():
                    await self._send(self.topics.up(self.settings.device, "get"), self._get())
        finally:
            self._halt()
            await self.link.stop()

    async def _born(self, link: MqttLink) -> None:
        """On every connection: birth, registration, and the outbox once more."""
        device = self.settings.device
        pack = self.trainer.pack
        await self._send(
            self.topics.up(device, "reg"),
            Register(
                fleet=self.settings.fleet, device=device, boot=self.boot, public_key=self._identity.public,
                agent=__version__, pack=pack.identity, architecture=self.trainer.architecture, codecs=tuple(CODECS),
                samples=len(self.trainer.data.train),
            ),
        )  # fmt: skip
        birth = seal(self._identity, self.topics.device_state(device), self._presence(online=True))
        await link.publish(self.topics.device_state(device), birth, retain=True)
        self.state = "idle" if self.state == "new" else self.state
        pending = self._outbox.read()
        if pending is not None:
            self._hand_over(pending)

    def _hand_over(self, pending: Pending) -> None:
        """Send the pending update, at once also when it is being waited for: somebody may have lost it."""
        if self._work is None or self._work.done():
            self._begin(self._deliver(pending))
        else:
            self._wake.set()

    def _get(self) -> Get:
        return Get(fleet=self.settings.fleet, device=self.settings.device, boot=self.boot, round=self._round)

    async def _send(self, topic: str, message: Header, body: bytes = b"") -> None:
        await self.link.publish(topic, seal(self._identity, topic, message, body))

    # -- what the coordinator says

    async def _heard(self, arrived: Message) -> None:
        try:
            message, _ = open_frame(arrived.payload, arrived.topic, lambda _: self.settings.coordinator)
        except WireError as error:
            log.warning("%s: ignored a message on %s: %s", self.settings.device, arrived.topic, error)
            return
        if message.device != self.settings.device or message.fleet != self.settings.fleet:
            return
        if isinstance(message, Invite | Measure | Ack | Nothing | Abort):
            if message.epoch < self._epoch:
                log.warning("%s: ignored a message of an older coordinator", self.settings.device)
                return
            self._epoch = message.epoch
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
            case _:
                pass

    async def _coordinator_said(self, arrived: Message) -> None:
        """Register anew with a coordinator that started after us."""
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
            "%s: round %d attempt %d body %s epoch %d: %s", self.settings.device, ack.round, ack.attempt, ack.body,
            ack.epoch, ack.verdict,
        )  # fmt: skip
        if ack.verdict.startswith("rejected"):
            log.warning("%s: the update of round %d was %s", self.settings.device, ack.round, ack.verdict)
        self.state = "idle"
        self._answered = True
        self._wake.set()

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._stop_training = False
        self._work = asyncio.get_running_loop().create_task(self._guarded(work))

    async def _guarded(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except TrainingStopped:
            self.state = "idle"
        except AuricleError as error:
            self.state = "idle"
            log.warning("%s: %s", self.settings.device, error)

    def _halt(self) -> None:
        self._stop_training = True
        if self._work is not None and not self._work.done():
            self._work.cancel()
            self.state = "idle"

    # -- a round

    async def _take_part(self, invite: Invite) -> None:
        try:
            await asyncio.to_thread(self._require_room, invite)
            plugin = await self._model(invite)
            self.state = "training"
            result = await self._train(invite, plugin)
            pending = self._pending(invite, result)
            async with self._disk:
                await asyncio.to_thread(self._keep, pending, result.local)
        except TrainingStopped:
            raise
        except AuricleError as error:
            await self._report(invite, str(error))
            raise
        log.info("%s: round %d intends body %s", self.settings.device, invite.round, pending.update.body)
        self._local = result.local
        self.state = "outbox"
        await self._deliver(pending)

    def _require_room(self, invite: Invite) -> None:
        """Refuse to train what could not be kept: old and new lie side by side until the new is whole."""
        local = self._local.weights.nbytes + sum(slot.nbytes for slot in self._local.slots.values())
        needed, folder = local + invite.length + ROOM, self.settings.folder
        try:
            free = shutil.disk_usage(folder).free
        except OSError as error:
            raise StorageError(describe(error, folder)) from error
        if free < needed:
            raise StorageError(f"The disk that holds {folder} is full: a round needs {needed} bytes.")

    async def _report(self, invite: Invite, reason: str) -> None:
        status = Status(
            fleet=self.settings.fleet, device=self.settings.device, boot=self.boot, task=invite.task,
            round=invite.round, state="failed", reason=reason[:200],
        )  # fmt: skip
        await self._send(self.topics.up(self.settings.device, "st"), status)

    async def _say_loss(self, asked: Measure) -> None:
        """Answer the first phase of a two-phase round; a lost answer is asked for again."""
        plugin = await self._model(asked)
        loop = asyncio.get_running_loop()
        value = await loop.run_in_executor(self._executor, self.trainer.inference_loss, plugin)
        loss = Loss(
            fleet=self.settings.fleet, device=self.settings.device, boot=self.boot, task=asked.task,
            round=asked.round, epoch=asked.epoch, base=asked.base, loss=value, samples=len(self.trainer.data.train),
        )  # fmt: skip
        await self._send(self.topics.up(self.settings.device, "loss"), loss)

    async def _model(self, invite: Invite | Measure) -> Flat:
        """The round's model, fetched unless it is the one we have."""
        if self._blob is None or self._blob[0] != invite.base:
            block = await fetch_blob(
                self.link, self.topics, invite.base, invite.length, invite.chunks, self.settings.fetch_timeout
            )
            self._blob = (invite.base, decode(block, self.trainer.pack.plugin_table.size, invite.codec))
        return self._blob[1]

    async def _train(self, invite: Invite, plugin: Flat) -> RoundResult:
        stop = _Flag(self)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._executor, self.trainer.run, invite.plan, invite.round, plugin, self._local, stop
        )

    def _pending(self, invite: Invite, result: RoundResult) -> Pending:
        body = encode(result.plugin, invite.plan.codec)
        update = Update(
            fleet=self.settings.fleet, device=self.settings.device, boot=self.boot, task=invite.task,
            round=invite.round, attempt=1, epoch=invite.epoch, base=invite.base, body=digest(body), length=len(body),
            codec=invite.plan.codec, samples=result.samples, loss=result.loss, steps=result.steps,
            seconds=result.seconds, personal_accuracy=result.personal_accuracy,
            plugin_accuracy=result.plugin_accuracy, held_out=result.held_out,
        )  # fmt: skip
        return Pending(update, body)

    def _keep(self, pending: Pending, local: LocalState) -> None:
        self._store.save(local)
        self._outbox.put(pending)

    async def _deliver(self, pending: Pending) -> None:
        """Send until the coordinator says what became of it."""
        topic = self.topics.up(self.settings.device, "upd")
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


class _Flag:
    """Tells the training thread whether its round still goes on."""

    def __init__(self, agent: Agent) -> None:
        self._agent, self._round = agent, agent._round

    def __call__(self) -> bool:
        """Whether to stop."""
        return self._agent._stop_training or self._agent._round != self._round
