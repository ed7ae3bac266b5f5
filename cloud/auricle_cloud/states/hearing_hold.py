"""Whether a rollout may go on, by what its devices report of their hearing: a pure function of their reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from auricle_cloud.states.hearing_comparison import Comparison, Heard, compare, rate_of


@dataclass(frozen=True)
class Evidence:
    """What devices have reported around a rollout."""

    updated: Sequence[Heard] = ()
    """Those that were updated, since then."""
    before: Sequence[Heard] = ()
    """The same devices, before they came into the rollout."""
    others: Sequence[Heard] = ()
    """Devices that were not updated, since the rollout began."""


@dataclass(frozen=True)
class Hold:
    """Why a rollout does not go on."""

    kind: Literal["waits", "worse"]
    reason: str


def hold_of(evidence: Evidence, hours: float) -> Hold | None:
    """Whether a rollout is held, and why; None: it may go on.

    The updated devices are compared with themselves before their update where that is of enough time, for devices and
    rooms differ; else with the devices that were not updated. It waits while either side is of fewer than `hours`.
    """
    if rate_of(evidence.before).hours >= hours:
        compared, whom = compare(evidence.updated, evidence.before), "the same devices before it"
    else:
        compared, whom = compare(evidence.updated, evidence.others), "devices without it"
    if compared.lacks(hours):
        return Hold("waits", _waits(compared, whom, hours))
    return Hold("worse", worse(compared, "Updated devices", whom)) if compared.is_worse else None


def _waits(compared: Comparison, whom: str, hours: float) -> str:
    return (
        f"It waits for reports of hearing: {int(compared.after.hours)} h of updated devices and "
        f"{int(compared.before.hours)} h of {whom}, and {hours:g} h of each are needed."
    )


def worse(compared: Comparison, who: str, whom: str) -> str:
    """A comparison that shows a worse rate, in a sentence."""
    return (
        f"{who} hear worse: people complained {compared.after}, and of {whom} {compared.before}; by chance this "
        f"would be so with a probability of {compared.probability:.2g}."
    )
