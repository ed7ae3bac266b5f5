"""Who may read and write what (PROTOCOL.md, section 4), and that nobody gets another's name.

What is delivered counts, not what is granted: brokers answer what is forbidden with a code, with silence, or by ending
the connection, and all of these are right. After the attempts each side hears one honest message that was sent later.
"""

from __future__ import annotations

import dataclasses

from auricle.mqtt_link.settings import BrokerAddress, Will
from auricle.wire.frames import UP
from tests.brokers.check import COORDINATOR, ONE, TWO, Figures, Target, check, expect
from tests.brokers.session import EndError, RefusalError, Session

FORBIDDEN = (
    f"# +/# $SYS/# $share/g/# $share/g/T/d/+/up/# T/# T/d/+/dn/# T/d/{TWO}/# T/d/{TWO}/dn/cmd T/d/+/state T/d/+/up/+ "
    "auricle/1/another-fleet/c/#"
)
"""Filters that a device may not read; T stands for the fleet's prefix."""
OTHERS = f"d/{TWO}/up/upd d/{TWO}/state d/{TWO}/dn/cmd d/{ONE}/dn/cmd c/model c/state b/x/0 d/{COORDINATOR}/up/upd d/x"
"""Topics below the fleet's prefix that a device may not write."""


async def enters(session: Session) -> bool:
    """Whether a broker lets a session in."""
    try:
        await session.open()
        await session.ping()
    except (EndError, RefusalError):
        return False
    return True


async def attempt(target: Target, user: str, session: Session, what: str, payload: bytes | None = None) -> Session:
    """Publish on a topic, or subscribe a filter where there is no payload; the session to go on with."""
    try:
        if payload is None:
            await session.subscribe(what)
        else:
            session.send(what, payload, retain=True)
        await session.ping()
    except EndError:
        heard = session.heard
        session = await target.open(user, expiry=60, clean=False)
        session.heard[:0] = heard
    return session


@check("nobody without a name")
async def nobody(target: Target) -> None:
    """Neither no name nor a wrong password gets in."""
    good = target.users[ONE]
    user, password = good.credentials()
    expect(password is not None or good.certificate is not None, "It lets in a client without name and password.")
    strangers = {"without name and password": target.session(ONE, "stranger")}
    if password is not None:
        strangers["with a wrong password"] = target.session(ONE)
        strangers["with a wrong password"].address = good.as_user(str(user), "x" + password)
        strangers["without name and password"].address = _plain(good, login=None, username=None, password=None)
    else:
        strangers["without name and password"].address = _plain(good, certificate=None, key=None)
    for how, session in strangers.items():
        expect(not await enters(session), f"It lets in a client {how}.")


def _plain(address: BrokerAddress, **less: None) -> BrokerAddress:
    return dataclasses.replace(address, **less)  # type: ignore[arg-type]


@check("everybody gets what is theirs")
async def own(target: Target) -> Figures:
    """Each reads and writes all that PROTOCOL.md grants."""
    top = target.top
    head = await target.open(COORDINATOR, "d/+/up/#", "d/+/state")
    device = await target.open(ONE, f"d/{ONE}/dn/#", "c/#", "b/#")
    down = [f"c/{target.mark}", f"b/{target.mark}/0", f"d/{ONE}/dn/inv", f"d/{ONE}/dn/ack", f"d/{ONE}/dn/cmd"]
    for topic in down:
        await head.publish(f"{top}/{topic}", target.mark.encode())
    up = [f"d/{ONE}/up/{kind}" for kind in UP] + [f"d/{ONE}/state"]
    for topic in up:
        await device.publish(f"{top}/{topic}", target.mark.encode())
    for session, topics in ((device, down), (head, up)):
        wanted = {f"{top}/{topic} {target.mark}" for topic in topics}
        await session.until(lambda texts, wanted=wanted: wanted <= set(texts))  # type: ignore[misc]
        missing = sorted(text.split()[0] for text in wanted.difference(session.texts()))
        expect(not missing, f"What {session.name} may read does not come: {', '.join(missing)}.")
    return {"topics": len(up) + len(down)}


