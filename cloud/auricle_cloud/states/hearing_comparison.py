"""Whether devices are told more often than before that they heard wrongly: the exact comparison of two Poisson rates.

Reports are coarse, and what devices say of themselves has a bounded weight: no hour of a device counts for more than
`MOST_AN_HOUR` complaints, and of three devices or more one alone can never make a rate look worse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from auricle.process.times import how_many

MOST_AN_HOUR = 20
"""Complaints that an hour of a device counts for at most."""
MOST_DETECTIONS = 600
"""Detections that an hour of a device counts for at most, of all words and of each."""
CHANCE_PROBABILITY = 0.01
"""Probability below which a higher rate is no chance."""
SOME = 3
"""From so many devices on the one that complains most must not decide alone."""


@dataclass(frozen=True)
class Heard:
    """What one device has reported in all."""

    device: str
    complaints: int
    """Denied detections and missed words."""
    hours: float


@dataclass(frozen=True)
class Rate:
    """What several devices have reported in all."""

    complaints: int
    hours: float
    devices: int

    @property
    def an_hour(self) -> float:
        """Complaints an hour; 0 of no time."""
        return self.complaints / self.hours if self.hours else 0.0

    def __str__(self) -> str:
        """As it stands in a sentence."""
        devices = how_many(self.devices, "device")
        return f"{self.an_hour:.2g} an hour ({self.complaints} in {self.hours:.3g} h of {devices})"


@dataclass(frozen=True)
class Comparison:
    """Two rates, and how probable so high a first one would be if both were the same."""

    after: Rate
    before: Rate
    probability: float
    is_worse: bool

    def lacks(self, hours: float) -> bool:
        """Whether one of them is of less time than this."""
        return min(self.after.hours, self.before.hours) < hours


def rate_of(heard: Sequence[Heard]) -> Rate:
    """The rate of several devices together."""
    with_sound = [each for each in heard if each.hours > 0]
    return Rate(sum(each.complaints for each in with_sound), sum(h.hours for h in with_sound), len(with_sound))


def compare(after: Sequence[Heard], before: Sequence[Heard]) -> Comparison:
    """Compare the complaints of some devices, or of some time, with those of others.

    With a and b complaints in S and T hours, and equal rates, a is binomial of a + b trials with the probability
    S / (S + T); the rate is worse where P(X >= a) is below `CHANCE_PROBABILITY` (Przyborowski and Wilenski,
    Biometrika 31, 1940).
    Of three devices or more that has to hold without the one that complains most often as well.
    """
    new, old = rate_of(after), rate_of(before)
    probability = tail(new.complaints, new.complaints + old.complaints, _share(new, old))
    is_worse = probability < CHANCE_PROBABILITY
    if is_worse and new.devices >= SOME:
        loudest = max((each for each in after if each.hours > 0), key=lambda each: each.complaints)
        rest = rate_of([each for each in after if each is not loudest])
        is_worse = tail(rest.complaints, rest.complaints + old.complaints, _share(rest, old)) < CHANCE_PROBABILITY
    return Comparison(new, old, probability, is_worse)


def _share(new: Rate, old: Rate) -> float:
    """The new rate's part of the time; 1 where there is no other, so that nothing is worse."""
    return new.hours / (new.hours + old.hours) if old.hours > 0 else 1.0


def tail(least: int, trials: int, share: float) -> float:
    """P(X >= least) of a binomial X of so many trials, each with this probability from 0 to 1."""
    if least <= 0 or share >= 1:
        return 1.0
    if share <= 0:
        return 0.0
    logs = [
        math.lgamma(trials + 1)
        - math.lgamma(k + 1)
        - math.lgamma(trials - k + 1)
        + k * math.log(share)
        + (trials - k) * math.log1p(-share)
        for k in range(least, trials + 1)
    ]
    return min(1.0, math.fsum(map(math.exp, logs)))


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
