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

from auricle.errors import AuricleError, WireError
from auricle.mqtt_link.link import Delivery, LinkSettings, MqttLink, Will
from auricle.wire.frames import UPGRADE, seal
from auricle.wire.identity import DEVICE_KEY, Identity
from auricle.wire.messages import Abort, Ack, Invite, Measure, Message, Nothing, Target, Tune
from auricle.wire.topics import Topics
from auricle_edge.board.gate import Decision
from auricle_edge.fleet.agent_context import AgentSettings, Uplink
from auricle_edge.fleet.device_messages import DeviceMessages
from auricle_edge.fleet.device_rounds import DeviceRounds, Learnt
from auricle_edge.fleet.fetch import fetch_blob
from auricle_edge.fleet.fleet_pack import FleetPack, other_pack
from auricle_edge.fleet.fleet_word import FleetWord
from auricle_edge.fleet.gate_watch import Declined, GateWatch
from auricle_edge.fleet.incoming import Incoming
from auricle_edge.fleet.outbox import Pending
from auricle_edge.fleet.readiness import Readiness
from auricle_edge.fleet.report.period import HearingFigures
from auricle_edge.fleet.standing import Updates
from auricle_edge.fleet.update_delivery import UpdateDelivery
from auricle_edge.listening.tuning import Tunable
from auricle_edge.training.judge.sound import Judging
from auricle_edge.training.speech_data import DataSource
from auricle_edge.training.train import Trainer, TrainingStopped

