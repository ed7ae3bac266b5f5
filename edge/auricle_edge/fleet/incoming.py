"""What arrives: signed by the coordinator, meant for this device and not said before; and models, fetched in chunks."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from auricle.errors import WireError
from auricle.mqtt_link.link import Delivery, MqttLink
from auricle.mqtt_link.reconnection import within
from auricle.wire.frames import Topics, open_frame
from auricle.wire.messages import Abort, Ack, Asked, CoordinatorState, Message, Model, Nothing, Target, Tune
from auricle.wire.plan import LARGEST_BLOB
from auricle.wire.tensors import digest

log = logging.getLogger("auricle.edge")

REMEMBERED_INVITATIONS = 1024
"""Invitations of which a copy is recognised."""


class Incoming:
    """Opens messages, and remembers which epoch of the coordinator spoke and what it asked.

    Parameters
    ----------
    fleet, device
        Who is meant.
    coordinator
        Public key, 32 bytes; nobody else is obeyed.
    """

    def __init__(self, fleet: str, device: str, coordinator: bytes) -> None:
        self._fleet, self._device, self._key = fleet, device, coordinator
        self._epoch = 0
        self._boot = ""
        self._asked: deque[str] = deque(maxlen=REMEMBERED_INVITATIONS)
        """Nonces of invitations and questions: one that comes again was recorded by somebody, or is a redelivery."""

    def open(self, arrived: Delivery) -> Message:
        """The message; WireError when it is not one, or not the coordinator's."""
        message, _ = open_frame(arrived.payload, arrived.topic, lambda _: self._key)
        return message

    def heeds(self, message: Message) -> bool:
        """Whether a message to devices is to be acted on; from then on nothing of an older epoch is, nor a copy."""
        if message.device != self._device or message.fleet != self._fleet:
            return False
        if isinstance(message, Asked | Ack | Nothing | Abort | Target | Tune):
            if message.epoch < self._epoch:
                log.warning("%s: ignored a message of an older coordinator", self._device)
                return False
            self._epoch = message.epoch
        if isinstance(message, Asked | Target | Tune):
            if message.nonce in self._asked:
                log.warning("%s: ignored an invitation that came before", self._device)
                return False
            self._asked.append(message.nonce)
        return True

    def is_another_coordinator(self, message: Message) -> bool:
        """Whether the coordinator's state says that it started after the device heard of it last."""
        if not isinstance(message, CoordinatorState) or message.epoch < self._epoch:
            return False
        if not message.online or message.boot == self._boot:
            return False
        self._boot, self._epoch = message.boot, message.epoch
        return True

    def newest_model(self, message: Message) -> Model | None:
        """The fleet's model that a message names; None where it is another message, or of an older epoch."""
        return message if isinstance(message, Model) and message.epoch >= self._epoch else None


async def fetch_blob(
    link: MqttLink, topics: Topics, sha256: str, length: int, chunks: int, timeout: float, what: str = "model"
) -> bytes:
    """Return the blob of this hash.

    Parameters
    ----------
    link
        A link that is allowed to read blobs.
    topics
        The fleet's topics.
    sha256, length, chunks
        What the signed message promised.
    timeout
        Seconds to wait for all chunks.
    what
        What sentences call it.

    Raises
    ------
    WireError
        It is larger than allowed, did not come in time, or is not what was promised.
    """
    if length > LARGEST_BLOB:
        raise WireError(f"{length} bytes of the {what} are over the limit of {LARGEST_BLOB}.")
    parts: dict[int, bytes] = {}
    complete = asyncio.Event()

    async def take(message: Delivery) -> None:
        part = _chunk_number(message.topic, chunks)
        if part is None or not message.payload:
            return
        others = sum(len(payload) for number, payload in parts.items() if number != part)
        if others + len(message.payload) <= length:
            parts[part] = message.payload
        if len(parts) == chunks:
            complete.set()

    pattern = topics.blob(sha256)
    await link.subscribe(pattern, take)
    try:
        await within(complete.wait(), timeout)
    except asyncio.TimeoutError as error:
        raise WireError(f"The {what} {sha256[:12]} did not arrive within {timeout:.0f} s.") from error
    finally:
        await link.unsubscribe(pattern)
    blob = b"".join(parts[i] for i in range(chunks))
    if len(blob) != length or digest(blob) != sha256:
        raise WireError(f"What arrived as the {what} {sha256[:12]} is not that {what}.")
    return blob


def _chunk_number(topic: str, chunks: int) -> int | None:
    """Which chunk arrived; None for a topic that names none of ours."""
    name = topic.rsplit("/", 1)[1]
    if not (name.isascii() and name.isdigit() and len(name) <= 4):
        return None
    return int(name) if int(name) < chunks else None
