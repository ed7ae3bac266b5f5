"""What the coordinator says: signed frames to devices, and the current model to all. Saying it again is harmless."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypedDict

from auricle.errors import BrokerError
from auricle.mqtt_link.link import MqttLink
from auricle.packs.pack import Pack
from auricle.wire.frames import CHUNK, Topics, seal
from auricle.wire.identity import Identity
from auricle.wire.messages import (
    Abort,
    Ack,
    Asked,
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
from auricle.wire.plan import InferenceLoss, Lent, Plan
from auricle_cloud.settings import NAME
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.blobs import BlobStore
from auricle_cloud.storage.release_records import ReleaseKind
from auricle_cloud.storage.rows import ModelRow

log = logging.getLogger("auricle.cloud")

OFFERED_MODELS = 2
"""Models whose chunks stay on the broker: the current one and the one before."""


def chunks_of(length: int) -> int:
    """How many chunks a blob of so many bytes travels in."""
    return -(-length // CHUNK)


class Head(TypedDict):
    """Whom a message is from or to, as all have it."""

    fleet: str
    device: str
    boot: str


class Work(TypedDict):
    """What a device is to work on, in which round."""

    task: str
    round: int
    epoch: int
    base: str
    length: int
    codec: str
    chunks: int


class Asking(TypedDict):
    """Whom a question of a secure sum is to, in which round, and of which epoch."""

    fleet: str
    device: str
    boot: str
    task: str
    round: int
    epoch: int


class Messenger:
    """Speaks for one coordinator process.

    Parameters
    ----------
    fleet, task
        Names of fleet and task.
    pack
        What is trained: its identity and name, and the length of its plug-in, are told.
    identity, epoch, boot
        Who speaks, and since when; `epoch` is set again by a worker, which speaks for the leader.
    blobs
        Where models lie.
    """

    def __init__(
        self,
        fleet: str,
        task: str,
        pack: Pack,
        identity: Identity,
        epoch: int,
        boot: str,
        blobs: BlobStore,
    ) -> None:
        self.topics = Topics(fleet)
        self._fleet, self._task, self._length = fleet, task, pack.plugin_table.size * 4
        self._pack, self._pack_name = pack.identity, pack.manifest.name
        self._identity, self.epoch, self._boot, self._blobs = identity, epoch, boot, blobs
        self._offered: list[str] = []
        self._lent: list[str] = []
        self.link: MqttLink | None = None
        """Set once the link is made: its will needs a signed message first."""

    def _head(self, device: str = NAME) -> Head:
        return {"fleet": self._fleet, "device": device, "boot": self._boot}

    @property
    def _chunks(self) -> int:
        """Of a model."""
        return chunks_of(self._length)

    def presence(self, *, online: bool) -> bytes:
        """The signed message that the coordinator is there, or not."""
        state = CoordinatorState(**self._head(), online=online, epoch=self.epoch)
        return seal(self._identity, self.topics.coordinator_state, state)

    async def _publish(self, topic: str, payload: bytes, *, retain: bool = False, qos: int = 1) -> None:
        assert self.link is not None
        await self.link.publish(topic, payload, retain=retain, qos=qos)

    async def _send(self, topic: str, message: Message, *, retain: bool = False, qos: int = 1) -> None:
        await self._publish(topic, seal(self._identity, topic, message), retain=retain, qos=qos)

    async def be_present(self) -> None:
        """Tell all that the coordinator is there."""
        await self._publish(self.topics.coordinator_state, self.presence(online=True), retain=True)

    # -- to one device

    async def greet(self, device: str) -> None:
        """Ask a device that is not registered to register."""
        nothing = Nothing(**self._head(device), epoch=self.epoch, again=True)
        await self._send(self.topics.down(device, "cmd"), nothing)

    async def tell_standing(self, device: str, standing: str, reason: str = "", key: bytes = b"") -> None:
        """Tell a device whether it may take part; with `key` only the board that has it."""
        nothing = Nothing(
            **self._head(device), epoch=self.epoch, standing=standing, reason=reason[:200], key=key.hex()[:16]
        )
        await self._send(self.topics.down(device, "cmd"), nothing)

    async def acknowledge(self, update: Update, verdict: Verdict) -> None:
        """Tell what became of an update, once: a device that does not hear it sends again, and is told again."""
        ack = Ack(
            **self._head(update.device),
            task=update.task,
            round=update.round,
            attempt=update.attempt,
            epoch=self.epoch,
            body=update.body,
            verdict=verdict.code[:200],
            weight=verdict.weight,
        )
        await self._send(self.topics.down(update.device, "ack"), ack, qos=0)

    def invitation(self, number: int, base: str, plan: Plan, ttl: float) -> Invite:
        """The invitation to a round; each device gets it under its own name."""
        return Invite(**self._head(), **self._what(number, base), ttl=ttl, plan=plan)

    def question(self, number: int, base: str, loss: InferenceLoss) -> Measure:
        """The question for the loss of a model; each device gets it under its own name."""
        return Measure(**self._head(), **self._what(number, base), inference_loss=loss)

    def _what(self, number: int, base: str) -> Work:
        return {
            "task": self._task,
            "round": number,
            "epoch": self.epoch,
            "base": base,
            "length": self._length,
            "codec": "float32",
            "chunks": self._chunks,
        }

    async def tell(self, messages: Callable[[str], Sequence[Asked]], devices: Iterable[str]) -> None:
        """Send each device what is made for it, in that order."""

        async def one(device: str) -> None:
            for message in messages(device):
                await self._send(self.topics.down(device, "inv"), message)

        await asyncio.gather(*(one(device) for device in devices))

    def asking(self, device: str, number: int) -> Asking:
        """What every question of a round's secure sum says."""
        return {**self._head(device), "task": self._task, "round": number, "epoch": self.epoch}

    async def call_off(self, number: int, devices: Iterable[str], reason: str) -> None:
        """Tell devices to stop working on a round."""

        async def one(device: str) -> None:
            abort = Abort(**self._head(device), task=self._task, round=number, epoch=self.epoch, reason=reason[:200])
            await self._send(self.topics.down(device, "cmd"), abort)

        await asyncio.gather(*(one(device) for device in devices))

    async def direct(self, device: str, rollout: str, kind: ReleaseKind, path: str, identity: str) -> None:
        """Tell a device what to install."""
        target = Target(
            **self._head(device), epoch=self.epoch, rollout=rollout, kind=kind, path=path, identity=identity
        )
        await self._send(self.topics.down(device, "cmd"), target)

    async def tune(self, device: str, sensitivity: int) -> None:
        """Tell a device how much to hear."""
        message = Tune(**self._head(device), epoch=self.epoch, sensitivity=sensitivity)
        await self._send(self.topics.down(device, "cmd"), message)

    # -- to all

    async def offer(self, model: ModelRow) -> None:
        """Publish a model's chunks and its manifest, retained, and take back those of the one before the last."""
        blob = model.blob
        data = await self._lay_out(blob)
        manifest = Model(
            **self._head(),
            task=self._task,
            version=model.version,
            epoch=self.epoch,
            pack=self._pack,
            pack_name=self._pack_name,
            blob=blob,
            length=len(data),
            codec="float32",
            chunks=self._chunks,
            ttl=86400.0,
        )
        await self._send(self.topics.model, manifest, retain=True)
        await self._take_back(blob)

    async def _lay_out(self, blob: str) -> bytes:
        """Have the broker keep a blob's chunks; the blob."""
        data = await asyncio.to_thread(self._blobs.get, blob)
        for i in range(chunks_of(len(data))):
            await self._publish(self.topics.blob(blob, i), data[i * CHUNK : (i + 1) * CHUNK], retain=True)
        return data

    async def lend(self, blobs: Sequence[str]) -> None:
        """Publish the chunks of what single rounds lend to devices, models and others, by their hashes."""
        fresh = [blob for blob in blobs if blob not in self._lent]
        self._lent += fresh
        for blob in fresh:
            await self._lay_out(blob)

    async def lend_again(self) -> None:
        """The same once more: a broker may have lost what it kept."""
        for blob in [*self._lent]:
            await self._lay_out(blob)

    async def recall(self, blobs: Iterable[str], more: Iterable[Lent] = ()) -> None:
        """Take the chunks of lent models back, but not those of a model that is offered to all.

        Parameters
        ----------
        blobs
            The models.
        more
            What the round lent beside them.
        """
        self._lent = []
        for blob in set(blobs) - set(self._offered):
            await self._clear(blob, self._chunks)
        for lent in more:
            await self._clear(lent.blob, lent.chunks)

    async def take_back(self, topic: str) -> None:
        """Remove what a device had the broker retain: what it says is said once."""
        log.warning("removed a retained message from %s", topic)
        try:
            await self._publish(topic, b"", retain=True)
        except BrokerError as error:
            log.error("the message retained at %s stays: %s", topic, error)

    async def _take_back(self, newest: str) -> None:
        if newest in self._offered:
            self._offered.remove(newest)
        self._offered.append(newest)
        while len(self._offered) > OFFERED_MODELS:
            old = self._offered.pop(0)
            if old not in self._lent:
                await self._clear(old, self._chunks)

    async def _clear(self, blob: str, chunks: int) -> None:
        for i in range(chunks):
            await self._publish(self.topics.blob(blob, i), b"", retain=True)
