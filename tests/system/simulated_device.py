"""A device that trains nothing: signed updates of the right size, sent again until they are answered."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import numpy as np

from auricle.frames import open_frame, seal
from auricle.identity import Identity
from auricle.messages import Ack, Invite, Nothing, Register, Update
from auricle.mqtt import BrokerAddress, LinkSettings, MqttLink
from auricle.mqtt import Message as Arrived
from auricle.mqtt_deadline import within
from auricle.tensors import digest, encode
from auricle.topics import Topics

log = logging.getLogger("auricle.edge.simulated")


class SimulatedDevice:
    """One device; hundreds fit in a process.

    Parameters
    ----------
    name, fleet, address, key
        Who it is, where, and whom it obeys.
    pack, size
        Identity of the pack, and weights of its plug-in.
    resend
        Seconds without an answer after which it sends again.
    """

    def __init__(
        self, name: str, fleet: str, address: BrokerAddress, key: bytes, pack: str, size: int, resend: float
    ) -> None:  # fmt: skip
        self.name, self._fleet, self._key, self._pack, self._size, self._resend = name, fleet, key, pack, size, resend
        self._identity, self._topics = Identity.create(), Topics(fleet)
        self._seed = int.from_bytes(name.encode(), "big") % (1 << 32)
        self.answers: dict[int, str] = {}
        """Verdict by round."""
        self._work: dict[int, asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        self.link = MqttLink(
            LinkSettings(address, name, keepalive=5), handlers={self._topics.down(name, "+"): self._heard},
            on_connect=self._register,
        )  # fmt: skip

    def _head(self) -> dict[str, Any]:
        return {"fleet": self._fleet, "device": self.name, "boot": "b"}

    async def _register(self, _: MqttLink) -> None:
        topic = self._topics.up(self.name, "reg")
        register = Register(
            **self._head(), public_key=self._identity.public, agent="simulated", pack=self._pack,
            architecture="crnn-lite", codecs=("float32",), samples=10,
        )  # fmt: skip
        await self.link.publish(topic, seal(self._identity, topic, register))

    async def _heard(self, arrived: Arrived) -> None:
        message, _ = open_frame(arrived.payload, arrived.topic, lambda _: self._key)
        if isinstance(message, Nothing) and message.again:
            await self._register(self.link)
        elif isinstance(message, Invite) and message.round not in self._work:
            self._work[message.round] = asyncio.ensure_future(self._answer(message))
        elif isinstance(message, Ack) and message.round not in self.answers:
            self.answers[message.round] = message.verdict
            log.info(
                "%s: round %d attempt %d body %s epoch %d: %s", self.name, message.round, message.attempt,
                message.body, message.epoch, message.verdict,
            )  # fmt: skip
            self._news.set()

    async def _answer(self, invite: Invite) -> None:
        rng = np.random.default_rng([self._seed, invite.round])
        body = encode(rng.normal(0, 0.05, self._size).astype(np.float32))
        update = Update(
            **self._head(), task=invite.task, round=invite.round, attempt=1, epoch=invite.epoch, base=invite.base,
            body=digest(body), length=len(body), codec="float32", samples=10, loss=1.0,
        )  # fmt: skip
        log.info("%s: round %d intends body %s", self.name, invite.round, update.body)
        topic = self._topics.up(self.name, "upd")
        while invite.round not in self.answers:
            self._news.clear()
            await self.link.publish(topic, seal(self._identity, topic, update, body))
            try:
                await within(self._news.wait(), self._resend)
            except asyncio.TimeoutError:
                continue

    async def stop(self) -> None:
        """Leave."""
        for work in self._work.values():
            work.cancel()
        await asyncio.gather(*self._work.values(), return_exceptions=True)
        await self.link.stop()
