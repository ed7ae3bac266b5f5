"""A bound on what one device decides, around every rule: what it says of itself is held before, its shares after.

What devices say is self-reported (PROTOCOL section 5; FedVSA leaves it to trust), and a rule computes what its paper
says. So the numbers and vectors are bounded before a rule sees them (`auricle_learning.aggregation.claims`), and the
shares of a rule that is a mean after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from auricle_learning.aggregation.caps import FEWEST, SLACK, ceiling
from auricle_learning.aggregation.claims import ENOUGH, changes, hold
from auricle_learning.aggregation.cohort import Aggregate, Bounded, Cohort, Float64Array, FloatArray
from auricle_learning.aggregation.options import check_number, list_changes
from auricle_learning.aggregation.rules.average import average, fraction_of
from auricle_learning.aggregation.rules.declaration import check_declaration
from auricle_learning.aggregation.rules.rule import Rule

TWO = (
    "One of the two devices decides more than half of this round, which no bound prevents among two: have three "
    "devices or more in a round."
)
FEW = 0.2
"""Share of a small cohort that a rule prunes where its own fraction removes nobody; at least one device."""
LONGEST = 2.0
"""Among fewer than `ENOUGH` devices the longest update that counts whole, as a multiple of the middle one."""


@dataclass(frozen=True)
class _Fitted:
    """A rule as it suits a cohort's size."""

    rule: Rule
    warnings: tuple[str, ...] = ()
    shortens: bool = False
    """Whether updates are shortened before it."""


@dataclass(frozen=True)
class BoundedRule:
    """A rule in whose results no device counts for more than some times its fair share.

    Parameters
    ----------
    rule
        The rule itself; what it computes for given numbers is not changed.
    factor
        Largest multiple of the fair share 1 / m, m being the devices that count, at least 1. Whatever it is, from three
        devices on none has more than `HALF`; from `UNBOUNDED` on there is no bound.
    prune_few
        Whether a rule that prunes, in a cohort in which `prune_high` removes nobody, leaves out the farthest fifth of
        each layer; and in one of three or four, with a `prune_high` below a third, nobody, but shortens updates as
        `shorten` does.

    Raises
    ------
    SettingsError
        The factor is below 1, or what the rule says of itself is not valid.
    """

    rule: Rule
    factor: float = 3.0
    prune_few: bool = True

    def __post_init__(self) -> None:
        """Refuse a bound that not even equal devices could keep, and a rule that could not be bounded."""
        check_number("the bound on a share", self.factor, least=1.0)
        check_declaration(self.rule)

    @property
    def name(self) -> str:
        """The rule's."""
        return self.rule.name

    @property
    def options(self) -> dict[str, object]:
        """The rule's that differ from their defaults, by name."""
        return list_changes(self.rule.options)

    def __call__(self, cohort: Cohort) -> Aggregate:
        """Aggregate a round; `bounded` of the result says whose numbers counted for less than was said."""
        fitted = self._convert(len(cohort.ids))
        capped, found = self._capped(cohort, fitted)
        aggregate = _bounded(capped, self.factor, fitted.rule, said_less=bool(found))
        two = len(cohort.ids) == 2 and bool((aggregate.share > (1 + SLACK) / 2).any())
        said = (*fitted.warnings, *aggregate.warnings, *((TWO,) if two else ()))
        return replace(aggregate, bounded=(*found, *aggregate.bounded), warnings=said)

    def game(self, cohort: Cohort) -> tuple[Cohort, Callable[[Cohort], Aggregate]]:
        """A round as it was counted, and the rule that its coalitions are aggregated by: both fitted to all of it."""
        fitted = self._convert(len(cohort.ids))
        capped, found = self._capped(cohort, fitted)
        return capped, lambda part: _bounded(part, self.factor, fitted.rule, said_less=bool(found))

    def _convert(self, count: int) -> _Fitted:
        """The rule for a cohort of this size, and what is to be said of it."""
        pruning, few = self.rule.pruning, count < ENOUGH
        if pruning is None or not self.prune_few or count < FEWEST or not (high := pruning.farthest):
            return _Fitted(self.rule)
        if fraction_of(high, FEWEST if few else count):
            return _Fitted(self.rule)
        left = 0 if few else max(1, math.ceil(FEW * count - SLACK))
        fitted = replace(self.rule, options=pruning.leave_out(left / count))
        if few:
            sentence = (
                f"An update longer than {LONGEST:g} times the middle one was shortened to that, and none of the "
                f"{count} devices left out: among so few, the farthest mostly only sounds different. To leave it out, "
                f"set prune_high to 0.34 or more; to leave updates as they are, set prune_few = false under [limits]."
            )
            return _Fitted(fitted, (sentence,), shortens=True)
        who = "the farthest device" if left == 1 else f"the {left} farthest devices"
        sentence = (
            f"In each layer {who} of {count} did not count: prune_high {high:g} of {count} is less than one device, so "
            f"a fifth was left out instead. To count all of them, set prune_few = false under [limits]."
        )
        return _Fitted(fitted, (sentence,))

    def _capped(self, cohort: Cohort, fitted: _Fitted) -> tuple[Cohort, list[Bounded]]:
        """The cohort with what its devices sent and said of themselves brought into bounds, and who was."""
        if not cohort.ids:
            return cohort, []
        cohort, found = shorten(cohort, LONGEST) if fitted.shortens else (cohort, [])
        capped, more = hold(cohort, self.rule, self.factor)
        return capped, [*found, *more]


