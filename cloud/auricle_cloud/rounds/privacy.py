"""Rounds with noise on devices: what their plan says, what they have given away, and when no further one may begin."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Protocol

from msgspec import Struct, convert, to_builtins

from auricle.wire.plan import Noise
from auricle_cloud.rounds.policy import quorum_of
from auricle_cloud.settings import Limits, Privacy
from auricle_cloud.states.report import Document
from auricle_cloud.states.selection import Selectable, draw
from auricle_learning.aggregation.accounting import Release, device_epsilon, fleet_epsilon
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.methods import MethodSettings

NOBODY_DRAWN = "the draw left every device out: nothing was given away"


def rule_of(method: MethodSettings, limits: Limits, *, hidden: bool) -> BoundedRule:
    """The rule of a run, bounded.

    Parameters
    ----------
    hidden
        Whether there is noise or a secure sum: each update then weighs the same, whatever a device says of its clips.
    """
    chosen = method.with_options({"weighting": "uniform"} if hidden else {})
    return BoundedRule(chosen.get_rule(), limits.share, limits.prune_few)


class EarlierRounds(Protocol):
    """Where the rounds before one are found: in a coordinator's database, or in the memory of a run without links."""

    def noisy(self, task: str, after: int) -> Mapping[int, Document]:
        """What the reports of rounds with noise say of it, of those that have begun after one, by number."""

    def most_invited(self, task: str, numbers: Collection[int]) -> int:
        """In how many of these rounds the device was that was in most of them."""


class NoisyRound(Struct, frozen=True, kw_only=True):
    """A round with noise, as its report keeps it."""

    clip: float
    deviation: float
    """Of the noise that each device adds to each value."""
    sampling: float
    """Probability with which a device was drawn."""
    counted: int = 0
    """Updates in the model that it made; 0: it made none."""

    @property
    def release(self) -> Release:
        """The model that it made."""
        return Release(self.sampling, self.deviation * math.sqrt(self.counted) / self.clip)

    @property
    def single(self) -> float:
        """Noise multiplier of a single update, any one against any other."""
        return self.deviation / (2 * self.clip)


class PrivacyLedger:
    """Counts what the rounds of a task give away.

    Parameters
    ----------
    privacy
        With a clipping norm.
    rounds
        Where earlier rounds are found.
    task
        Whose they are.
    quorum
        Share of a round's devices without whose updates it makes no model.
    sampling
        Probability with which a device is drawn for a round, 1 at most.
    generator
        Draws cohorts; without, the system's own randomness.
    """

    def __init__(
        self,
        privacy: Privacy,
        rounds: EarlierRounds,
        *,
        task: str,
        quorum: float,
        sampling: float,
        generator: random.Random | None = None,
    ) -> None:
        self._told, self._rounds, self._task, self._quorum = privacy, rounds, task, quorum
        self.sampling = min(1.0, sampling)
        self._generator = generator or random.SystemRandom()
        self.spent_out: str | None = None
        """Why no further round may begin."""
        self._known: dict[int, NoisyRound] = {}
        """Rounds that have ended."""

    def draw(self, fit: Sequence[Selectable]) -> list[str]:
        """A cohort; may be empty."""
        return draw(fit, self.sampling, self._generator)

    def begin(self, chosen: int) -> NoisyRound:
        """A round of so many devices: the noise of the fewest that may close it is enough for the multiplier."""
        assert self._told.clip is not None
        least = quorum_of(chosen, self._quorum)
        deviation = self._told.multiplier * self._told.clip / math.sqrt(least)
        return NoisyRound(clip=self._told.clip, deviation=deviation, sampling=self.sampling)

    def plan(self, begun: NoisyRound) -> Noise:
        """What devices are told."""
        return Noise(clip=begun.clip, deviation=begun.deviation)

    def refusal(self, number: int, begun: NoisyRound) -> str | None:
        """Why a round must not begin; None where the budget allows it."""
        if self._told.budget is None:
            return None
        least = self._told.multiplier**2 * begun.clip**2 / begun.deviation**2 if begun.deviation else 1
        after = self.spent(number, NoisyRound(**{**to_builtins(begun), "counted": round(least)}), more=1)
        epsilon = after["epsilon"] if self._told.view == "fleet" else after["device_epsilon"]
        if epsilon <= self._told.budget:
            return None
        self.spent_out = (
            f"the privacy budget is spent: after another round epsilon would be {epsilon:.4g} of {self._told.budget:g} "
            f"({self._told.view} view, delta {self._told.delta:g})"
        )
        return self.spent_out

    def spent(self, number: int, this: NoisyRound, *, more: int = 0) -> Document:
        """A round's part of its report: its own figures, and what all rounds up to it give away.

        Parameters
        ----------
        number, this
            The round that closes, or is about to begin.
        more
            1 where nobody is invited to it yet.
        """
        earlier = self._earlier(number)
        rounds = [*earlier.values(), this]
        worst = sorted(each.single for each in rounds)
        fleet = fleet_epsilon((each.release for each in rounds if each.counted), self._told.delta)
        most = self._rounds.most_invited(self._task, [*earlier, *([] if more else [number])]) + more
        return {
            **to_builtins(this),
            "multiplier": this.release.multiplier,
            "epsilon": _told(fleet.epsilon),
            "accounting": fleet.accounting,
            "device_epsilon": _told(device_epsilon(list(islice(worst, most)), self._told.delta)),
            "delta": self._told.delta,
            "rounds": len(rounds),
            "budget": self._told.budget,
            "view": self._told.view,
            "bare": number - len(rounds),
        }

    def _earlier(self, number: int) -> dict[int, NoisyRound]:
        """Rounds before this one that had noise; each is read once, for it changes no more."""
        for one, told in self._rounds.noisy(self._task, max(self._known, default=0)).items():
            if one < number:
                self._known[one] = convert(told, NoisyRound)
        return {one: known for one, known in self._known.items() if one < number}


def _told(epsilon: float) -> float:
    """JSON has no infinity."""
    return min(epsilon, 1e300)
