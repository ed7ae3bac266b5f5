"""Who spoiled a round? Shapley values of its clients (FedVSA, step 2, eq. 13).

The players are the clients of the poisoned round, a coalition's value is the validation accuracy of the model that its
members alone would have made, and that of nobody is the accuracy of the model before the round. The mathematics knows
neither models nor accuracies: it asks a callable for the values of a batch of coalitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from auricle.errors import DataError
from auricle_learning.aggregation.cohort import BoolArray, Float64Array

Values = Callable[[BoolArray], Float64Array]
"""Coalitions (M, K) as rows of True for members -> their values (M,), finite."""
Progress = Callable[[int, int], None]
"""Called with the coalitions judged and the most there are to judge."""

MOST_EXACT = 10
"""K up to which all 2^K coalitions are judged."""
BATCH = 64
"""Coalitions asked for at once."""
ROUNDING_SHARE = 1e-12
"""Share of the largest value below which a Shapley value is zero: what is left of sums that cancel. A genuine one is
at least 1 / (K! clips), 3e-11 for 10 clients and 10,000 clips."""


@dataclass(frozen=True, eq=False)
class Shapley:
    """What every client of a round contributed to the accuracy."""

    ids: tuple[str, ...]
    """(K,) client ids."""
    phi: Float64Array
    """(K,) proper Shapley values; the C_k printed in eq. 13 is K φ_k (A42)."""
    error: Float64Array
    """(K,) standard errors; 0 where exact, NaN where one permutation cannot tell."""
    bad: tuple[str, ...]
    """Who made the model worse: φ < 0 strictly (A43), by Monte Carlo mean + one standard error < 0; both less the
    margin."""
    empty: float
    """v(∅), the accuracy of the model before the round."""
    everyone: float
    """v(all)."""
    permutations: int | None
    """Of the Monte Carlo; None where the values are exact."""
    evaluations: int
    """Coalitions that were judged."""

    @property
    def efficiency_gap(self) -> float:
        """Σ φ - (v(all) - v(∅)): 0 but for rounding where exact, at most the tolerance where truncated."""
        return math.fsum(self.phi) - (self.everyone - self.empty)

    def explain(self) -> dict[str, Any]:
        """Tell who was found bad and why, in plain lists, strings and floats that go straight into JSON."""
        return {
            "method": "exact" if self.permutations is None else "monte-carlo",
            "permutations": self.permutations,
            "evaluations": self.evaluations,
            "before": self.empty,
            "after": self.everyone,
            "efficiency_gap": self.efficiency_gap,
            "phi": dict(zip(self.ids, self.phi.tolist(), strict=True)),
            "error": {k: None if math.isnan(e) else e for k, e in zip(self.ids, self.error.tolist(), strict=True)},
            "bad": list(self.bad),
        }


def shapley(
    ids: Sequence[str],
    values: Values,
    rng: np.random.Generator,
    *,
    most_exact: int = MOST_EXACT,
    permutations: int = 50,
    tolerance: float = 0.01,
    margin: float = 0.0,
    progress: Progress = lambda *_: None,
) -> Shapley:
    """Compute the Shapley values: exactly for a small cohort, by truncated Monte Carlo for a larger one.

    φ_k = (1/K) Σ_{S ∌ k} [v(S ∪ k) - v(S)] / C(K-1, |S|).

    Parameters
    ----------
    ids
        (K,) client ids, the columns of a coalition.
    values
        The game: coalitions (M, K) in, values (M,) out. No coalition is asked for twice.
    rng
        Draws the permutations; not used where exact.
    most_exact
        Largest K that is done exactly, at most 20.
    permutations
        At least 2 for a standard error.
    tolerance
        Once |v(all) - v(prefix)| is below it, the marginals of a permutation's other clients are 0.
    margin
        Accuracy that a client must have cost to be bad. With 0, the paper's, honest clients are often among the bad
        beside an attacker: their values are near zero, and one that is -0.001 is as bad as one that is -0.6.
    progress
        Called after every batch of `BATCH` coalitions.

    Raises
    ------
    DataError
        A value is not finite, or there are too many clients for an exact answer or too few permutations.
    """
    if most_exact > 20 or permutations < 1:
        raise DataError("Shapley values are exact for at most 20 clients, and take at least one permutation.")
    exact = len(ids) <= most_exact
    most = 2 ** len(ids) if exact else permutations * (len(ids) - 1) + 2
    game = _Game(len(ids), values, most, progress)
    phi, error = _exact(game) if exact else _monte_carlo(game, rng, permutations, tolerance)
    limit = ROUNDING_SHARE * game.largest
    phi = np.where(np.abs(phi) <= limit, 0.0, phi)
    bad = phi + error < -max(limit, margin)
    return Shapley(
        ids=tuple(ids),
        phi=phi,
        error=error,
        bad=tuple(client for client, is_bad in zip(ids, bad, strict=True) if is_bad),
        empty=game.value(0),
        everyone=game.value(game.everyone),
        permutations=None if exact else permutations,
        evaluations=len(game.known),
    )


class _Game:
    """Values of coalitions, each asked for once; a coalition is a number whose bit k says whether k is a member."""

    def __init__(self, players: int, values: Values, most: int, progress: Progress) -> None:
        self.players, self.everyone = players, (1 << players) - 1
        self.known: dict[int, float] = {}
        self._values, self._most, self._progress = values, most, progress
        self.judge([0, self.everyone])

    def judge(self, coalitions: Sequence[int]) -> None:
        """Ask for those of the coalitions that are not known yet, in batches."""
        new = [coalition for coalition in dict.fromkeys(coalitions) if coalition not in self.known]
        for start in range(0, len(new), BATCH):
            batch = new[start : start + BATCH]
            members = np.array([[bool(c >> k & 1) for k in range(self.players)] for c in batch], np.bool_)
            found = np.asarray(self._values(members.reshape(len(batch), self.players)), np.float64)
            if found.shape != (len(batch),) or not np.isfinite(found).all():
                raise DataError("the value of a coalition is not one finite number; check the validation set.")
            self.known.update(zip(batch, found.tolist(), strict=True))
            self._progress(len(self.known), self._most)

    def value(self, coalition: int) -> float:
        return self.known[coalition]

    @property
    def largest(self) -> float:
        return max(abs(value) for value in self.known.values())


def _exact(game: _Game) -> tuple[Float64Array, Float64Array]:
    K = game.players
    game.judge(range(1 << K))
    weight = [1 / (K * math.comb(K - 1, size)) for size in range(K)]
    phi = [
        math.fsum(
            weight[without.bit_count()] * (game.value(without | 1 << k) - game.value(without))
            for without in range(1 << K)
            if not without >> k & 1
        )
        for k in range(K)
    ]
    return np.array(phi, np.float64), np.zeros(K)


def _monte_carlo(
    game: _Game, rng: np.random.Generator, permutations: int, tolerance: float
) -> tuple[Float64Array, Float64Array]:
    """All permutations step by step together, so that a step's coalitions are judged in one go."""
    orders = [rng.permutation(game.players) for _ in range(permutations)]
    marginals = np.zeros((permutations, game.players))
    prefixes = [0] * permutations
    for place in range(game.players):
        going = [
            i for i in range(permutations) if abs(game.value(game.everyone) - game.value(prefixes[i])) >= tolerance
        ]
        longer = {i: prefixes[i] | 1 << int(orders[i][place]) for i in going}
        game.judge(list(longer.values()))
        for i, prefix in longer.items():
            marginals[i, orders[i][place]] = game.value(prefix) - game.value(prefixes[i])
            prefixes[i] = prefix
    if permutations < 2:
        return marginals.mean(axis=0), np.full(game.players, np.nan)
    return marginals.mean(axis=0), marginals.std(axis=0, ddof=1) / math.sqrt(permutations)
