"""How much a broker takes: sizes of packets, messages on their way, connections."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from tests.brokers.check import (
    COORDINATOR,
    ONE,
    TWO,
    Figures,
    MissError,
    NotOfferedError,
    NotTriedError,
    Target,
    check,
    expect,
)
from tests.brokers.session import EndError, RefusalError, Session

FRAME = 120 << 10
"""Bytes of the largest frame (PROTOCOL.md, section 5)."""
BEYOND = 4 << 20
"""Bytes at which a broker that takes them has no limit that protects anybody."""
IN_FLIGHT = 3
AT_ONCE = 50
"""Connections that are opened at one time."""


@check("a frame of 120 KiB passes")
async def frame(target: Target) -> Figures:
    """The largest frame reaches the coordinator as it was sent."""
    head = await target.open(COORDINATOR, "d/+/up/upd")
    device = await target.open(ONE)
    body = target.mark.encode() + bytes(FRAME - len(target.mark))
    await device.publish(f"{target.top}/d/{ONE}/up/upd", body)
    await head.until(lambda texts: any(target.mark in text for text in texts))
    expect(any(each.payload == body for each in head.heard), f"A message of {FRAME} bytes does not come.")
    return {"bytes": FRAME}


@check("it says its Maximum Packet Size", "used")
async def packet_limit(target: Target) -> Figures:
    """Auricle's client then refuses what is larger before it is sent."""
    target.require_five()
    device = await target.open(ONE)
    most = getattr(device.properties, "MaximumPacketSize", None)
    if most is None:
        raise NotOfferedError("Its CONNACK does not say one.")
    return {"bytes": most}


async def _send_beyond(target: Target) -> tuple[int, bool, bool, bool]:
    """Bytes of a message over the maximum; whether it ended its sender's connection, was passed on, harmed others."""
    head = await target.open(COORDINATOR, "d/+/up/#")
    other = await target.session(TWO if target.named else ONE, TWO).open()
    await other.subscribe(f"{target.top}/d/{TWO}/dn/#")
    sender = await target.open(ONE)
    most = getattr(sender.properties, "MaximumPacketSize", None) or BEYOND
    with suppress(EndError):
        await sender.publish(f"{target.top}/d/{ONE}/up/upd", target.mark.encode() + bytes(most))
    with suppress(EndError):
        await other.publish(f"{target.top}/d/{TWO}/up/upd", target.mark.encode() + b" honest")
        await head.publish(f"{target.top}/d/{TWO}/dn/ack", target.mark.encode())
    harmed = not await head.until(lambda texts: any(text.endswith(f"{target.mark} honest") for text in texts))
    harmed |= not await other.until(lambda texts: any(target.mark in text for text in texts))
    harmed |= head.ended.is_set() or other.ended.is_set()
    return most, sender.ended.is_set(), any(len(each.payload) > most for each in head.heard), harmed


@check("a packet over the maximum harms nobody")
async def too_large(target: Target) -> Figures:
    """Whatever becomes of it and of its sender, others stay connected and their messages come."""
    most, ended, _, harmed = await _send_beyond(target)
    expect(not harmed, f"A message of {most} bytes costs others their connection, or messages.")
    return {"bytes": most, "its sender": "is disconnected" if ended else "stays"}


@check("a packet over the maximum is refused", "used")
async def refusal(target: Target) -> Figures:
    """The maximum is the one that the broker says; where it says none, something below 4 MiB."""
    most, _, passed, _ = await _send_beyond(target)
    expect(not passed, f"It passes on a message of {most} bytes.")
    return {"bytes": most}


@check("Receive Maximum is kept", "used")
async def receive_maximum(target: Target) -> Figures:
    """A client that acknowledges nothing gets no more than it said, and all once it does."""
    target.require_five()
    topic, count = f"{target.top}/d/{ONE}/dn/ack", 20
    head = await target.open(COORDINATOR)
    slow = await target.open(ONE, f"d/{ONE}/dn/#", properties={"ReceiveMaximum": IN_FLIGHT}, expiry=60)
    slow.acknowledges = False
    for number in range(count):
        await head.publish(topic, f"{target.mark} {number}".encode())
    await slow.until(lambda texts: len(texts) > IN_FLIGHT, 1.0)
    most = len(slow.heard)
    slow.kill()
    back = await target.open(ONE, clean=False, expiry=60)
    await back.until(lambda texts: len(set(texts)) >= count)
    came = len({text for text in back.texts() if target.mark in text})
    await back.close()
    await target.forget(ONE)
    expect(most <= IN_FLIGHT, f"{most} messages are on their way to a client that takes {IN_FLIGHT} at a time.")
    expect(came == count, f"Of {count} messages {came} come once they are acknowledged.")
    return {"on their way": most}


@check("a crowd is connected", "used")
async def crowd(target: Target) -> Figures:
    """So many sessions at one time, and a message to all reaches each."""
    names = [name for name in target.users if name.startswith("crowd-")][: target.crowd]
    if not names:
        raise NotTriedError("This run has no names for a crowd, crowd-00000 and so on.")
    topic, began = f"{target.top}/c/{target.mark}", time.monotonic()
    gate = asyncio.Semaphore(AT_ONCE)

    async def enter(name: str) -> Session:
        async with gate:
            return await target.open(name, f"c/{target.mark}")

    try:
        sessions = await asyncio.gather(*(enter(name) for name in names))
    except (EndError, RefusalError) as error:
        raise MissError(f"It does not let {len(names)} in ({error}).") from error
    connected = time.monotonic() - began
    head = await target.open(COORDINATOR)
    began = time.monotonic()
    await head.publish(topic, b"all")
    reached = sum(await asyncio.gather(*(each.until(lambda texts: bool(texts), 30) for each in sessions)))
    told = time.monotonic() - began
    await asyncio.gather(*(each.close() for each in sessions))
    expect(reached == len(names), f"Of {len(names)} that are connected {reached} hear a message to all.")
    return {"connections": len(names), "connected after s": round(connected, 1), "all told after s": round(told, 1)}