@check("a device writes nothing but its own", by_name=True)
async def writes(target: Target) -> Figures:
    """Messages in the name of others, and of the coordinator, reach nobody and are not kept."""
    top, mark = target.top, target.mark
    head = await target.open(COORDINATOR, "d/+/up/#", "d/+/state")
    victim = await target.open(TWO, f"d/{TWO}/dn/#", "c/#", "b/#")
    thief = await target.open(ONE, "c/#", f"d/{ONE}/dn/#", expiry=60)
    for topic in OTHERS.split():
        thief = await attempt(target, ONE, thief, f"{top}/{topic}", f"forged {mark}".encode())
    await thief.publish(f"{top}/d/{ONE}/up/upd", f"honest {mark}".encode())
    await head.until(lambda texts: f"{top}/d/{ONE}/up/upd honest {mark}" in texts)
    await head.publish(f"{top}/d/{TWO}/dn/ack", f"honest {mark}".encode())
    await victim.until(lambda texts: f"{top}/d/{TWO}/dn/ack honest {mark}" in texts)
    await victim.close()
    late = await target.open(TWO, f"d/{TWO}/dn/#", "c/#", "b/#")  # what was kept comes now
    await head.publish(f"{top}/d/{TWO}/dn/ack", f"late {mark}".encode())
    expect(await late.until(lambda texts: f"{top}/d/{TWO}/dn/ack late {mark}" in texts), "An honest message is lost.")
    heard = [text for each in (head, victim, late, thief) for text in each.texts() if f"forged {mark}" in text]
    expect(not heard, f"It delivers what a device may not write: {heard[:1]}.")
    return {"attempts": len(OTHERS.split())}


@check("a forbidden subscription delivers nothing", by_name=True)
async def reads(target: Target) -> Figures:
    """Whatever the broker says to a subscription, nothing comes that a device may not read."""
    top, mark = target.top, target.mark
    head = await target.open(COORDINATOR, "d/+/up/#", "d/+/state")
    other = await target.open(TWO)
    await other.publish(f"{top}/d/{TWO}/state", f"private {mark}".encode(), retain=True)
    thief = await target.open(ONE, expiry=60)
    filters = [each.replace("T/", f"{top}/") for each in FORBIDDEN.split()]
    for each in filters:
        thief = await attempt(target, ONE, thief, each)
    await thief.subscribe(f"{top}/c/#")
    await other.publish(f"{top}/d/{TWO}/up/upd", f"private {mark}".encode())
    await other.publish(f"{top}/d/{TWO}/state", f"private {mark}".encode(), retain=True)
    await head.publish(f"{top}/d/{TWO}/dn/cmd", f"private {mark}".encode())
    await head.publish(f"{top}/c/{mark}", b"end")
    expect(await thief.until(lambda texts: f"{top}/c/{mark} end" in texts), "It keeps an honest message back.")
    await other.publish(f"{top}/d/{TWO}/state", b"", retain=True)
    heard = [each for each in thief.texts() if not each.startswith(f"{top}/c/")]
    await target.forget(ONE)
    expect(not heard, f"A device hears what it may not read: {', '.join(sorted({each.split()[0] for each in heard}))}.")
    return {"filters": len(filters)}


@check("a will obeys the rights", by_name=True)
async def wills(target: Target) -> None:
    """What a device may not publish it may not leave as its will."""
    head = await target.open(COORDINATOR)
    listener = await target.open(TWO, "c/#")
    thief = target.session(ONE, will=Will(f"{target.top}/c/{target.mark}", b"forged", retain=False))
    if await enters(thief):
        thief.kill()
    await target.forget(ONE)
    await head.publish(f"{target.top}/c/{target.mark}", b"honest")
    expect(await listener.until(lambda texts: f"{target.top}/c/{target.mark} honest" in texts), "A message is lost.")
    expect(f"{target.top}/c/{target.mark} forged" not in listener.texts(), "It publishes a forbidden will.")


@check("nobody takes over another's session", by_name=True)
async def takeover(target: Target) -> Figures:
    """A device that names another's client id ends no connection and gets nothing of what waits there."""
    top, mark = target.top, target.mark
    head = await target.open(COORDINATOR)
    victim = await target.open(TWO, f"d/{TWO}/dn/#", expiry=60)
    thief = target.session(ONE, TWO, clean=False, expiry=60)
    inside = await enters(thief)
    await head.publish(f"{top}/d/{TWO}/dn/ack", mark.encode())
    reached = await victim.until(lambda texts: f"{top}/d/{TWO}/dn/ack {mark}" in texts, 3)
    ended, stolen = victim.ended.is_set(), len(thief.heard)
    for session in (victim, thief):
        session.kill()
    for user in (ONE, TWO):
        await target.forget(user)
    expect(not stolen, "A device that names another's client id is given that one's messages.")
    expect(not ended and reached, "A device that names another's client id ends that one's connection.")
    return {"let in under its own name": "yes" if inside else "no"}
