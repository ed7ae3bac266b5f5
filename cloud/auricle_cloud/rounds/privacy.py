"""Rounds with noise on devices: what their plan says, what they have given away, and when no further one may begin."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import islice

from msgspec import Struct, convert, to_builtins

from auricle.wire.plan import Noise
from auricle_cloud.rounds.policy import quorum_of
from auricle_cloud.settings import RunSettings
from auricle_cloud.states.report import Document
from auricle_cloud.states.selection import Candidate, draw
from auricle_cloud.storage.round_records import Rounds
from auricle_learning.aggregation.accounting import Release, device_epsilon, fleet_epsilon


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
    settings
        The coordinator's, with a clipping norm.
    rounds
        Where earlier rounds are found.
    generator
        Draws cohorts; without, the system's own randomness.
    """

    def __init__(self, settings: RunSettings, rounds: Rounds, generator: random.Random | None = None) -> None:
        self._settings, self._told, self._rounds = settings, settings.privacy, rounds
        self._generator = generator or random.SystemRandom()
        self.spent_out: str | None = None
        """Why no further round may begin."""
        self._known: dict[int, NoisyRound] = {}
        """Rounds that have ended."""

    @property
    def sampling(self) -> float:
        """Probability with which a device is drawn for a round."""
        return min(1.0, self._settings.participation * self._settings.over_selection)

    def draw(self, fit: Sequence[Candidate]) -> list[str]:
        """A cohort; may be empty."""
        return draw(fit, self.sampling, self._generator)

    def begin(self, chosen: int) -> NoisyRound:
        """A round of so many devices: the noise of the fewest that may close it is enough for the multiplier."""
        assert self._told.clip is not None
        least = quorum_of(chosen, self._settings.quorum)
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
        most = self._rounds.most_invited(self._settings.task, [*earlier, *([] if more else [number])]) + more
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
        for one, told in self._rounds.noisy(self._settings.task, max(self._known, default=0)).items():
            if one < number:
                self._known[one] = convert(told, NoisyRound)
        return {one: known for one, known in self._known.items() if one < number}


def _told(epsilon: float) -> float:
    """JSON has no infinity."""
    return min(epsilon, 1e300)
