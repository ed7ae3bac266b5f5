"""What comes of each listener of a wake word: hits at fixed false accepts an hour, costs, and the text of it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from auricle.hearing.curve import Counts, Mask, Point, curve_of, points
from auricle.hearing.rule import Posteriors, Rule, Thresholds
from auricle.hearing.scenes import Scene
from auricle.speech.audio import SAMPLE_RATE
from bench.comparison_table import table
from bench.hearing_table import Setting, rate_text, said_as, setting_at

RATES = (0.5, 1.0, 5.0, 10.0)
"""False accepts an hour at which hits are stated."""
REFRACTORY = 1.0
"""Seconds after a detection without another, the same for all."""
LEVELS: Thresholds = 1 / (1 + np.exp(-np.linspace(-7, 12, 229)))
"""Thresholds that are tried: lower ones than `auricle.hearing` has, since the scores of peers are no posteriors."""
EVERYWHERE = "all"
"""A form in all its surroundings."""
_WIDTH = 80


@dataclass(frozen=True)
class Cost:
    """What listening with one model takes."""

    cpu_seconds: float
    """Of an hour of sound: the median second, 3,600 times."""
    low: float
    """The same of the second at the tenth percentile."""
    high: float
    """The same of that at the ninetieth."""
    peak_bytes: int
    """The most that was ever resident, Python included."""


@dataclass(frozen=True)
class Heard:
    """What came of one listener."""

    name: str
    word: str
    differs: str
    """In one sentence: phrase, window, training."""
    files_bytes: int
    """Of the model's files, with those that several models share."""
    hits: dict[str, dict[str, tuple[Point, ...]]]
    """At `RATES`, by form of the phrase and by surroundings."""
    default: Setting
    """At its own threshold."""


@dataclass(frozen=True)
class Result:
    """Everything that was measured."""

    heard: tuple[Heard, ...]
    costs: dict[str, Cost]
    hours: dict[str, float]
    """Without the phrase, by kind of sound."""
    recordings: int
    """Different ones in these hours."""
    takes: dict[str, int]
    """Different ones of each form of the phrase."""
    packages: tuple[str, ...]
    missing: dict[str, str]
    """Listeners that did not run here, and why."""
    not_measured: dict[str, str]
    load: tuple[float, ...]
    """Of the machine, when CPU time was measured."""
    seed: int


def heard_of(
    name: str, word: str, differs: str, facts: Mapping[str, Any], scores: Sequence[Posteriors], scenes: Sequence[Scene]
) -> Heard:
    """Judge a listener's scores of its word.

    Parameters
    ----------
    facts
        What its process said: labels, threshold, hop, smoothing, patience, and the bytes of its files.
    scores
        (hops, labels) of each scene.

    Raises
    ------
    DataError
        There is no scene with the phrase, or none without it.
    """
    column = facts["labels"].index(word)
    only = [rows[:, [column]] for rows in scores]
    rule = Rule(facts["hop"], facts["smoothing"], facts["patience"], REFRACTORY)
    said = [said_as(scene, (word,)) for scene in scenes]
    usual: float = facts["thresholds"][word]
    first = np.nextafter(usual, 2.0) if "files" in facts else usual  # peers want more than their threshold
    counts = curve_of(only, said, (word,), rule, np.concatenate(([first], LEVELS)))
    default, swept = setting_at(counts, word, 0, usual), _without_first(counts)
    forms = dict.fromkeys(spoken.kind.partition(": ")[0] for spoken in counts.words)
    return Heard(name, word, differs, facts["bytes"], {form: _points(swept, form) for form in forms}, default)


def _without_first(counts: Counts) -> Counts:
    accepts = {kind: rows[1:] for kind, rows in counts.false_accepts.items()}
    wrong = {kind: rows[1:] for kind, rows in counts.wrong.items()}
    levels, hit, delay = counts.thresholds[1:], counts.hit[1:], counts.delay[1:]
    return replace(counts, thresholds=levels, hit=hit, delay=delay, false_accepts=accepts, wrong=wrong)


def _points(counts: Counts, form: str) -> dict[str, tuple[Point, ...]]:
    kinds = dict.fromkeys(spoken.kind for spoken in counts.words if spoken.kind.startswith(f"{form}: "))
    masks: dict[str, Mask] = {kind.partition(": ")[2]: counts.chosen(kind=kind) for kind in kinds}
    masks[EVERYWHERE] = np.logical_or.reduce(list(masks.values()))
    return {kind: tuple(points(counts, mask, RATES)) for kind, mask in masks.items()}


