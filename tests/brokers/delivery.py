"""What a broker keeps and hands on: retained messages, sessions, wills, and messages until they are acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from auricle.errors import BrokerError
from auricle.mqtt_link.link import Delivery, LinkSettings, MqttLink
from auricle.mqtt_link.settings import Will
from tests.brokers.check import COORDINATOR, ONE, Figures, MissError, NotTriedError, Target, check, expect
from tests.brokers.session import RefusalError, Session

SHORT = 2
"""Seconds after which a session, a message or a will is due."""


@check("a retained message is kept, and an empty one clears it")
async def retention(target: Target) -> None:
    """Who subscribes later gets the last one, marked as retained; after an empty one nothing."""
    head, topic = await target.open(COORDINATOR), f"{target.top}/c/{target.mark}"
    for payload in (b"first", b"last"):
        await head.publish(topic, payload, retain=True)
    device = await target.open(ONE, f"c/{target.mark}")
    await device.until(lambda texts: f"{topic} last" in texts)
    expect(device.texts() == [f"{topic} last"], f"A later subscriber hears {device.texts()} and not the last one.")
    expect(device.heard[0].retain, "What it kept is not marked as retained.")
    await device.close()
    await head.publish(topic, b"", retain=True)
    device = await target.open(ONE, f"c/{target.mark}")
    await head.publish(topic, b"end")
    expect(await device.until(lambda texts: f"{topic} end" in texts), "A message is lost.")
    expect(device.texts() == [f"{topic} end"], "An empty retained message does not clear the one before.")


@check("retained messages survive a restart", "used")
async def restart(target: Target) -> None:
    """After the broker was asked to end and started again, what it kept is there."""
    if target.restart is None:
        raise NotTriedError("Somebody else runs this broker: the suite does not restart it.")
    head, topic = await target.open(COORDINATOR), f"{target.top}/c/{target.mark}"
    await head.publish(topic, b"kept", retain=True)
    await head.close()
    await target.restart()
    device = await target.open(ONE, f"c/{target.mark}")
    expect(await device.until(lambda texts: f"{topic} kept" in texts, 3), "After a restart they are gone.")
    async with await target.open(COORDINATOR) as head:
        await head.publish(topic, b"", retain=True)


@check("a session comes back with what waited for it", "used")
async def returns(target: Target) -> Figures:
    """Messages of QoS 1 for a client that is away come when it is back, each once and in order."""
    topic = f"{target.top}/d/{ONE}/dn/ack"
    head = await target.open(COORDINATOR)
    away = await target.open(ONE, f"d/{ONE}/dn/#", expiry=60)
    await away.ping()
    away.kill()
    wanted = [f"{topic} {target.mark} {number}" for number in range(30)]
    for text in wanted:
        await head.publish(topic, text.partition(" ")[2].encode())
    back = await target.open(ONE, clean=False, expiry=60)
    expect(back.present, "It has forgotten the session.")
    await back.until(lambda texts: len(texts) >= len(wanted))
    heard = [text for text in back.texts() if target.mark in text]
    await back.close()
    await target.forget(ONE)
    expect(set(heard) == set(wanted), f"Of {len(wanted)} messages that waited {len(set(heard))} came.")
    expect(heard == wanted, "They come in another order, or twice.")
    return {"messages": len(wanted)}


@check("a session ends with its expiry", "used")
async def expires(target: Target) -> None:
    """After the seconds that were agreed nothing is left of it."""
    target.require_five()
    head = await target.open(COORDINATOR)
    away = await target.open(ONE, f"d/{ONE}/dn/#", expiry=SHORT)
    await away.ping()
    away.kill()
    await head.publish(f"{target.top}/d/{ONE}/dn/ack", target.mark.encode())
    await asyncio.sleep(2 * SHORT + 1)
    back = await target.open(ONE, clean=False)
    expect(not back.present, f"A session of {SHORT} s is there after {2 * SHORT + 1} s.")


@check("a message ends with its expiry", "used")
async def stale(target: Target) -> Figures:
    """An invitation that nobody fetched in time is not delivered, and keeps nothing else back.

    The device subscribes again when it is back, as Auricle's client does: mosquitto 2.0.11 with one message on its way
    (`max_inflight_messages 1`) otherwise waits behind the expired one until there is news for the session.
    """
    target.require_five()
    topic = f"{target.top}/d/{ONE}/dn/inv"
    head = await target.open(COORDINATOR)
    away = await target.open(ONE, f"d/{ONE}/dn/#", expiry=60)
    await away.ping()
    away.kill()
    await head.publish(topic, f"old {target.mark}".encode(), expiry=1)
    await head.publish(topic, f"good {target.mark}".encode(), expiry=60)
    await asyncio.sleep(SHORT)
    back = await target.open(ONE, clean=False, expiry=60)
    at_once = await back.until(lambda texts: f"{topic} good {target.mark}" in texts, 1.0)
    await back.subscribe(f"{target.top}/d/{ONE}/dn/#")
    came = await back.until(lambda texts: f"{topic} good {target.mark}" in texts)
    await back.close()
    await target.forget(ONE)
    expect(came, "A message whose time has not come is lost.")
    expect(f"{topic} old {target.mark}" not in back.texts(), "A message is delivered after its expiry.")
    return {"the next one comes": "at once" if at_once else "after SUBSCRIBE"}


@check("what is not acknowledged comes again", "used")
async def again(target: Target) -> Figures:
    """A client that dies before its PUBACK gets the message on its next connection, marked as a repeat."""
    topic = f"{target.top}/d/{ONE}/dn/cmd"
    head = await target.open(COORDINATOR)
    first = await target.open(ONE, f"d/{ONE}/dn/#", expiry=60)
    first.acknowledges = False
    await head.publish(topic, target.mark.encode())
    expect(await first.until(lambda texts: f"{topic} {target.mark}" in texts), "A message is lost.")
    first.kill()
    second = await target.open(ONE, clean=False, expiry=60)
    came = await second.until(lambda texts: f"{topic} {target.mark}" in texts)
    await second.ping()
    await second.close()
    third = await target.open(ONE, clean=False, expiry=60)
    await head.publish(topic, b"end")
    await third.until(lambda texts: f"{topic} end" in texts)
    repeats = third.texts().count(f"{topic} {target.mark}")
    await third.close()
    await target.forget(ONE)
    expect(came, "A message that was not acknowledged is gone.")
    expect(not repeats, "A message that was acknowledged comes again.")
    return {"marked as a repeat": "yes" if second.heard[0].duplicate else "no"}


async def _state(target: Target, listener: Session, text: str, seconds: float = 10.0) -> bool:
    return await listener.until(lambda texts: f"{target.top}/d/{ONE}/state {text}" in texts, seconds)


def _will(target: Target, delay: int = 0) -> Will:
    return Will(f"{target.top}/d/{ONE}/state", f"gone {target.mark}".encode(), delay=delay)


async def _cleared(target: Target) -> None:
    async with await target.open(ONE) as device:
        await device.publish(f"{target.top}/d/{ONE}/state", b"", retain=True)


@check("a will comes after a death, is kept, and not after a goodbye")
async def will(target: Target) -> None:
    """Presence of a device: a retained will, published where the connection breaks and only there."""
    listener = await target.open(COORDINATOR, f"d/{ONE}/state")
    polite = await target.open(ONE, will=_will(target))
    await polite.close()
    device = await target.open(ONE)
    await device.publish(f"{target.top}/d/{ONE}/state", f"here {target.mark}".encode(), retain=True)
    expect(await _state(target, listener, f"here {target.mark}"), "A message is lost.")
    expect(f"gone {target.mark}" not in " ".join(listener.texts()), "It publishes the will after a DISCONNECT.")
    await device.close()
    (await target.open(ONE, will=_will(target))).kill()
    expect(await _state(target, listener, f"gone {target.mark}"), "It does not publish the will of a dead client.")
    await listener.close()
    late = await target.open(COORDINATOR, f"d/{ONE}/state")
    came = await _state(target, late, f"gone {target.mark}", 3)
    await _cleared(target)
    expect(came, "It does not keep a retained will.")


@check("a will waits for its delay", "used")
async def will_delay(target: Target) -> None:
    """A break that is shorter than the delay says nothing."""
    target.require_five()
    listener = await target.open(COORDINATOR, f"d/{ONE}/state")
    (await target.open(ONE, will=_will(target, SHORT), expiry=60)).kill()
    early = await _state(target, listener, f"gone {target.mark}", 0.5)
    back = await target.open(ONE, clean=False, expiry=60)
    later = await _state(target, listener, f"gone {target.mark}", SHORT + 1)
    back.kill()
    (await target.open(ONE, will=_will(target, SHORT), clean=False, expiry=60)).kill()
    in_the_end = await _state(target, listener, f"gone {target.mark}", SHORT + 5)
    await target.forget(ONE)
    await _cleared(target)
    expect(not early and not later, "It publishes the will although the client is back before the delay.")
    expect(in_the_end, "It does not publish a will that has a delay.")


@check("MQTT 3.1.1")
async def older(target: Target) -> None:
    """The protocol is complete on 3.1.1."""
    await _exchange(target, "3.1.1", "3.1.1")


@check("MQTT 5", "used")
async def newer(target: Target) -> None:
    """Expiry, reasons and shared subscriptions are of MQTT 5."""
    target.require_five()
    await _exchange(target, "5", "5")


@check("3.1.1 beside 5", "used")
async def mixed(target: Target) -> None:
    """Devices of one version and a coordinator of the other hear each other."""
    target.require_five()
    await _exchange(target, "5", "3.1.1")
    await _exchange(target, "3.1.1", "5")


async def _exchange(target: Target, heads: str, devices: str) -> None:
    head = target.session(COORDINATOR, protocol=heads)
    device = target.session(ONE, protocol=devices)
    try:
        async with head, device:
            await head.subscribe(f"{target.top}/d/+/up/#")
            await device.subscribe(f"{target.top}/d/{ONE}/dn/#")
            await head.publish(f"{target.top}/d/{ONE}/dn/ack", target.mark.encode())
            await device.publish(f"{target.top}/d/{ONE}/up/upd", target.mark.encode())
            down = await device.until(lambda texts: f"{target.top}/d/{ONE}/dn/ack {target.mark}" in texts)
            up = await head.until(lambda texts: f"{target.top}/d/{ONE}/up/upd {target.mark}" in texts)
    except RefusalError as error:
        raise MissError(f"It refuses a client of MQTT {heads} or {devices}.") from error
    expect(up and down, f"A coordinator of MQTT {heads} and a device of {devices} do not hear each other.")


@check("Auricle's own client")
async def link(target: Target) -> Figures:
    """After a broken connection it is back, what it publishes comes, and it hears what is published from then on."""
    heard: list[bytes] = []

    async def take(message: Delivery) -> None:
        heard.append(message.payload)

    mark, topic = target.mark.encode(), f"{target.top}/d/{ONE}/dn/ack"
    head = await target.open(COORDINATOR, "d/+/up/#")
    await target.forget(ONE)
    settings = LinkSettings(target.users[ONE], ONE, backoff_first=0.5)
    async with MqttLink(settings, handlers={f"{target.top}/d/{ONE}/dn/#": take}) as device:
        await device.wait_connected(10)
        if device._connection is not None:
            device._connection.drop("the check pulls the plug")
        await head.publish(topic, b"meanwhile " + mark)
        try:
            await device.publish(f"{target.top}/d/{ONE}/up/upd", mark, expiry=20)
        except BrokerError as error:
            raise MissError(f"It does not take what Auricle's client publishes ({error}).") from error
        up = await head.until(lambda texts: f"{target.top}/d/{ONE}/up/upd {target.mark}" in texts)
        await head.publish(topic, b"later " + mark)
        with suppress(asyncio.TimeoutError, TimeoutError):
            await asyncio.wait_for(_until(lambda: b"later " + mark in heard), 10)
    await target.forget(ONE)
    expect(up, "What it publishes after a broken connection does not come.")
    expect(heard.count(b"later " + mark) == 1, "After a broken connection it does not hear what is published once.")
    return {"published meanwhile": "comes" if b"meanwhile " + mark in heard else "lost"}


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)
