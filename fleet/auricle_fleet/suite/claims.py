"""What became of a paper's claims in a suite: shown, refuted or undecided, by the paired differences over its seeds."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable

import msgspec

from auricle_fleet.suite.figures import Figure
from auricle_fleet.suite.paired import interval, sign_flip
from auricle_fleet.suite.parts import Claim
from auricle_fleet.suite.plan import Suite
from auricle_fleet.suite.prints import PaperItem
from auricle_fleet.suite.record import Tuned
from auricle_fleet.suite.tables import Results
from auricle_fleet.suite.targets import is_to_target, kind_of

SHOWN, REFUTED, UNDECIDED, NOT_JUDGED = "shown", "refuted", "undecided", "not judged"
LEARNT_SHARE = 0.1
"""Of the way from chance to all right, less than which a method has learnt nothing."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A claim beside what the runs say of it."""

    claim: Claim
    values: tuple[float, ...]
    """By seed: better minus worse, or the figure itself where the claim names no `worse`. Of a figure of which less is
    better, worse minus better. Seeds count that have run in every condition that is claimed of."""
    nothing_learnt: tuple[str, ...] = ()
    """Methods of it whose tries in tuning were all alike, or that stand at chance: it is not judged then."""

    @property
    def mean(self) -> float | None:
        """Of the values; None without any."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def figure(self) -> Figure:
        """That the claim is of."""
        return kind_of(self.claim.figure)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean (Student's t over seeds); None of fewer than two."""
        return interval(self.values)

    @property
    def smallest(self) -> float | None:
        """The smallest difference that these seeds can show: half of the interval; None of fewer than two."""
        return None if self.interval is None else (self.interval[1] - self.interval[0]) / 2

    @property
    def beyond(self) -> tuple[float, ...]:
        """By seed, how far it lies on the claimed side of the claim's bound."""
        sense = 1 if self.claim.worse or self.figure.higher_is_better else -1
        return tuple(sense * (value - self.claim.bound) for value in self.values)

    @property
    def p(self) -> float | None:
        """Of the sign-flip test beside the claim's bound; None without any."""
        return sign_flip(self.beyond) if self.values else None

    @property
    def verdict(self) -> str:
        """`SHOWN` where the interval lies wholly on the claimed side, `REFUTED` where wholly on the other."""
        if self.nothing_learnt:
            return NOT_JUDGED
        found = interval(self.beyond)
        if found is None:
            return UNDECIDED
        return SHOWN if found[0] > 0 else REFUTED if found[1] < 0 else UNDECIDED


def verdict(claim: Claim, results: Results, unable: Collection[str] = ()) -> Verdict:
    """Judge a claim by the tables of a suite: the same seed, devices and clips in each pair.

    Parameters
    ----------
    unable
        Methods that could not be tuned: all their tries were alike.
    """
    better = _by_seed(claim, claim.better, results)
    unlearnt = tuple(
        method
        for method in filter(None, (claim.better, claim.worse))
        if method in unable or stands_at_chance(claim, method, results)
    )
    alone = Verdict(claim=claim, values=tuple(value for value in better if value is not None), nothing_learnt=unlearnt)
    if not claim.worse:
        return alone
    sense = 1 if alone.figure.higher_is_better else -1
    worse = _by_seed(claim, claim.worse, results)
    pairs = ((a, b) for a, b in zip(better, worse, strict=True) if a is not None and b is not None)
    return msgspec.structs.replace(alone, values=tuple(sense * (a - b) for a, b in pairs))


def verdicts(claims: Iterable[Claim], results: Results, unable: Collection[str] = ()) -> tuple[Verdict, ...]:
    """Judge all claims, in their order; parameters as of `verdict`."""
    return tuple(verdict(claim, results, unable) for claim in claims)


def stands_at_chance(claim: Claim, method: str, results: Results) -> bool:
    """Whether a method has learnt nothing in a condition that is claimed of.

    That is where its plug-in on unseen speakers came less than `LEARNT_SHARE` of the way from the share of the
    commonest label to all. Unknown, and not so, where the suite does not show `unseen`, of a claim of own models, and
    under attack, where falling is what may be claimed.
    """
    if results.chance is None or (not is_to_target(claim.figure) and kind_of(claim.figure).model == "own"):
        return False
    least = results.chance + LEARNT_SHARE * (1 - results.chance)
    means = [
        each.mean
        for each in results.entries
        if (each.figure, each.method) == ("unseen", method)
        and claim.condition in ("", each.condition)
        and each.condition not in results.attacked
    ]
    return any(mean is not None and mean < least for mean in means)


