"""A device that trains nothing: signed updates of the right size, sent again until they are answered."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from auricle.mqtt_link.link import BrokerAddress, Delivery, LinkSettings, MqttLink
from auricle.mqtt_link.reconnection import within
from auricle.wire.frames import CHUNK, Topics, open_frame, seal
from auricle.wire.identity import Identity
from auricle.wire.messages import Ack, CoordinatorState, Get, Invite, Nothing, Register, Update
from auricle.wire.tensors import Flat, digest, encode

log = logging.getLogger("auricle.edge.simulated")

OWN = 8  # weights in which updates differ: thousands of devices share the memory and the time of the others


@lru_cache(maxsize=1)
def _common(size: int) -> Flat:
    return np.random.default_rng(0).normal(0, 0.05, size).astype(np.float32)


class SimulatedDevice:
    """One device; hundreds fit in a process."""

    def __init__(
        self,
        name: str,
        fleet: str,
        address: BrokerAddress,
        key: bytes,
        pack: str,
        size: int,
        resend: float,
        *,
        codec: str = "float32",
        keepalive: int = 5,
        delay: float = 0.0,
    ) -> None:
        self.name, self._fleet, self._key, self._pack = name, fleet, key, pack
        self._resend, self._codec, self._delay = resend, codec, delay
        self._identity, self._topics = Identity.create(), Topics(fleet)
        self._seed, self._size = int.from_bytes(name.encode(), "big") % (1 << 32), size
        self.answers: dict[int, str] = {}  # verdict by round
        self.waits: dict[int, float] = {}  # seconds from an update's first byte to its acknowledgement, by round
        self._work: dict[int, asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        handlers = {self._topics.down(name, "+"): self._heard, self._topics.coordinator_state: self._coordinator}
        self.link = MqttLink(LinkSettings(address, name, keepalive=keepalive), handlers=handlers)

    def _head(self) -> dict[str, Any]:
        return {"fleet": self._fleet, "device": self.name, "boot": "b"}

    async def _coordinator(self, arrived: Delivery) -> None:
        message, _ = open_frame(arrived.payload, arrived.topic, lambda _: self._key)
        if isinstance(message, CoordinatorState) and message.online:
            await self._register()

    async def _register(self) -> None:
        topic = self._topics.up(self.name, "reg")
        about = {**self._head(), "public_key": self._identity.public, "agent": "simulated", "pack": self._pack}
        register = Register(**about, architecture="crnn-lite", codecs=(self._codec,), samples=10)
        await self.link.publish(topic, seal(self._identity, topic, register))

    async def _heard(self, arrived: Delivery) -> None:
        message, _ = open_frame(arrived.payload, arrived.topic, lambda _: self._key)
        if isinstance(message, Nothing) and message.again:
            await self._register()
        elif isinstance(message, Invite) and message.round not in self._work:
            self._work[message.round] = asyncio.ensure_future(self._answer(message))
        elif isinstance(message, Ack) and message.round not in self.answers:
            self.answers[message.round] = message.verdict
            said = (message.round, message.attempt, message.body, message.epoch, message.verdict)
            log.info("%s: round %d attempt %d body %s epoch %d: %s", self.name, *said)
            self._news.set()

    def weights_for(self, number: int) -> Flat:
        """What it sends in a round: it differs from others', and from round to round, in a few weights."""
        weights = _common(self._size).copy()
        weights[:OWN] = np.random.default_rng([self._seed, number]).normal(0, 0.05, OWN)
        return weights

    def update_for(self, invite: Invite, body: bytes) -> Update:
        about = {name: getattr(invite, name) for name in ("task", "round", "epoch", "base")}
        own = {"body": digest(body), "length": len(body), "codec": self._codec, "samples": 10, "loss": 1.0}
        return Update(**self._head(), **about, **own, attempt=1)

    async def _answer(self, invite: Invite) -> None:
        if self._delay:
            await asyncio.sleep(self._delay)
        body = encode(self.weights_for(invite.round), self._codec)
        update = self.update_for(invite, body)
        log.info("%s: round %d intends body %s", self.name, invite.round, update.body)
        began = time.monotonic()
        while invite.round not in self.answers:
            self._news.clear()
            await self._send(update, body)
            try:
                await within(self._news.wait(), self._resend)
            except asyncio.TimeoutError:
                continue
        self.waits[invite.round] = time.monotonic() - began

    async def _send(self, update: Update, body: bytes) -> None:
        topic, parts = self._topics.up(self.name, "upd"), -(-len(body) // CHUNK)
        for part in range(parts):
            header = msgspec.structs.replace(update, part=part, parts=parts)
            await self.link.publish(topic, seal(self._identity, topic, header, body[part * CHUNK : (part + 1) * CHUNK]))

    async def ask(self, every: float) -> None:
        """Ask what is next until cancelled, as an agent that has nothing to do."""
        topic = self._topics.up(self.name, "get")
        while True:
            await asyncio.sleep(every)
            message = Get(**self._head(), round=max(self.answers, default=0))
            await self.link.publish(topic, seal(self._identity, topic, message))

    async def stop(self) -> None:
        for work in self._work.values():
            work.cancel()
        await asyncio.gather(*self._work.values(), return_exceptions=True)
        await self.link.stop()
