"""What a suite shows: each figure by method and condition over the seeds, and each method beside the reference."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from auricle_fleet.results.result import RoundRow, Summary
from auricle_fleet.suite.folder import Ended
from auricle_fleet.suite.plan import Suite

EVERY = "mean of all"
MOST_SIGNS = 16
"""Pairs up to which every choice of signs is counted: 65,536 of them."""


class Figure(msgspec.Struct, frozen=True):
    """What is measured of a run."""

    name: str
    title: str
    of: Callable[[Summary], float | None]
    by_round: Callable[[RoundRow], float | None]


FIGURES = (
    Figure(
        "unseen",
        "Shared plug-in on speakers that no device has",
        lambda summary: summary.plugin_accuracy_unseen,
        lambda row: row.plugin_accuracy_unseen,
    ),
    Figure(
        "personal",
        "Devices' own models on their own held-out clips",
        lambda summary: summary.personal_accuracy,
        lambda row: row.personal_accuracy,
    ),
)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of a method in a condition. Accuracies are from 0 to 1, None where no run tells them."""

    figure: str
    method: str
    condition: str
    values: tuple[float | None, ...]
    """By seed, in the suite's order; None where that run has not ended, or does not know it."""

    @property
    def known(self) -> tuple[float, ...]:
        """Those that are known."""
        return tuple(value for value in self.values if value is not None)

    @property
    def mean(self) -> float | None:
        """Over the seeds."""
        return statistics.fmean(self.known) if self.known else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the seeds, n - 1; None of fewer than two."""
        return statistics.stdev(self.known) if len(self.known) > 1 else None


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """A method beside the reference: the same condition, the same seed, the same devices and clips."""

    figure: str
    method: str
    condition: str
    """`EVERY` for the mean of all conditions, of the seeds that have run in each."""
    differences: tuple[float, ...]
    """Method minus reference, one a seed."""
    p: float
    """Of the sign-flip test: the share of all choices of signs whose mean is at least as far from 0, two-sided."""

    @property
    def mean(self) -> float:
        """Of the differences."""
        return statistics.fmean(self.differences)

    @property
    def better(self) -> int:
        """Seeds with which the method is better."""
        return sum(difference > 0 for difference in self.differences)


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """How soon a method reaches the suite's target in a condition."""

    method: str
    condition: str
    rounds: tuple[int, ...]
    """The first round at or above it, of each run that got there."""
    runs: int
    """That have ended."""
    firsts: tuple[int | None, ...] = ()
    """By seed, in the suite's order: that round, of a run that did not get there the one after its last; None where it
    has not ended."""


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """All tables of a suite."""

    entries: tuple[Entry, ...]
    beside: tuple[Beside, ...]
    reached: tuple[Reached, ...]

    def entry(self, figure: str, method: str, condition: str) -> Entry:
        """The entry of this place."""
        return next(e for e in self.entries if (e.figure, e.method, e.condition) == (figure, method, condition))


def results(suite: Suite, ended: Sequence[Ended]) -> Results:
    """Put the runs that have ended into tables."""
    runs = {(each.cell.method, each.cell.condition, each.cell.seed): each for each in ended}
    places = [(method.name, condition.name) for method in suite.methods for condition in suite.conditions]
    entries = tuple(
        Entry(
            figure=figure.name,
            method=method,
            condition=condition,
            values=tuple(
                None if (run := runs.get((method, condition, seed))) is None else figure.of(run.summary)
                for seed in suite.seeds
            ),
        )
        for figure in FIGURES
        for method, condition in places
    )
    reached: tuple[Reached, ...] = ()
    if suite.target is not None:
        reached = tuple(
            _reached(suite.target, method, condition, [runs.get((method, condition, seed)) for seed in suite.seeds])
            for method, condition in places
        )
    return Results(entries=entries, beside=tuple(_beside(suite, entries)), reached=reached)


def _beside(suite: Suite, entries: Sequence[Entry]) -> list[Beside]:
    values = {(e.figure, e.method, e.condition): e.values for e in entries}
    found = []
    for figure, method in itertools.product(FIGURES, suite.methods):
        if method.name == suite.compared_with:
            continue
        by_seed: list[list[float]] = [[] for _ in suite.seeds]
        for condition in suite.conditions:
            own = values[figure.name, method.name, condition.name]
            other = values[figure.name, suite.compared_with, condition.name]
            pairs = [None if a is None or b is None else a - b for a, b in zip(own, other, strict=True)]
            for differences, pair in zip(by_seed, pairs, strict=True):
                differences += [] if pair is None else [pair]
            known = [pair for pair in pairs if pair is not None]
            if known:
                found.append(_pair(figure.name, method.name, condition.name, known))
        whole = [statistics.fmean(pairs) for pairs in by_seed if len(pairs) == len(suite.conditions)]
        if len(suite.conditions) > 1 and whole:
            found.append(_pair(figure.name, method.name, EVERY, whole))
    return found


def _pair(figure: str, method: str, condition: str, differences: Sequence[float]) -> Beside:
    return Beside(
        figure=figure, method=method, condition=condition, differences=tuple(differences), p=sign_flip(differences)
    )


def sign_flip(differences: Sequence[float]) -> float:
    """The p-value of the sign-flip test of paired differences (Fisher 1935, The Design of Experiments, section 21).

    Were both methods the same, each difference could as well have the other sign: p is the share of all 2^n choices of
    signs whose sum is at least as far from 0 as the one that was found, above `MOST_SIGNS` pairs of 65,536 drawn ones.
    So the least that n pairs can show is 2 / 2^n: 0.25 with three seeds, 0.063 with five.
    """
    count = len(differences)
    if count <= MOST_SIGNS:
        signs = np.array(list(itertools.product((1, -1), repeat=count)), float)
    else:
        signs = np.random.default_rng(0).choice((1.0, -1.0), (1 << MOST_SIGNS, count))
    sums = np.abs(signs @ np.asarray(differences, float))
    return float(np.mean(sums >= abs(sum(differences)) - 1e-12))


def _reached(target: float, method: str, condition: str, ended: Sequence[Ended | None]) -> Reached:
    by_seed = [None if each is None else _first(target, each.rounds) for each in ended]
    known = [first for first in by_seed if first is not None]
    return Reached(
        method=method,
        condition=condition,
        rounds=tuple(first for first, has in known if has),
        runs=len(known),
        firsts=tuple(None if first is None else first[0] for first in by_seed),
    )


def _first(target: float, rounds: Sequence[RoundRow]) -> tuple[int, bool]:
    """The first round at or above the target and True, or without one the round after the last and False."""
    for row in rounds:
        if (row.plugin_accuracy_unseen or 0.0) >= target:
            return row.round, True
    return (rounds[-1].round if rounds else 0) + 1, False