log = logging.getLogger("auricle.edge")


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
        self.fleet_pack: FleetPack | None = None
        """What the fleet runs; None: its coordinator has not said it yet."""
        self._identity = Identity.load_or_create(settings.folder / DEVICE_KEY)
        self._messages = DeviceMessages(settings.fleet, settings.device, self.boot, trainer, self._identity.public)
        self._incoming = Incoming(settings.fleet, settings.device, settings.coordinator)
        uplink = Uplink(self._say, self._fetch, self._enter)
        self._delivery = UpdateDelivery(settings, uplink)
        self.gate = GateWatch(gate, settings.gate_every, self._say_presence)
        self.rounds = DeviceRounds(
            settings,
            trainer,
            executor,
            self._messages,
            uplink,
            gate=self.gate,
            readiness=Readiness(self.gate, trainer, source, executor),
            delivery=self._delivery,
            judging=judging,
            learnt=learnt,
        )
        self.word = FleetWord(settings.device, settings.fleet, self._identity.public, settings.coordinator)
        """What the device says of its fleet."""
        self._updates, self._tuning = updates, tuning
        self._round = 0
        self._work: asyncio.Task[None] | None = None
        self.link = self._make_link()

    def _make_link(self) -> MqttLink:
        topic = self.topics.device_state(self.settings.device)
        will = seal(self._identity, topic, self._messages.presence(online=False, gate=self.gate.told))
        return MqttLink(
            LinkSettings(self.settings.broker, self.settings.device, will=Will(topic, will)),
            handlers={
                self.topics.down(self.settings.device, "+"): self._heard,
                self.topics.coordinator_state: self._coordinator_said,
                self.topics.model: self._offered,
            },
            on_connect=self._born,
        )

    @property
    def base(self) -> str | None:
        """The fleet's model of the last round that was kept since the start."""
        return self.rounds.base

    @property
    def other_pack(self) -> str | None:
        """What to do where the fleet runs another pack than this device; None where it does not, or has not said."""
        return other_pack(self.settings.fleet, self.fleet_pack, self.trainer.pack)

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
                    await self._say("get", self._messages.get(self._round))
        finally:
            self._halt()
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
        if self._work is None or self._work.done():
            self._begin(self._delivery.deliver(pending))
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

    async def _fetch(self, asked: Invite | Measure) -> bytes:
        seconds = self.settings.fetch_timeout
        return await fetch_blob(self.link, self.topics, asked.base, asked.length, asked.chunks, seconds)

    def _enter(self, state: str) -> None:
        self.state = state

    # -- what the coordinator says

    async def _heard(self, arrived: Delivery) -> None:
        try:
            message = self._incoming.open(arrived)
        except WireError as error:
            self.word.wrong_key(error)
            log.warning("%s: ignored a message on %s: %s", self.settings.device, arrived.topic, error)
            if str(error) == UPGRADE:
                await self._say("st", self._messages.outdated(self._round))
            return
        if self._incoming.heeds(message):
            await self._obey(message)

    async def _obey(self, message: Message) -> None:
        match message:
            case Invite():
                await self._invited(message)
            case Measure() if self._work is None or self._work.done():
                self._begin(self.rounds.say_loss(message))
            case Ack():
                if await self._delivery.acknowledged(message):
                    self._say_verdict(message)
            case Abort() if message.round == self._round:
                self._halt()
            case Nothing(again=True):
                await self._born(self.link)
            case Nothing():
                self.word.standing(message)
            case Target() if self._updates is not None:
                await self._updates.follow(message)
                await self.say_release()
            case Tune() if self._tuning is not None:
                await self._tuned(self._tuning, message)
            case _:
                pass

    def _say_verdict(self, ack: Ack) -> None:
        """What became of an update, for people."""
        refused = ack.verdict.startswith("rejected:")
        said = f"refused: {ack.verdict.removeprefix('rejected:')}" if refused else ack.verdict
        self.word.say(f"round {ack.round} trained, its update {'was ' if refused else 'is '}{said}")

    async def _tuned(self, tuning: Tunable, message: Tune) -> None:
        """Take the sensitivity, and say which one is in effect now."""
        try:
            await tuning.tune(message.sensitivity)
        except AuricleError as error:
            log.warning("%s: sensitivity %+d was not taken: %s", self.settings.device, message.sensitivity, error)
        await self._say_presence()

    async def _coordinator_said(self, arrived: Delivery) -> None:
        """Register again with a coordinator that started after us."""
        message = self._opened(arrived, "the coordinator's state")
        if message is not None and self._incoming.is_another_coordinator(message):
            await self._born(self.link)

    async def _offered(self, arrived: Delivery) -> None:
        """The fleet's newest model: a device with another pack is never invited, and its owner is told why."""
        message = self._opened(arrived, "the fleet's model")
        model = None if message is None else self._incoming.newest_model(message)
        if model is None:
            return
        before, self.fleet_pack = self.other_pack, FleetPack.of(model)
        if self.other_pack not in (None, before):
            log.warning("%s", self.other_pack)

    def _opened(self, arrived: Delivery, what: str) -> Message | None:
        try:
            return self._incoming.open(arrived)
        except WireError as error:
            self.word.wrong_key(error)
            log.warning("%s: ignored %s: %s", self.settings.device, what, error)
            return None

    # -- its work

    async def _invited(self, invite: Invite) -> None:
        if self._delivery.is_settled(invite):
            return
        pending = await asyncio.to_thread(self._delivery.read)
        if pending is not None and (pending.update.task, pending.update.round) == (invite.task, invite.round):
            self._hand_over(pending)
            return
        if invite.round <= self._round and self._work is not None and not self._work.done():
            return
        self._halt()
        self._round = invite.round
        self.state = "invited"
        self.word.say(f"invited to round {invite.round}")
        self._begin(self.rounds.take_part(invite))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._work = asyncio.get_running_loop().create_task(self._guarded(work))

    async def _guarded(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except TrainingStopped:
            self.state = "idle"
        except Declined as reason:
            self.state = "idle"
            self.word.say(f"round {self._round} declined: {reason}")
            log.info("%s: declined: %s", self.settings.device, reason)
        except AuricleError as error:
            self.state = "idle"
            self.word.say(f"round {self._round} failed: {error}")
            log.warning("%s: %s", self.settings.device, error)

    def _halt(self) -> None:
        if self.gate.control is not None:
            self.gate.control.stop()
        if self._work is not None and not self._work.done():
            self._work.cancel()
            self.state = "idle"
