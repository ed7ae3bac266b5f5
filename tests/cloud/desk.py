"""An inbox with a real database, real keys and everything that it answered; and what devices send to it."""

from __future__ import annotations

import asyncio
import functools
import struct
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from tests.cloud import arrivals

from auricle.errors import BrokerError, LinkStoppedError
from auricle.mqtt_link.link import Delivery
from auricle.wire.frames import CHUNK, DOMAIN, MAGIC, Sealed, Topics, seal
from auricle.wire.identity import Identity
from auricle.wire.messages import Loss, Message, Register, Release, Status, Update
from auricle.wire.tensor_specs import TensorSpec
from auricle.wire.tensors import Flat, TensorTable, digest
from auricle.wire.vectors import Declared
from auricle_cloud.link.inbox import Inbox
from auricle_cloud.link.ledger import Ledger
from auricle_cloud.settings import Limits
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.rows import Standing, UpdateRow
from auricle_cloud.storage.store import Store

FLEET, TASK = "f", "keywords"
TOPICS = Topics(FLEET)
PACK, BASE = "c" * 64, "a" * 64
ANA, BOB = Identity(b"a" * 32), Identity(b"b" * 32)
KEYS = {"dev-a": ANA, "dev-b": BOB}
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
        self.asked: dict[int, tuple[Declared, ...]] = {}
        for kind, what in (
            ("register", "registered"),
            ("presence", "presence"),
            ("get", "get"),
            ("loss", "loss"),
            ("sum", "sum"),
            ("hearing", "hearing"),
        ):
            setattr(self, f"on_{kind}", functools.partial(self._said, what=what))

    def _say(self, message: Message, what: str) -> None:
        self.said.append((type(message).__name__, message.device, what))

    async def _said(self, message: Message, what: str) -> None:
        self._say(message, what)

    async def on_status(self, message: Status) -> None:
        self._say(message, message.state)

    async def on_update(self, update: Update, verdict: Verdict) -> None:
        self._say(update, verdict.code)

    async def on_release(self, message: Release, changed: list[tuple[str, str]]) -> None:
        self._say(message, " ".join(f"{rollout}:{state}" for rollout, state in changed))

    async def on_taken(self, message: Register, reason: str) -> None:
        self.kept.append(f"taken: {message.device} {message.public_key.hex()[:8]}")

    async def on_kept(self, device: str) -> None:
        self.kept.append(device)

    async def on_unregistered(self, device: str) -> None:
        self.strangers.append(device)

    def base(self, sha256: str) -> Flat | None:
        return self.bases.get(sha256)

    async def declared(self, task: str, number: int) -> tuple[Declared, ...] | None:
        return self.asked.get(number)

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
        arrivals.open_round(self.store, devices, task=TASK, base=BASE)
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

    def send(self, body: bytes, device: str = "dev-a", inbox: Inbox | None = None, **changes: Any) -> None:
        """An update of a device, in one piece unless it is said otherwise."""
        topic, message = TOPICS.up(device, "upd"), update(body, device, **changes)
        self.give(topic, seal(KEYS[device], topic, message, body), inbox)

    def send_fields(self, changes: dict[str, Any], body: bytes | None = None) -> None:
        """An update of dev-a with a true signature and anything in its header."""
        body, topic = body_of() if body is None else body, TOPICS.up("dev-a", "upd")
        self.give(
            topic, signed(ANA, topic, {**msgspec.to_builtins(update(body_of())), "type": "update", **changes}, body)
        )

    def counted(self, number: int = 1) -> list[UpdateRow]:
        return self.store.updates.counted(TASK, number)

    def refusals(self) -> list[tuple[str, str, int]]:
        """What is written down of refusals."""
        return [(row.device, row.code, row.count) for row in self.store.devices.refusals()]

    def verdicts(self) -> list[str]:
        return [what for kind, _, what in self.answers if kind == "Update"]

    def files(self) -> int:
        return len(list(self.blobs.names()))

    def close(self) -> None:
        self.store.close()
        self.loop.close()


def register(device: str, key: Identity, **changes: Any) -> Register:
    given = {"boot": "b1", "public_key": key.public, "pack": PACK, **changes}
    return arrivals.register(device, **given)


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
    given = {"boot": "b1", "task": TASK, "body": digest(body), "length": len(body), **changes}
    return arrivals.update(device, **given)


def parts_of(body: bytes, device: str = "dev-a", piece: int = CHUNK, **changes: Any) -> list[tuple[Update, bytes]]:
    pieces = [body[i : i + piece] for i in range(0, len(body), piece)]
    return [(update(body, device, part=i, parts=len(pieces), **changes), p) for i, p in enumerate(pieces)]


def signed(key: Identity, topic: str, fields: Any, body: bytes = b"") -> bytes:
    """A frame with a true signature around whatever a registered device may make up."""
    encoded = msgspec.msgpack.encode(fields)
    signature = key.sign(DOMAIN + topic.encode() + b"\0" + encoded)
    header = msgspec.msgpack.encode(Sealed(encoded, signature))
    return MAGIC + struct.pack("<H", len(header) & 0xFFFF) + header + body
