"""What became of a paper's claims in a suite: shown, refuted or undecided, by the paired differences over its seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

import msgspec

from auricle_fleet.suite.paired import sign_flip
from auricle_fleet.suite.plan import ROUNDS, Claim, Suite
from auricle_fleet.suite.tables import Results

FEWER_IS_BETTER = frozenset({ROUNDS, "backdoor", "false-names", "recovery"})
"""Figures of which less is better: a claim's difference is turned round, so that above 0 is always what it says."""
COUNTED = frozenset({ROUNDS, "false-names", "recovery", "angle"})
"""Figures that are not shares, and so not shown in points of a hundred."""
QUANTILES = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % points of Student's t with 1, 2, ... degrees of freedom."""
NORMAL = 1.959964
SHOWN, REFUTED, UNDECIDED = "shown", "refuted", "undecided"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A claim beside what the runs say of it."""

    claim: Claim
    values: tuple[float, ...]
    """By seed: better minus worse, or the figure itself where the claim names no `worse`. Of a figure of which less is
    better, worse minus better. Seeds count that have run in every condition that is claimed of."""

    @property
    def mean(self) -> float | None:
        """Of the values; None without any."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean (Student's t over seeds); None of fewer than two."""
        return mean_interval(self.values)

    @property
    def beyond(self) -> tuple[float, ...]:
        """By seed, how far it lies on the claimed side of the claim's bound."""
        sense = -1 if not self.claim.worse and self.claim.figure in FEWER_IS_BETTER else 1
        return tuple(sense * (value - self.claim.bound) for value in self.values)

    @property
    def p(self) -> float | None:
        """Of the sign-flip test beside the claim's bound; None without any."""
        return sign_flip(self.beyond) if self.values else None

    @property
    def verdict(self) -> str:
        """`SHOWN` where the interval lies wholly on the claimed side, `REFUTED` where wholly on the other."""
        found = mean_interval(self.beyond)
        if found is None:
            return UNDECIDED
        return SHOWN if found[0] > 0 else REFUTED if found[1] < 0 else UNDECIDED


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of a mean, mean -+ t s / sqrt(n) with n - 1 degrees of freedom; None of fewer than two values.

    Above 30 degrees of freedom t is the first two terms of its expansion in the normal quantile z, z + (z^3 + z) / 4f.
    """
    if len(values) < 2:
        return None
    freedom = len(values) - 1
    t = QUANTILES[freedom - 1] if freedom <= len(QUANTILES) else NORMAL + (NORMAL**3 + NORMAL) / (4 * freedom)
    half = t * statistics.stdev(values) / len(values) ** 0.5
    mean = statistics.fmean(values)
    return mean - half, mean + half


def verdict(claim: Claim, results: Results) -> Verdict:
    """Judge a claim by the tables of a suite: the same seed, devices and clips in each pair."""
    better = _by_seed(claim, claim.better, results)
    if not claim.worse:
        return Verdict(claim=claim, values=tuple(value for value in better if value is not None))
    sense = -1 if claim.figure in FEWER_IS_BETTER else 1
    worse = _by_seed(claim, claim.worse, results)
    pairs = ((a, b) for a, b in zip(better, worse, strict=True) if a is not None and b is not None)
    return Verdict(claim=claim, values=tuple(sense * (a - b) for a, b in pairs))


def verdicts(claims: Iterable[Claim], results: Results) -> tuple[Verdict, ...]:
    """Judge all claims, in their order."""
    return tuple(verdict(claim, results) for claim in claims)


def _by_seed(claim: Claim, method: str, results: Results) -> list[float | None]:
    """The figure of a method by seed: of the claim's condition, or the mean of all where a seed has run in each.

    Conditions in which no run has the figure, such as one without attackers, do not count.
    """
    table: list[tuple[str, str, Sequence[float | None]]]
    if claim.figure == ROUNDS:
        table = [(each.method, each.condition, each.firsts) for each in results.reached]
    else:
        table = [(each.method, each.condition, each.values) for each in results.entries if each.figure == claim.figure]
    known = {condition for _, condition, values in table if any(value is not None for value in values)}
    wanted = {claim.condition} if claim.condition else known
    found = [values for m, condition, values in table if m == method and condition in wanted]
    return [
        None if any(value is None for value in of_seed) else statistics.fmean(v for v in of_seed if v is not None)
        for of_seed in zip(*found, strict=True)
    ]


HEAD = ["claim", "verdict", "better by (95 %)", "p", "seeds"]


def claim_rows(suite: Suite, results: Results) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the suite's claims: how much better, with its interval; of shares, in points of a hundred."""
    return HEAD, [told(each) for each in verdicts(suite.claims, results)]


def told(judged: Verdict) -> list[str]:
    """A verdict as a row of text under `HEAD`."""
    claim = judged.claim
    p = "-" if judged.p is None else f"{judged.p:.3f}"
    where = claim.condition or "mean of all"
    return [
        f"{claim.text} ({claim.figure}, {where}{_beside(claim)})",
        judged.verdict,
        amount(judged),
        p,
        str(len(judged.values)),
    ]


def amount(judged: Verdict) -> str:
    """Mean and interval of a verdict."""
    if judged.mean is None:
        return "-"
    scale = 1 if judged.claim.figure in COUNTED else 100
    sign = "+" if judged.claim.worse else ""
    text = f"{scale * judged.mean:{sign}.1f}"
    found = judged.interval
    return text if found is None else f"{text} ({scale * found[0]:{sign}.1f} to {scale * found[1]:{sign}.1f})"


def _beside(claim: Claim) -> str:
    """The bound of a claim in words; empty where it has none."""
    scale = 1 if claim.figure in COUNTED else 100
    if not claim.worse:
        side = "below" if claim.figure in FEWER_IS_BETTER else "above"
        return f", {side} {scale * claim.bound:g}"
    if not claim.bound:
        return ""
    return f", by {scale * claim.bound:g}" if claim.bound > 0 else f", not worse by {-scale * claim.bound:g}"
