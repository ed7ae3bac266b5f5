"""Fetch a content-addressed blob over MQTT: subscribe to its chunks, put them together, check, unsubscribe."""

from __future__ import annotations

import asyncio

from auricle.errors import WireError
from auricle.mqtt_link.deadline import within
from auricle.mqtt_link.link import Delivery, MqttLink
from auricle.wire.tensors import digest
from auricle.wire.topics import Topics

LARGEST_BLOB = 16 << 20


async def fetch_blob(link: MqttLink, topics: Topics, sha256: str, length: int, chunks: int, timeout: float) -> bytes:
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

    Raises
    ------
    WireError
        It is larger than allowed, did not come in time, or is not what was promised.
    """
    if length > LARGEST_BLOB:
        raise WireError(f"A model of {length} bytes is over the limit of {LARGEST_BLOB}.")
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
        raise WireError(f"Model {sha256[:12]} did not arrive within {timeout:.0f} s.") from error
    finally:
        await link.unsubscribe(pattern)
    blob = b"".join(parts[i] for i in range(chunks))
    if len(blob) != length or digest(blob) != sha256:
        raise WireError(f"What arrived as model {sha256[:12]} is not that model.")
    return blob


def _chunk_number(topic: str, chunks: int) -> int | None:
    """Which chunk arrived; None for a topic that names none of ours."""
    name = topic.rsplit("/", 1)[1]
    if not (name.isascii() and name.isdigit() and len(name) <= 4):
        return None
    return int(name) if int(name) < chunks else None
