"""An inbox with a real database, real keys and everything that it answered; and what devices send to it."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from tests.cloud.arrivals import open_round

from auricle.errors import BrokerError, LinkStoppedError
from auricle.mqtt_link.link import Delivery
from auricle.wire.frames import CHUNK, DOMAIN, MAGIC, Sealed, Topics, seal
from auricle.wire.identity import Identity
from auricle.wire.messages import DeviceState, Get, HearingReport, Loss, Message, Register, Release, Status, Update
from auricle.wire.secure_sum.messages import SumAnswer
from auricle.wire.tensors import Flat, TensorSpec, TensorTable, digest
from auricle.wire.update_codec import Tail
from auricle_cloud.link.inbox import Inbox
from auricle_cloud.link.ledger import Ledger
from auricle_cloud.settings import Limits
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.device_records import Standing
from auricle_cloud.storage.store import Store

FLEET, TASK = "f", "keywords"
TOPICS = Topics(FLEET)
PACK, BASE = "c" * 64, "a" * 64
ANA, BOB = Identity(b"a" * 32), Identity(b"b" * 32)
SIZE = 6


def arrived(topic: str, payload: bytes) -> Delivery:
    return Delivery(topic, payload, qos=1, retain=False, duplicate=False, mid=1, generation=1)


UNLIMITED = Limits(frames=1e9, burst=1e9)


class Answers:
    """A receiver that writes down what reached it."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, str]] = []
        self.strangers: list[str] = []
        self.kept: list[str] = []
        self.refusals: list[tuple[str, str, str]] = []
        self.bases: dict[str, Flat] = {}
        self.tails: dict[int, Tail] = {}

    def _say(self, message: Message, what: str) -> None:
        self.said.append((type(message).__name__, message.device, what))

    async def on_register(self, message: Register) -> None:
        self._say(message, "registered")

    async def on_presence(self, message: DeviceState) -> None:
        self._say(message, "presence")

    async def on_get(self, message: Get) -> None:
        self._say(message, "get")

    async def on_status(self, message: Status) -> None:
        self._say(message, message.state)

    async def on_loss(self, message: Loss) -> None:
        self._say(message, "loss")

    async def on_sum(self, message: SumAnswer) -> None:
        self._say(message, "sum")

    async def on_update(self, update: Update, verdict: Verdict) -> None:
        self._say(update, verdict.code)

    async def on_release(self, message: Release, changed: list[tuple[str, str]]) -> None:
        self._say(message, " ".join(f"{rollout}:{state}" for rollout, state in changed))

    async def on_hearing(self, message: HearingReport) -> None:
        self._say(message, "hearing")

    async def on_taken(self, message: Register, reason: str) -> None:
        self.kept.append(f"taken: {message.device} {message.public_key.hex()[:8]}")

    async def on_kept(self, device: str) -> None:
        self.kept.append(device)

    async def on_unregistered(self, device: str) -> None:
        self.strangers.append(device)

    def base(self, sha256: str) -> Flat | None:
        return self.bases.get(sha256)

    async def tail(self, task: str, number: int) -> Tail | None:
        return self.tails.get(number)

    def refused(self, device: str, code: str, detail: str) -> None:
        self.refusals.append((device, code, detail))


class Silent(Answers):
    """A receiver whose messages fail: by default its own side has stopped the link."""

    error: type[BrokerError] = LinkStoppedError

    async def on_update(self, update: Update, verdict: Verdict) -> None:
        raise self.error("the link was stopped")

    async def on_unregistered(self, device: str) -> None:
        raise self.error("the link was stopped")


