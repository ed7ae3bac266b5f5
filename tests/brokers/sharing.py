"""Shared subscriptions: several receivers of one coordinator. None is needed; what a group loses is worth knowing."""

from __future__ import annotations

from tests.brokers.check import COORDINATOR, ONE, TWO, Figures, MissError, NotOfferedError, Target, check, expect
from tests.brokers.session import EndError, Session

COUNT = 40


async def _join(target: Target, user: str, group: str, topics: str, **wishes: object) -> Session:
    """A member of a group; `NotOfferedError` where the broker has none."""
    member = await target.open(user, **wishes)
    if member.five and getattr(member.properties, "SharedSubscriptionAvailable", 1) == 0:
        raise NotOfferedError("It says that it has no shared subscriptions.")
    try:
        (code,) = await member.subscribe(f"$share/{group}/{target.top}/{topics}")
    except EndError as error:
        raise NotOfferedError("It ends a connection that asks for one.") from error
    if code >= 128:
        raise NotOfferedError("It refuses the subscription.")
    return member


def _numbers(session: Session, mark: str) -> list[int]:
    return [int(text.rsplit(" ", 1)[1]) for text in session.texts() if mark in text and not text.endswith("end")]


async def _spread(target: Target, head: Session, members: list[Session], first: int) -> None:
    """Publish to the group, and wait until no more comes."""
    topic = f"{target.top}/c/{target.mark}"
    for number in range(first, first + COUNT):
        await head.publish(topic, f"{target.mark} {number}".encode())

    async def count() -> int:
        return len({number for each in members for number in _numbers(each, target.mark) if number >= first})

    for each in members:
        await each.until(lambda _: False, 0.7)
        if await count() >= COUNT:
            return


async def _group(target: Target, **wishes: object) -> tuple[Session, list[Session]]:
    head = await target.open(COORDINATOR)
    members = [await _join(target, user, target.mark, f"c/{target.mark}", **wishes) for user in (ONE, TWO)]
    await _spread(target, head, members, 0)
    each = [set(_numbers(member, target.mark)) for member in members]
    if not any(each):
        raise NotOfferedError("It grants the subscription and delivers nothing.")
    return head, members


@check("of a group each message reaches one member", "used", by_name=True)
async def one_member(target: Target) -> Figures:
    """Two devices share what the coordinator publishes to all."""
    _, members = await _group(target)
    first, second = (_numbers(member, target.mark) for member in members)
    expect(
        sorted(first + second) == list(range(COUNT)), f"Of {COUNT} messages {len(first) + len(second)} were delivered."
    )
    return {"members": f"{len(first)} + {len(second)}"}


async def _after_death(target: Target, expiry: int) -> tuple[int, int, int, int]:
    """Messages that the member held when it was killed, those of them that the other got, and then of as many more."""
    head, members = await _group(target, expiry=expiry)
    one, two = members
    two.acknowledges = False
    await _spread(target, head, [one], COUNT)
    kept = COUNT - sum(number >= COUNT for number in _numbers(one, target.mark))
    two.kill()
    await _spread(target, head, [one], 2 * COUNT)
    numbers = _numbers(one, target.mark)
    handed = sum(COUNT <= number < 2 * COUNT for number in numbers) - (COUNT - kept)
    fresh = sum(number >= 2 * COUNT for number in numbers)
    back = await target.open(TWO, clean=False)
    await back.until(lambda _: False, 1.0)
    late = len(set(_numbers(back, target.mark)))
    await back.close()
    return kept, handed, fresh, late


@check("what a dead member held reaches another: its session ends with it", "used", by_name=True)
async def dead_member(target: Target) -> Figures:
    """A member without a session is killed with messages that it did not acknowledge."""
    kept, handed, fresh, _ = await _after_death(target, 0)
    expect(handed == kept, f"Of {kept} messages that it held {handed} reach another member; of {COUNT} more, {fresh}.")
    expect(fresh == COUNT, f"Of {COUNT} more the other member gets {fresh}.")
    return {"held": kept}


@check("what a dead member held reaches another: its session is kept", "used", by_name=True)
async def absent_member(target: Target) -> Figures:
    """A member with a session is killed with messages that it did not acknowledge, and comes back."""
    if not target.five:
        raise NotOfferedError("By MQTT 3.1.1 nothing says how long.")
    kept, handed, fresh, late = await _after_death(target, 60)
    expect(
        handed == kept and fresh == COUNT,
        f"Of {kept} messages that it held {handed} reach another member, of {COUNT} more {fresh}; {late} wait for it.",
    )
    return {"held": kept}


@check("who may not read takes nothing from a group", "used", by_name=True)
async def intruder(target: Target) -> Figures:
    """A device joins the coordinator's group; what it may not read has to reach the coordinator, not nobody."""
    topic = f"{target.top}/d/{ONE}/up/upd"
    head = await _join(target, COORDINATOR, "co", "d/+/up/upd")
    try:
        await _join(target, TWO, "co", "d/+/up/upd")
        joined = "granted"
    except NotOfferedError:
        joined = "refused"
    device = await target.open(ONE)
    for number in range(COUNT):
        await device.publish(topic, f"{target.mark} {number}".encode())
    await head.until(lambda texts: sum(target.mark in text for text in texts) >= COUNT, 2)
    count = len(_numbers(head, target.mark))
    if not count:
        raise MissError("A group of the coordinator is given nothing.")
    expect(
        count == COUNT,
        f"Of {COUNT} updates {COUNT - count} reach nobody: a device that may not read them is given a share.",
    )
    return {"its subscription": joined}
