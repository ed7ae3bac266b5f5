"""What rounds and their rules made of single devices, noted in the transactions that enter it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa

from auricle_cloud.states.attendance import MISSED, REFUSED_ROUNDS, not_in_quorum
from auricle_cloud.states.outcome import OUTCOMES
from auricle_cloud.storage.journal import note
from auricle_cloud.storage.schema import devices, updates
from auricle_learning.aggregation.cohort import Aggregate, Bounded

MOST_NAMED = 20
"""Devices of a round that have an event each for being bounded, those that said most first."""
RUNNING = 5
"""Rounds running, of those that a device took part in, after which an event says that the rule leaves it out."""
AT_ONCE = 500
"""Devices that one statement changes."""


def note_rule(
    tx: sa.Connection, aggregate: Aggregate, *, task: str, number: int, rule: str, hidden: bool = False
) -> None:
    """Note whom a rule bounded, and whom it left out of every layer.

    Parameters
    ----------
    tx
        The transaction that enters the round's model.
    aggregate
        What the rule made of the round's updates.
    task, number, rule
        The round, and the rule's name.
    hidden
        Whether only buckets of a secure sum were seen.
    """
    note_bounded(tx, aggregate.bounded, task=task, number=number)
    out = [*aggregate.left_out]
    running = bool(aggregate.kept.any())  # where nobody counts, no device differs from the others
    if running:
        _count_rounds(tx, [name for name in aggregate.ids if name not in {*out}], 0)
        _count_rounds(tx, out, devices.c.left_out_rounds + 1)
    for start in range(0, len(out), AT_ONCE):
        some = out[start : start + AT_ONCE]
        mine = (updates.c.task == task) & (updates.c.counted_in == number) & updates.c.device.in_(some)
        tx.execute(sa.update(updates).where(mine).values(left_out=True))
        again = sa.literal(running) & devices.c.device.in_(some) & (devices.c.left_out_rounds % RUNNING == 0)
        for name, rounds in tx.execute(sa.select(devices.c.device, devices.c.left_out_rounds).where(again)).all():
            note_left_out(tx, name, rounds, task=task, number=number, rule=rule, hidden=hidden)


def note_left_out(
    tx: sa.Connection, device: str, rounds: int, *, task: str, number: int, rule: str, hidden: bool = False
) -> None:
    """Enter an event for a device that a rule has left out of so many rounds running, the last of which is `number`.

    `hidden` as of `note_rule`: which device of a bucket lied is not known of one round, but of those that are drawn
    together with others in each round it is more and more likely the one that always is there.
    """
    why = f"auricle cloud rounds why {number} {device} says"
    if hidden:
        detail = f"in a bucket that was left out in {rounds} rounds running, each time with others: {why} why; "
        detail += "quarantine it if it may be the one that lies"
    else:
        detail = f"left out by {rule} in {rounds} rounds running: {why} how far it is from the others; "
        detail += "quarantine it if its microphone or labels are wrong, or serve with --method norm-clip if it only "
        detail += "sounds different"
    note(tx, OUTCOMES["left_out"].event, device=device, task=task, number=number, detail=detail)


def note_slow(tx: sa.Connection, slow: Mapping[str, int], *, task: str, number: int, deadline: float) -> None:
    """Enter an event for each device for which a round waits, whose earlier ones it missed; `deadline` in seconds."""
    for name, detail in slow_told(slow, number, deadline):
        note(tx, OUTCOMES["late"].event, device=name, task=task, number=number, detail=detail)


def slow_told(slow: Mapping[str, int], number: int, deadline: float) -> list[tuple[str, str]]:
    """Devices for which a round waits, and which setting it is; after a wait that brought nothing, the deadline.

    Parameters
    ----------
    slow
        How many rounds running each of them missed.
    number, deadline
        The round, and its deadline in seconds.
    """
    told = []
    for name, rounds in [*slow.items()][:MOST_NAMED]:
        detail = f"too late in {rounds} rounds running: round {number} waits for it until the deadline"
        if rounds > MISSED:
            detail += f", as an earlier one did without success: raise the deadline of {deadline:g} s, or quarantine it"
        else:
            detail += "; patience and least_wait in [rounds] say how long others wait for it"
        told.append((name, detail))
    return told


def note_broken(tx: sa.Connection, broken: Mapping[str, int], *, task: str, number: int) -> None:
    """Enter an event for each device that does not count for a round's quorum, when it begins and now and then."""
    for name, detail in broken_told(broken):
        note(tx, OUTCOMES["refused"].event, device=name, task=task, number=number, detail=detail)


def broken_told(broken: Mapping[str, int]) -> list[tuple[str, str]]:
    """Devices that do not count for a quorum, and what to do: after 3 rounds that brought nothing, 6, 12 and so on.

    Parameters
    ----------
    broken
        How many rounds running brought nothing of each of them.
    """
    return [
        (name, f"{not_in_quorum(rounds)}: auricle cloud devices show {name} says why; quarantine it, or mend it")
        for name, rounds in broken.items()
        if rounds % REFUSED_ROUNDS == 0 and (rounds // REFUSED_ROUNDS).bit_count() == 1
    ][:MOST_NAMED]


def note_mended(tx: sa.Connection, broken: Iterable[str], counted: Iterable[str], *, task: str, number: int) -> None:
    """Enter an event for each device that did not count for a round's quorum, and whose update it counts."""
    for name, detail in mended_told(broken, counted):
        note(tx, "in quorum again", device=name, task=task, number=number, detail=detail)


def mended_told(broken: Iterable[str], counted: Iterable[str]) -> list[tuple[str, str]]:
    """Those devices of which an update counts again, and what is said of it."""
    return [(name, "an update of it counts again, and it for the quorum") for name in sorted({*broken} & {*counted})]


def note_bounded(tx: sa.Connection, bounded: Sequence[Bounded], *, task: str, number: int) -> None:
    """Enter an event for each device that counted for something else than it said; that an update was long is no news.

    A device may have said too little: of steps.
    """
    lies = [entry for entry in bounded if entry.what != "length"]
    for entry in sorted(lies, key=_how_far, reverse=True)[:MOST_NAMED]:
        detail = f"{entry.what} {entry.said:.6g} counted as {entry.counted:.6g}"
        note(tx, "bounded", device=entry.device, task=task, number=number, detail=detail)


def _how_far(entry: Bounded) -> float:
    """How many times what was said is what was counted, or the other way round."""
    said, counted = max(abs(entry.said), 1e-9), max(abs(entry.counted), 1e-9)
    return max(said / counted, counted / said)


def _count_rounds(tx: sa.Connection, names: Sequence[str], rounds: int | sa.ColumnElement[int]) -> None:
    for start in range(0, len(names), AT_ONCE):
        some = devices.c.device.in_(names[start : start + AT_ONCE])
        tx.execute(sa.update(devices).where(some).values(left_out_rounds=rounds))