class Desk:
    """An inbox with its database, and everything that it answered."""

    def __init__(
        self,
        folder: Path,
        size: int = SIZE,
        devices: tuple[str, ...] = ("dev-a", "dev-b"),
        *,
        limits: Limits = UNLIMITED,
        standing: Standing = "approved",
        place: Path | str | None = None,
    ) -> None:
        self.folder = folder
        self.store, self.blobs = Store(place or folder / "c.db"), Blobs(folder / "blobs")
        self.heard = Answers()
        self.loop = asyncio.new_event_loop()
        self.inbox = self.open(self.heard, size=size, limits=limits, standing=standing)
        self.store.models.begin(TASK, PACK, BASE)
        open_round(self.store, devices, task=TASK, base=BASE)
        for name, key in zip(devices, (ANA, BOB), strict=False):
            self.tell(key, name, "reg", register(name, key))
        self.heard.said.clear()

    def open(self, receiver: Answers, *, size: int = SIZE, **options: Any) -> Inbox:
        """Another inbox on the same store."""
        return Inbox(FLEET, table_of(size), self.store, Ledger(self.store, self.blobs), receiver, **options)

    @property
    def answers(self) -> list[tuple[str, str, str]]:
        return self.heard.said

    @property
    def strangers(self) -> list[str]:
        return self.heard.strangers

    def give(self, topic: str, payload: bytes, inbox: Inbox | None = None) -> None:
        self.loop.run_until_complete((inbox or self.inbox).handle(arrived(topic, payload)))

    def tell(self, key: Identity, device: str, kind: str, message: Message, body: bytes = b"") -> None:
        topic = TOPICS.device_state(device) if kind == "state" else TOPICS.up(device, kind)
        self.give(topic, seal(key, topic, message, body))

    def verdicts(self) -> list[str]:
        return [what for kind, _, what in self.answers if kind == "Update"]

    def files(self) -> int:
        return len(list(self.blobs.names()))

    def close(self) -> None:
        self.store.close()
        self.loop.close()


def register(device: str, key: Identity, **changes: Any) -> Register:
    message = Register(
        fleet=FLEET,
        device=device,
        boot="b1",
        public_key=key.public,
        agent="1",
        pack=PACK,
        architecture="crnn-lite",
        codecs=("float32",),
        samples=5,
    )
    return msgspec.structs.replace(message, **changes)


def loss(device: str = "dev-a", **changes: Any) -> Loss:
    message = Loss(fleet=FLEET, device=device, boot="b1", task=TASK, round=1, epoch=1, base=BASE, loss=0.5, samples=5)
    return msgspec.structs.replace(message, **changes)


def table_of(size: int) -> TensorTable:
    """Of a plug-in with so many weights, all of them its classifier's."""
    shapes = {"head.weight": (1, size - 1), "head.bias": (1,)}
    return TensorTable([TensorSpec(name, shape, "head", 0.1) for name, shape in shapes.items()])


def body_of(*values: float, size: int = SIZE) -> bytes:
    return np.resize(np.array(values or (0.5,), "<f4"), size).tobytes()


def update(body: bytes, device: str = "dev-a", **changes: Any) -> Update:
    message = Update(
        fleet=FLEET,
        device=device,
        boot="b1",
        task=TASK,
        round=1,
        attempt=1,
        epoch=1,
        base=BASE,
        body=digest(body),
        length=len(body),
        codec="float32",
        samples=5,
        loss=1.5,
    )
    return msgspec.structs.replace(message, **changes)


def parts_of(body: bytes, device: str = "dev-a", piece: int = CHUNK, **changes: Any) -> list[tuple[Update, bytes]]:
    pieces = [body[i : i + piece] for i in range(0, len(body), piece)]
    return [(update(body, device, part=i, parts=len(pieces), **changes), p) for i, p in enumerate(pieces)]


def signed(key: Identity, topic: str, fields: Any, body: bytes = b"") -> bytes:
    """A frame with a true signature around whatever a registered device may make up."""
    encoded = msgspec.msgpack.encode(fields)
    signature = key.sign(DOMAIN + topic.encode() + b"\0" + encoded)
    header = msgspec.msgpack.encode(Sealed(encoded, signature))
    return MAGIC + struct.pack("<H", len(header) & 0xFFFF) + header + body