def shorten(cohort: Cohort, factor: float) -> tuple[Cohort, list[Bounded]]:
    """Shorten the updates longer than `factor` times the middle one to that, and tell whose were.

    With Δ_k = w_k - w^t and m the median of ||Δ_k||_2 (of an even number the lower of the middle two), w_k becomes
    w^t + min(1, `factor` m / ||Δ_k||_2) Δ_k.

    Parameters
    ----------
    cohort
        K updates, at least one: `weights` (K, P), `start` (P,).
    factor
        At least 1.
    """
    start = cohort.start.astype(np.float64)
    norms = cohort.matrix.layer_norms([(slice(0, start.size),)], centre=start)[:, 0]
    limit = factor * float(np.sort(norms)[(norms.size - 1) // 2])
    if (norms <= limit).all():
        return cohort, []
    weights = cohort.weights.copy()
    for k in np.flatnonzero(norms > limit):
        weights[k] = start + limit / norms[k] * (cohort.weights[k] - start)
    counted = np.minimum(norms, limit)
    return replace(cohort, weights=weights), changes(cohort, "length", norms, counted)


def _bounded(cohort: Cohort, factor: float, rule: Rule, *, said_less: bool) -> Aggregate:
    """What a rule makes of a round, its shares bounded.

    Where they follow distances, a bound on the nearest gives weight to the farthest: of three with 0.49 each at most,
    nobody has less than 0.02. So the updates are shortened first wherever the bound takes something away, or took
    something of what a device said of itself: nearly half of the weight and far away, it holds the steps up.
    """
    aggregate = rule(cohort)
    if not cohort.ids or not rule.by_distance or rule.weighed_by == "uniform":
        return _limited(aggregate, cohort, factor, rule)
    if not said_less and not any(math.isfinite(ceiling(column, factor)) for column in aggregate.share.T):
        return aggregate
    shortened, found = shorten(cohort, LONGEST)
    if shortened is not cohort:
        aggregate = rule(shortened)
    limited = _limited(aggregate, shortened, factor, rule)
    return replace(limited, bounded=(*found, *limited.bounded))


def _limited(aggregate: Aggregate, cohort: Cohort, factor: float, rule: Rule) -> Aggregate:
    """Bound the shares of a mean, layer by layer, the sums being kept, or of moves; aggregate again with them."""
    share, mean = aggregate.share.copy(), rule.mean or (rule.by_distance and rule.weighed_by != "uniform")
    for column in range(share.shape[1]):
        highest = ceiling(share[:, column], factor) if mean or rule.moves else math.inf
        if not math.isinf(highest):
            total, cut = share[:, column].sum(), np.minimum(share[:, column], highest)
            share[:, column] = cut * (total / cut.sum()) if mean else cut
    above = aggregate.share > share * (1 + SLACK)
    if not above.any():
        return aggregate
    # Of each device the layer in which it would have counted most.
    worst = np.where(above, aggregate.share, -1.0).argmax(axis=1)
    found = tuple(
        Bounded(client, "share", float(aggregate.share[k, worst[k]]), float(share[k, worst[k]]))
        for k, client in enumerate(cohort.ids)
        if above[k].any()
    )
    weights = average(cohort, share) if mean else _moved(cohort, share)
    return replace(aggregate, weights=weights, share=share, bounded=(*aggregate.bounded, *found))


def _moved(cohort: Cohort, share: Float64Array) -> FloatArray:
    """w^t + Σ_k s[k,l] (w[k,l] - w^t[l]) (P,) in each layer, in the dtype of w^t."""
    total = cohort.matrix.weighted_sum(share, cohort.spans)
    for layer, rest in zip(cohort.layers, (1.0 - share.sum(axis=0)).tolist(), strict=True):
        for span in layer.slices:
            total[span] += rest * cohort.start[span]
    return total.astype(cohort.start.dtype)
