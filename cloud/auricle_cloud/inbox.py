"""What devices send: checked frame by frame, put together, counted, and answered only after the commit."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np

from auricle.errors import BrokerError, StorageError, WireError
from auricle.frames import open_frame
from auricle.messages import Any, DeviceState, Get, Message, Register, Status, Update
from auricle.mqtt import Message as Arrived
from auricle.tensors import CODECS, decode, digest
from auricle_cloud.blobs import Blobs
from auricle_cloud.store import Store

log = logging.getLogger("auricle.cloud")

LARGEST_SAMPLES = 10_000_000
LARGEST_LOSS = 1e6
LARGEST_WEIGHT = 1e6
"""No weight of a model that learns comes near it; one that does would stop a server's optimiser for good."""
ASSEMBLY_BUDGET = 64 << 20
"""Bytes of unfinished updates, of all devices together."""
ASSEMBLY_SECONDS = 600.0
"""How long an unfinished update may rest before it makes room for others."""


@dataclass
class _Assembly:
    """Parts of one device's update that have arrived."""

    update: Update
    parts: dict[int, bytes] = field(default_factory=dict)
    touched: float = 0.0

    @property
    def size(self) -> int:
        """Bytes that have arrived."""
        return sum(map(len, self.parts.values()))


class Inbox:
    """Handles uplink frames of one fleet.

    Parameters
    ----------
    fleet
        Its name.
    pack
        Identity of the pack that registrations and updates must be of.
    size
        Weights of the plug-in.
    store, blobs
        Where updates are counted and kept.
    answer
        Called with a device's message and the verdict or what follows from it.
    unknown
        Called with the name of a device that speaks without being registered.
    """

    def __init__(
        self, fleet: str, pack: str, size: int, store: Store, blobs: Blobs,
        answer: Callable[[Message, str], Awaitable[None]], unknown: Callable[[str], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._fleet, self._pack, self._size, self._store, self._blobs = fleet, pack, size, store, blobs
        self._answer, self._unknown = answer, unknown
        self._assemblies: dict[str, _Assembly] = {}
        self.keys = {row["device"]: bytes(row["public_key"]) for row in store.devices()}
        self.refused: dict[str, int] = {}
        """How many frames were refused, by reason."""

    def _refuse(self, device: str, reason: str) -> None:
        code = reason.split(":")[0]
        self.refused[code] = self.refused.get(code, 0) + 1
        log.warning("refused a frame of %s: %s", device, reason)

    def _key(self, message: Message) -> bytes | None:
        if isinstance(message, Register) and message.device not in self.keys:
            return message.public_key
        return self.keys.get(message.device)

    async def handle(self, arrived: Arrived) -> None:
        """Check a frame and act on it; whatever is wrong with it is counted and logged, never raised."""
        if not arrived.payload:
            return
        device = _device_of(arrived.topic)
        try:
            await self._check_and_act(device, arrived)
        except (BrokerError, StorageError) as error:
            log.error("%s's message is not acknowledged: %s", device, error)

    async def _check_and_act(self, device: str, arrived: Arrived) -> None:
        try:
            message, body = open_frame(arrived.payload, arrived.topic, self._key)
            if message.device != device or message.fleet != self._fleet:
                raise WireError("identity: the header names another device than the topic")
        except WireError as error:
            if device not in self.keys:
                await self._stranger(device)
            else:
                self._refuse(device, str(error))
            return
        await self._act(message, body)

    async def _stranger(self, device: str) -> None:
        """Somebody who is not registered here: ask for a registration, and believe nothing until it came."""
        self.refused["unregistered"] = self.refused.get("unregistered", 0) + 1
        log.info("%s is not registered: asked it to", device)
        await self._unknown(device)

    async def _act(self, message: Any, body: bytes) -> None:
        match message:
            case Register():
                await self._register(message)
            case DeviceState():
                self._store.presence(message.device, message.boot, online=message.online)
                await self._answer(message, "presence")
            case Get():
                await self._answer(message, "get")
            case Status():
                log.warning("%s: round %d %s: %s", message.device, message.round, message.state, message.reason)
                await self._answer(message, message.state)
            case Update():
                await self._update(message, body)
            case _:
                self._refuse(message.device, "type: not a message of a device")

    async def _register(self, message: Register) -> None:
        if message.pack != self._pack:
            self._refuse(message.device, "pack: the device has another pack than this task")
            return
        if not self._store.register(message):
            self._refuse(message.device, "identity: the name belongs to another key")
            return
        self.keys[message.device] = message.public_key
        await self._answer(message, "registered")

    async def _update(self, update: Update, body: bytes) -> None:
        problem = self._problem(update)
        whole = None if problem else self._assemble(update, body)
        if whole is None and problem is None:
            return
        if whole is None or (problem := self._problem_of_body(update, whole)):
            self._refuse(update.device, str(problem))
            await self._answer(update, f"rejected:{problem}")
            return
        verdict = self._store.verdict(update)
        if verdict == "accepted":
            self._blobs.put(whole)
            verdict = self._store.count_update(update)
        if verdict == "conflict":
            log.error("SECURITY: %s sent two different updates for round %d", update.device, update.round)
        await self._answer(update, verdict)

    def _count(self, update: Update, body: bytes) -> str:
        """Keep the body, then count the update: both are on disk before anybody is told."""
        self._blobs.put(body)
        return self._store.count_update(update)

    def _problem(self, update: Update) -> str | None:
        if update.codec not in CODECS:
            return "codec: unknown"
        if update.length != self._size * CODECS[update.codec].itemsize:
            return "shape: not the plug-in's number of weights"
        if not 1 <= update.samples <= LARGEST_SAMPLES:
            return "samples: none, or more than a device can have"
        if not 0 <= update.loss <= LARGEST_LOSS:
            return "loss: not a finite number of at least 0"
        if update.part >= update.parts:
            return "part: beyond the last"
        return None

    def _assemble(self, update: Update, body: bytes) -> bytes | None:
        """Collect parts, one unfinished update a device; return the body when it is whole."""
        if update.parts == 1:
            self._assemblies.pop(update.device, None)
            return body
        kept = self._assemblies.get(update.device)
        if kept is None or kept.update.body != update.body:
            kept = self._assemblies[update.device] = _Assembly(update)
        kept.parts[update.part], kept.touched = body, time.monotonic()
        if kept.size > update.length:
            self._assemblies.pop(update.device)
            self._refuse(update.device, "part: together more than the update's length")
            return None
        if not self._within_budget():
            self._assemblies.pop(update.device)
            self._refuse(update.device, "memory: too many unfinished updates")
            return None
        if len(kept.parts) < update.parts:
            return None
        self._assemblies.pop(update.device)
        return b"".join(kept.parts[i] for i in sorted(kept.parts))

    def _within_budget(self) -> bool:
        """Whether all unfinished updates fit; where they do not, those that have long rested are given up first."""
        if sum(a.size for a in self._assemblies.values()) <= ASSEMBLY_BUDGET:
            return True
        oldest = time.monotonic() - ASSEMBLY_SECONDS
        self._assemblies = {name: a for name, a in self._assemblies.items() if a.touched >= oldest}
        return sum(a.size for a in self._assemblies.values()) <= ASSEMBLY_BUDGET

    def _problem_of_body(self, update: Update, body: bytes) -> str | None:
        if len(body) != update.length or digest(body) != update.body:
            return "hash: the body is not the one the header names"
        try:
            weights = decode(body, self._size, update.codec)
        except WireError as error:
            return f"values: {error}"
        return "values: a weight no model learns" if np.abs(weights).max(initial=0.0) > LARGEST_WEIGHT else None


def _device_of(topic: str) -> str:
    """Whose topic it is; an empty name for a topic of no device."""
    levels = topic.split("/")
    return levels[4] if len(levels) > 4 else ""