def methods_alike(tuned: Iterable[Tuned]) -> frozenset[str]:
    """Methods of which all tries in tuning reached the same accuracy, so that none could be chosen."""
    return frozenset(each.method for each in tuned if len({found for _, found in each.tried}) == 1 < len(each.tried))


def _by_seed(claim: Claim, method: str, results: Results) -> list[float | None]:
    """The figure of a method by seed: of the claim's condition, or the mean of all where a seed has run in each.

    Conditions in which no run has the figure, such as one without attackers, do not count.
    """
    table = [each for each in results.entries if each.figure == claim.figure]
    wanted = {claim.condition} if claim.condition else {each.condition for each in table if each.known}
    found = [each.values for each in table if each.method == method and each.condition in wanted]
    return [
        None if any(value is None for value in of_seed) else statistics.fmean(v for v in of_seed if v is not None)
        for of_seed in zip(*found, strict=True)
    ]


HEAD = ["claim", "the print", "verdict", "better by (95 % interval)", "could show", "p", "seeds"]
Context = tuple[PaperItem | None, Collection[str]]
"""What the print has of a suite, and methods that could not be tuned."""


def claim_rows(suite: Suite, results: Results, context: Context = (None, ())) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the suite's claims: how much better, with its interval; of shares, in points of a hundred."""
    item, unable = context
    return HEAD, [verdict_row(each, item) for each in verdicts(suite.claims, results, unable)]


def verdict_row(judged: Verdict, item: PaperItem | None = None) -> list[str]:
    """A verdict as a row of text under `HEAD`."""
    scale = 100 if judged.figure.unit == "share" else 1
    return [
        sentence(judged),
        "-" if item is None else printed_numbers(judged.claim, item),
        judged.verdict + "".join(f"; {method} has learnt nothing" for method in judged.nothing_learnt),
        amount(judged),
        "-" if judged.smallest is None else f"{scale * judged.smallest:.1f}",
        "-" if judged.p is None else f"{judged.p:.3f}",
        str(len(judged.values)),
    ]


def printed_numbers(claim: Claim, item: PaperItem) -> str:
    """The print's numbers of a claim: nothing else stands in its column."""
    conditions = [claim.condition] if claim.condition else list(item.conditions)
    rows = []
    for condition in conditions:
        methods = filter(None, (claim.better, claim.worse))
        found = [item.value(claim.figure, condition, method) for method in methods]
        if any(value is None for value in found):
            return "-"
        rows.append(" against ".join(f"{value:g}" for value in found))
    return "; ".join(rows)


def sentence(judged: Verdict) -> str:
    """A claim with the figure and condition that it is of, and its bound."""
    claim = judged.claim
    return f"{claim.text} ({claim.figure}, {claim.condition or 'mean of all'}{_beside(judged)})"


def amount(judged: Verdict) -> str:
    """Mean and interval of a verdict."""
    if judged.mean is None:
        return "-"
    scale = 100 if judged.figure.unit == "share" else 1
    sign = "+" if judged.claim.worse else ""
    points = "points" if judged.claim.worse else "%"
    unit = points if judged.figure.unit == "share" else judged.figure.unit
    found = judged.interval
    beside = "" if found is None else " (" + " to ".join(f"{scale * end:{sign}.1f}" for end in found) + ")"
    return f"{scale * judged.mean:{sign}.1f} {unit}{beside}"


def _beside(judged: Verdict) -> str:
    """The bound of a claim in words; empty where it has none."""
    claim, scale = judged.claim, 100 if judged.figure.unit == "share" else 1
    if not claim.worse:
        return f", {'above' if judged.figure.higher_is_better else 'below'} {scale * claim.bound:g}"
    if not claim.bound:
        return ""
    return f", by {scale * claim.bound:g}" if claim.bound > 0 else f", not worse by {-scale * claim.bound:g}"
