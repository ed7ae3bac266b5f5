"""What a suite shows: each figure by method and condition over the seeds, and each method beside the reference."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from auricle_fleet.suite.figures import FIGURES, Figure, get_figure
from auricle_fleet.suite.folder import Ended
from auricle_fleet.suite.paired import interval, sign_flip
from auricle_fleet.suite.plan import Suite
from auricle_fleet.suite.targets import ROUNDS, TargetFigure

__all__ = ["EVERY", "FIGURES", "Beside", "Entry", "Figure", "Reached", "Results", "figures_of", "results"]

EVERY = "mean of all"


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
    mean: float
    """Of the differences."""
    interval: tuple[float, float] | None
    """That holds the mean with 95 % (`paired.interval`); None of fewer than two."""
    better: int
    """Seeds with which the method is better: higher or lower, as the figure has it."""
    p: float
    """Of the sign-flip test: the share of all choices of signs whose mean is at least as far from 0, two-sided."""


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """How soon a method reaches the suite's target in a condition."""

    method: str
    condition: str
    rounds: tuple[int, ...]
    """The first round at or above it, of each run that got there."""
    runs: int
    """That have ended."""
    figure: str = ROUNDS
    """Of the suite's targets."""


class Precision(msgspec.Struct, frozen=True, kw_only=True):
    """The precision of keywords of a method in a condition, by recall."""

    method: str
    condition: str
    runs: int
    """That have one."""
    precision: tuple[float | None, ...]
    """At recalls of 0.05 to 1 in steps of 0.05, the mean of the seeds; None where one of them never reaches it."""


class Confusion(msgspec.Struct, frozen=True, kw_only=True):
    """What a method's plug-in takes words for, clips of unseen speakers of all seeds together."""

    method: str
    condition: str
    words: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    """(L, L) by the word that was said, then by what it was taken for."""


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """All tables of a suite."""

    entries: tuple[Entry, ...]
    beside: tuple[Beside, ...]
    reached: tuple[Reached, ...]
    precision: tuple[Precision, ...] = ()
    confusions: tuple[Confusion, ...] = ()
    """In each condition of the reference, and of the other method whose first figure is best."""
    chance: float | None = None
    """Share of the unseen speakers' clips that have the commonest label; None where no run tells their labels."""
    attacked: tuple[str, ...] = ()
    """Conditions with attackers: who falls to chance there may have learnt much."""

    def entry(self, figure: str, method: str, condition: str) -> Entry:
        """The entry of this place."""
        return next(e for e in self.entries if (e.figure, e.method, e.condition) == (figure, method, condition))


def figures_of(suite: Suite) -> tuple[Figure, ...]:
    """What a suite shows: the figures that it names, and the rounds and seconds until its target."""
    return (*map(get_figure, suite.figures), *suite.target_figures)


def results(suite: Suite, ended: Sequence[Ended]) -> Results:
    """Put the runs that have ended into tables."""
    runs = {(each.cell.method, each.cell.condition, each.cell.seed): each for each in ended}
    places = [(method.name, condition.name) for method in suite.methods for condition in suite.conditions]
    of = {place: [run for (m, c, _), run in runs.items() if (m, c) == place] for place in places}
    entries = tuple(
        Entry(
            figure=figure.name,
            method=method,
            condition=condition,
            values=tuple(
                None if (run := runs.get((method, condition, seed))) is None else figure.of(run.summary, run.rounds)
                for seed in suite.seeds
            ),
        )
        for figure in figures_of(suite)
        for method, condition in places
    )
    return Results(
        entries=entries,
        beside=tuple(_beside(suite, entries)),
        reached=tuple(_first_reach(target, place, of[place]) for target in suite.target_figures for place in places),
        precision=tuple(each for place in places if (each := _precision(place, of[place])) is not None),
        confusions=tuple(_confusions(suite, entries, of)),
        chance=_chance(ended),
        attacked=tuple(
            condition.name
            for condition in suite.conditions
            if any(run.summary.attackers for run in ended if run.cell.condition == condition.name)
        ),
    )


def _beside(suite: Suite, entries: Sequence[Entry]) -> list[Beside]:
    values = {(e.figure, e.method, e.condition): e.values for e in entries}
    found = []
    for figure, method in itertools.product(figures_of(suite), suite.methods):
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
                found.append(_pair(figure, method.name, condition.name, known))
        whole = [statistics.fmean(pairs) for pairs in by_seed if len(pairs) == len(suite.conditions)]
        if len(suite.conditions) > 1 and whole:
            found.append(_pair(figure, method.name, EVERY, whole))
    return found


def _pair(figure: Figure, method: str, condition: str, differences: Sequence[float]) -> Beside:
    return Beside(
        figure=figure.name,
        method=method,
        condition=condition,
        differences=tuple(differences),
        mean=statistics.fmean(differences),
        interval=interval(differences),
        better=sum(d > 0 if figure.higher_is_better else d < 0 for d in differences),
        p=sign_flip(differences),
    )


def _first_reach(target: TargetFigure, place: tuple[str, str], ended: Sequence[Ended]) -> Reached:
    firsts = [first for each in ended if (first := target.first_at(each.rounds)) is not None]
    method, condition = place
    return Reached(method=method, condition=condition, rounds=tuple(firsts), runs=len(ended), figure=target.name)


def _precision(place: tuple[str, str], ended: Sequence[Ended]) -> Precision | None:
    known = [each.summary.keyword_precision for each in ended if each.summary.keyword_precision is not None]
    if not known:
        return None
    at_recalls = [[value for value in values if value is not None] for values in zip(*known, strict=True)]
    means = tuple(statistics.fmean(values) if len(values) == len(known) else None for values in at_recalls)
    return Precision(method=place[0], condition=place[1], runs=len(known), precision=means)


def _chance(ended: Sequence[Ended]) -> float | None:
    """Of the runs, the highest share of one label."""
    rows = [[sum(row) for row in each.summary.confusion] for each in ended if each.summary.confusion is not None]
    return max((max(clips) / sum(clips) for clips in rows if sum(clips)), default=None)


def _confusions(
    suite: Suite, entries: Sequence[Entry], of: Mapping[tuple[str, str], Sequence[Ended]]
) -> Iterable[Confusion]:
    """Those of the reference and of the best of the others."""
    first = get_figure(suite.figures[0])
    sign = 1 if first.higher_is_better else -1
    for condition in suite.conditions:
        others = {
            e.method: sign * e.mean
            for e in entries
            if (e.figure, e.condition) == (first.name, condition.name)
            and e.mean is not None
            and e.method != suite.compared_with
        }
        best = [max(others, key=others.__getitem__)] if others else []
        for method in (suite.compared_with, *best):
            summaries = [run.summary for run in of[method, condition.name]]
            tables = [np.array(each.confusion) for each in summaries if each.confusion is not None]
            if tables:
                counts = sum(tables[1:], start=tables[0])
                told = tuple(map(tuple, counts.tolist()))
                yield Confusion(method=method, condition=condition.name, words=summaries[0].words, counts=told)
