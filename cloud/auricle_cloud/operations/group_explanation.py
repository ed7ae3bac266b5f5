"""The groups of a round in sentences, where its rule makes some, and the features that stand for devices' clips."""

from __future__ import annotations

import math
from collections.abc import Iterable

from auricle.process.times import how_many
from auricle_cloud.states.report import GroupsReport, PriorReport

NAMED_DEVICES = 5
"""Devices that a sentence names before it says how many more."""


def about_groups(told: GroupsReport | None) -> list[str]:
    """Who belongs together, a sentence for each group; nothing of a rule that makes none."""
    if told is None or not told.of:
        return []
    numbers, apart = sorted(set(told.of.values())), told.silhouette
    how = "" if apart is None or not math.isfinite(apart) else f" (silhouette {apart:.2f})"
    goes_on = "each device goes on from its group's model" if told.own_models else "all go on from the fleet's model"
    said = [f"It made {how_many(len(numbers), 'group')} of devices{how}; {goes_on}."]
    for number in numbers:
        said.append(f"Group {number}: {name_some(name for name, of in told.of.items() if of == number)}.")
    return said


JUDGED = "It was judged with a classifier that the rule trained for that alone; devices go on with the model's."


def about_prior(told: PriorReport | None, *, evaluated: bool = False) -> list[str]:
    """What became of the features that stand for the devices' clips; nothing of a rule that has none.

    Parameters
    ----------
    evaluated
        Whether the round was judged by a classifier that was trained on them.
    """
    judged = [JUDGED] if evaluated else []
    if told is None or told.before is None or told.after is None:
        return judged
    words, devices = how_many(len(told.classes), "word"), how_many(told.clients, "device")
    return [
        f"Gradients of {words} came from {devices}; the features that stand for their clips follow them to a "
        f"distance of {told.after:.2f}, {told.before:.2f} before (0: the same direction, 1: none in common).",
        *judged,
    ]


def about_group(told: GroupsReport | None, name: str) -> list[str]:
    """With whom a device goes on; nothing of a device that is in no group."""
    if told is None or name not in told.of:
        return []
    number = told.of[name]
    others = sum(of == number for device, of in told.of.items() if device != name)
    with_whom = "alone" if not others else f"with {others} other{'' if others == 1 else 's'}"
    after = ": its next round begins with that group's model" if told.own_models else ""
    return [f"It is in group {number}, {with_whom}{after}."]


def name_some(names: Iterable[str]) -> str:
    """The first of these names, sorted, and how many more there are."""
    known = sorted(names)
    return ", ".join(known[:NAMED_DEVICES]) + (
        f" and {len(known) - NAMED_DEVICES} more" if len(known) > NAMED_DEVICES else ""
    )
