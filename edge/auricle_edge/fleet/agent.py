"""The agent: a device's side of the protocol. The same code on a board and, many times, in an emulated fleet.

States (PROTOCOL section 6): new -> idle -> invited -> ready -> training -> outbox -> sent -> idle on acknowledgement.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor

from auricle.errors import AuricleError, WireError, refuse_misfits_of
from auricle.mqtt_link.link import Delivery, LinkSettings, MqttLink, Will
from auricle.wire.frames import UPGRADE, Topics, seal
from auricle.wire.identity import DEVICE_KEY, Identity
from auricle.wire.messages import Abort, Ack, Invite, Measure, Message, Nothing, Target, Tune
from auricle.wire.plan import Lent
from auricle.wire.secure_sum.messages import JoinSum, RevealSum, SumBoxes, SumNeighbours
from auricle_edge.board.gate import Decision
from auricle_edge.fleet.agent_context import AgentSettings, Updates, Uplink
from auricle_edge.fleet.device_messages import DeviceMessages
from auricle_edge.fleet.device_rounds import DeviceRounds, Learnt
from auricle_edge.fleet.fleet_word import FleetWord, OtherPack
from auricle_edge.fleet.gate_watch import GateWatch
from auricle_edge.fleet.incoming import Incoming, fetch_blob
from auricle_edge.fleet.report.period import HearingFigures
from auricle_edge.fleet.round_work import Readiness, RoundWork
from auricle_edge.fleet.secure_sum.part import SumTalk
from auricle_edge.fleet.unsent_moves import UnsentMoves
from auricle_edge.fleet.update_delivery import Pending, UpdateDelivery
from auricle_edge.listening.tuning import Tunable
from auricle_edge.training.judge.sound import Judging
from auricle_learning.training.speech_data import DataSource
from auricle_learning.training.train import Trainer

log = logging.getLogger("auricle.edge")


@refuse_misfits_of
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
        learnt: Learnt | None = None,
        updates: Updates | None = None,
        judging: Judging | None = None,
        tuning: Tunable | None = None,
    ) -> None:
        self.settings, self.trainer = settings, trainer
        self.topics = Topics(settings.fleet)
        self.boot = os.urandom(8).hex()
        self.state = "new"
        self._other_pack = OtherPack(settings.fleet, trainer.pack)
        self._identity = Identity.load_or_create(settings.folder / DEVICE_KEY, durable=settings.durable)
        self._messages = DeviceMessages(settings.fleet, settings.device, self.boot, trainer, self._identity.public)
        self._incoming = Incoming(settings.fleet, settings.device, settings.coordinator)
        uplink = Uplink(self._say, self._fetch, self._enter)
        pack = trainer.pack
        unsent = UnsentMoves(settings.folder, pack.identity, pack.plugin_table.size, durable=settings.durable)
        self._delivery = UpdateDelivery(settings, uplink, unsent)
        self._sums = SumTalk(settings, self._messages, uplink)
        self.gate = GateWatch(gate, settings.gate_every, self._say_presence, settings.clock)
        self._readiness = Readiness(self.gate, trainer, source, executor)
        self.rounds = DeviceRounds(
            settings,
            trainer,
            executor,
            self._messages,
            uplink,
            gate=self.gate,
            readiness=self._readiness,
            delivery=self._delivery,
            sums=self._sums,
            judging=judging,
            learnt=learnt,
        )
        self.word = FleetWord(settings.device, settings.fleet, self._identity.public, settings.coordinator)
        """What the device says of its fleet."""
        self._updates, self._tuning = updates, tuning
        self.work = RoundWork(settings.device, self.word, self.gate, self._enter)
        self.link = self._make_link()

    def _make_link(self) -> MqttLink:
        topic = self.topics.device_state(self.settings.device)
        will = seal(self._identity, topic, self._messages.presence(online=False, gate=self.gate.told))
        return MqttLink(
            LinkSettings(self.settings.broker, self.settings.device, will=Will(topic, will)),
            handlers={
                self.topics.down(self.settings.device, "+"): self._receive,
                self.topics.coordinator_state: self._coordinator_said,
                self.topics.model: self._take_offer,
            },
            on_connect=self._born,
        )

    async def rest(self) -> None:
        """Forget the clips' sound, unless work is under way that may need it; it is read again before the next."""
        if not self.works:
            await self._readiness.silence()

    @property
    def works(self) -> bool:
        """Whether a round or a measurement is under way, but for the sending of its update and the answer to it."""
        return self.work.busy and self.state not in ("outbox", "sent")

    @property
    def base(self) -> str | None:
        """The fleet's model of the last round that was kept since the start."""
        return self.rounds.base

    @property
    def other_pack(self) -> str | None:
        """What to do where the fleet runs another pack than this device; None where it does not, or has not said."""
        return self._other_pack.sentence

    # -- life

    async def run(self) -> None:
        """Take part until cancelled; then say goodbye. Nothing that was trained is lost: the outbox keeps it."""
        await self.gate.look()
        await self.link.start()
        watch = asyncio.create_task(self.gate.run())
        try:
            while True:
                await self.settings.clock.pause(self.settings.ask_every * random.uniform(0.8, 1.2))
                if watch.done():
                    watch.result()
                if not self.work.busy:
                    await self._say("get", self._messages.get(self.work.round))
        finally:
            self.work.halt()
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            await self.link.stop()

    async def _born(self, _link: MqttLink) -> None:
        """On every connection: birth, registration, and the outbox once more."""
        if self.state == "new":
            broker = self.settings.broker
            self.word.say(f"connected to {broker.host}:{broker.port}: waits for a word of the coordinator")
        await self._say("reg", self._messages.register())
        await self._say_presence()
        self.state = "idle" if self.state == "new" else self.state
        await self.say_release()
        pending = self._delivery.read()
        if pending is not None:
            self._hand_over(pending)

    def _hand_over(self, pending: Pending) -> None:
        """Send the pending update, at once also when it is being waited for: somebody may have lost it."""
        if not self.work.busy:
            self.work.begin(self.rounds.deliver(pending))
        else:
            self._delivery.send_again()

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
            await self._say("rel", self._messages.release(self._updates.standing()))

    async def say_hearing(self, number: int, figures: HearingFigures) -> None:
        """How well the device hears."""
        await self._say("hear", self._messages.hearing(number, figures))

    async def _say(self, kind: str, message: Message, body: bytes = b"") -> None:
        topic = self.topics.up(self.settings.device, kind)
        await self.link.publish(topic, seal(self._identity, topic, message, body))

    async def _fetch(self, asked: Invite | Measure | Lent) -> bytes:
        blob, what = (asked.blob, "prior knowledge") if isinstance(asked, Lent) else (asked.base, "model")
        seconds = self.settings.fetch_timeout
        return await fetch_blob(self.link, self.topics, blob, asked.length, asked.chunks, seconds, what)

    def _enter(self, state: str) -> None:
        self.state = state

    # -- what the coordinator says

    async def _receive(self, arrived: Delivery) -> None:
        try:
            message = self._incoming.open(arrived)
        except WireError as error:
            self.word.wrong_key(error)
            log.warning("%s: ignored a message on %s: %s", self.settings.device, arrived.topic, error)
            if str(error) == UPGRADE:
                await self._say("st", self._messages.outdated(self.work.round))
            return
        if self._incoming.heeds(message):
            await self._obey(message)

    async def _obey(self, message: Message) -> None:
        match message:
            case Invite():
                await self._accept_invitation(message)
            case Measure() if not self.work.busy:
                self.work.begin(self.rounds.say_loss(message))
            case Ack():
                if await self._delivery.acknowledged(message):
                    self.word.verdict(message)
            case JoinSum() if message.round > self.work.round or not self.work.busy:
                self._begin(message.round, self.rounds.join(message))
            case SumNeighbours() | SumBoxes() | RevealSum():
                await self._sums.answer(message)
            case Abort() if message.round == self.work.round:
                self.work.halt()
                await self._sums.forget(message)
            case Nothing(again=True):
                await self._born(self.link)
            case Nothing():
                self.word.standing(message)
            case Target() if self._updates is not None:
                await self._updates.follow(message)
                await self.say_release()
            case Tune() if self._tuning is not None:
                await self._tune(self._tuning, message)
            case _:
                pass

    async def _tune(self, tuning: Tunable, message: Tune) -> None:
        """Take the sensitivity, and say which one is in effect now."""
        try:
            await tuning.tune(message.sensitivity)
        except AuricleError as error:
            log.warning("%s: sensitivity %+d was not taken: %s", self.settings.device, message.sensitivity, error)
        await self._say_presence()

    async def _coordinator_said(self, arrived: Delivery) -> None:
        """Register again with a coordinator that started after us."""
        message = self._open(arrived, "the coordinator's state")
        if message is not None and self._incoming.is_another_coordinator(message):
            await self._born(self.link)

    async def _take_offer(self, arrived: Delivery) -> None:
        """The fleet's newest model: a device with another pack is never invited, and its owner is told why."""
        message = self._open(arrived, "the fleet's model")
        model = None if message is None else self._incoming.newest_model(message)
        if model is not None:
            self._other_pack.take(model)

    def _open(self, arrived: Delivery, what: str) -> Message | None:
        try:
            return self._incoming.open(arrived)
        except WireError as error:
            self.word.wrong_key(error)
            log.warning("%s: ignored %s: %s", self.settings.device, what, error)
            return None

    # -- its work

    async def _accept_invitation(self, invite: Invite) -> None:
        if self._delivery.is_settled(invite):
            return
        pending = None if self._delivery.is_empty else await asyncio.to_thread(self._delivery.read)
        if pending is not None and pending.is_for(invite):
            self._hand_over(pending)
            return
        if invite.round <= self.work.round and self.work.busy:
            return
        self._begin(invite.round, self.rounds.take_part(invite))
        self.state = "invited"
        self.word.say(f"invited to round {invite.round}")

    def _begin(self, number: int, work: Coroutine[None, None, None]) -> None:
        """Do something for a round in place of what is under way."""
        self.work.halt()
        self.work.round = number
        self.work.begin(work)