def hours_of(scenes: Sequence[Scene]) -> dict[str, float]:
    """Hours without the phrase, by kind of sound."""
    hours: dict[str, float] = {}
    for part in (part for scene in scenes for part in scene.stretches):
        hours[part.kind] = hours.get(part.kind, 0.0) + (part.end - part.start) / SAMPLE_RATE / 3600
    return hours


def text_of(result: Result) -> str:
    """The tables in 80 columns, and what is needed to read them."""
    hours = sum(result.hours.values())
    forms = list(dict.fromkeys(form for heard in result.heard for form in heard.hits))
    kinds = ", ".join(f"{kind} {part:.2f} h" for kind, part in result.hours.items())
    blocks = [
        *(_at_rates(form, result) for form in forms),
        *(_by_surroundings(form, result.heard) for form in forms),
        _defaults(result.heard),
        _costs(result),
        _wrapped(
            f"Without the phrase: {kinds}, from {result.recordings:,} recordings; {hours:.2f} h show rates from "
            f"{3 / hours:.1f} an hour, below (~) it is a guess. 95 % intervals; each take is heard several times."
        ),
        *(_wrapped(f"{heard.name}: {heard.differs}.") for heard in result.heard),
        *(_wrapped(f"{name} did not run: {reason}") for name, reason in result.missing.items()),
        "\n".join(_wrapped(f"not measured: {name}: {why}.") for name, why in result.not_measured.items()),
        _wrapped("; ".join((*result.packages, f"seed {result.seed}"))),
    ]
    return "\n\n".join(blocks)


def _at_rates(form: str, result: Result) -> str:
    said = next(iter(result.heard)).hits[form][EVERYWHERE][0].words
    title = f"hits % at false accepts an hour: {form} ({said} times, {result.takes[form]} takes)"
    rows = [[heard.name, *(_cell(point) for point in heard.hits[form][EVERYWHERE])] for heard in result.heard]
    return f"{title}\n{table(['', *(f'{rate:g}/h' for rate in RATES)], rows)}"


def _by_surroundings(form: str, every: Sequence[Heard]) -> str:
    kinds = [kind for kind in every[0].hits[form] if kind != EVERYWHERE]
    rows = [[heard.name, *(_cell(heard.hits[form][kind][RATES.index(1.0)]) for kind in kinds)] for heard in every]
    return f"hits % at 1 an hour by what is around it: {form}\n{table(['', *kinds], rows)}"


def _cell(point: Point) -> str:
    low, high, share = (round(100 * value) for value in (point.interval.low, point.interval.high, point.share))
    return f"{'' if point.shown else '~'}{share} ({low}-{high})"


def _defaults(every: Sequence[Heard]) -> str:
    kinds = list(every[0].default.false_accepts)
    rows = []
    for heard in every:
        setting = heard.default
        events = " ".join(f"{setting.false_accepts[kind].events}" for kind in kinds if kind != EVERYWHERE)
        rows.append(
            [heard.name, heard.word, f"{setting.threshold:.3g}", rate_text(setting.false_accepts["all"]), events]
        )
    named = ", ".join(kind for kind in kinds if kind != EVERYWHERE)
    title = f"at its own threshold: false accepts an hour, and how many by kind\n({named})"
    return f"{title}\n{table(['', 'word', 'threshold', 'an hour', 'by kind'], rows)}"


def _costs(result: Result) -> str:
    rows = list(_cost_rows(result))
    title = f"cost; one core, one thread, in turns, over speech; load {', '.join(map(str, result.load))}"
    return f"{title}\n{table(['', 'CPU s/h of sound', 'p10-p90', 'peak MB', 'model MB'], rows)}"


def _cost_rows(result: Result) -> Iterator[list[str]]:
    for heard in result.heard:
        cost, size = result.costs.get(heard.name), f"{heard.files_bytes / 1e6:.2f}"
        if cost is None:
            yield [heard.name, "-", "-", "-", size]
        else:
            spread, peak = f"{cost.low:.0f}-{cost.high:.0f}", f"{cost.peak_bytes / 1e6:.0f}"
            yield [heard.name, f"{cost.cpu_seconds:.0f}", spread, peak, size]


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH)
