"""What each listener's scores come to: false accepts an hour by kind, hits by form of the phrase, one row a word."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auricle.hearing.curve import GRID, Counts, curve_of
from auricle.hearing.intervals import Interval, rate_interval, share_interval
from auricle.hearing.rule import Posteriors, Rule
from auricle.hearing.scenes import Scene
from bench.comparison_table import table
from bench.hearing_sound import TARGET


@dataclass(frozen=True)
class Listens:
    """How a listener's scores are turned into detections."""

    labels: tuple[str, ...]
    """Of the columns of its scores."""
    thresholds: Mapping[str, float]
    """By default, of each word."""
    alone: tuple[str, ...]
    """Words that are stated one by one; none: all words together."""
    rule: Rule
    together: bool
    """Whether only the highest word of a window counts, as in one model of several words."""
    above: bool
    """Whether a score has to be above the threshold, and not only at it."""


@dataclass(frozen=True)
class Count:
    """False accepts of one kind of sound."""

    events: int
    hours: float
    rate: float
    interval: Interval


@dataclass(frozen=True)
class Share:
    """Hits of one form of the phrase."""

    hits: int
    of: int
    interval: Interval


@dataclass(frozen=True)
class Setting:
    """A listener's word at one threshold."""

    threshold: float | None
    """None where the words have one each."""
    false_accepts: dict[str, Count]
    hits: dict[str, Share]
    """Empty where nobody says the word."""


@dataclass(frozen=True)
class Row:
    """A word of a listener."""

    listener: str
    word: str
    weights: int
    default: Setting
    swept: Setting | None
    """At the lowest threshold, on this very sound, with no more false accepts than allowed; None where none has."""


def rows_of(
    name: str,
    listens: Listens,
    scores: Sequence[Posteriors],
    scenes: Sequence[Scene],
    weights: Mapping[str, int],
    rate: float,
) -> list[Row]:
    """A row for each word of a listener, or one for all of them.

    Parameters
    ----------
    scores
        (hops, labels) of each scene.
    weights
        By word; "" for every word.
    rate
        False accepts an hour that are allowed in the sweep.
    """
    return [
        Row(
            name,
            word or "all words",
            weights.get(word, weights.get("", 0)),
            setting_at(counts, word, 0, _usual(listens, word)),
            _swept(counts, word, rate),
        )
        for word, counts in _counted(listens, scores, scenes)
    ]


def _usual(listens: Listens, word: str) -> float | None:
    levels = {listens.thresholds[word]} if word else set(listens.thresholds.values())
    return levels.pop() if len(levels) == 1 else None


def _counted(listens: Listens, scores: Sequence[Posteriors], scenes: Sequence[Scene]) -> Iterator[tuple[str, Counts]]:
    """Each stated word ("" for all) with its counts: the default thresholds first, then the sweep's, lowest first."""
    if listens.together:
        counts = _counts(listens.labels, listens, scores, scenes)
        yield from ((word, counts) for word in listens.alone or ("",))
        return
    for column, word in enumerate(listens.labels):
        only = [rows[:, [column]] for rows in scores]
        yield word, _counts((word,), listens, only, scenes)


def _counts(labels: Sequence[str], listens: Listens, scores: Sequence[Posteriors], scenes: Sequence[Scene]) -> Counts:
    usual = np.array([[listens.thresholds.get(label, 1.0) for label in labels]])
    if listens.above:
        usual = np.nextafter(usual, 2.0)
    levels = np.concatenate((usual, np.repeat(GRID[:, None], len(labels), axis=1)))
    said = [said_as(scene, labels) for scene in scenes]
    return curve_of(scores, said, labels, listens.rule, levels)


def said_as(scene: Scene, labels: Sequence[str]) -> Scene:
    """The scene with the phrase named as the listener names it."""
    name = next((label for label in labels if shares(label)), TARGET)
    return replace(scene, words=tuple(replace(word, word=name) for word in scene.words))


def shares(word: str) -> bool:
    """Whether it is the word that is said: "jarvis" or "hey_jarvis"."""
    return word.replace("_", " ").split()[-1:] == [TARGET]


def setting_at(counts: Counts, word: str, at: int, threshold: float | None) -> Setting:
    """What a word's counts ("": of all words) are in row `at`; `threshold` is stated as it is."""
    columns = slice(None) if not word else [counts.labels.index(word)]
    accepts = {kind: int(found[at, columns].sum()) for kind, found in counts.false_accepts.items()}
    by_kind = {kind: _count(events, counts.hours[kind]) for kind, events in accepts.items()}
    kinds = dict.fromkeys(spoken.kind for spoken in counts.words) if shares(word) else {}
    return Setting(
        threshold,
        {**by_kind, "all": _count(sum(accepts.values()), counts.all_hours)},
        {kind: _share(counts.hit[at, counts.chosen(kind=kind)]) for kind in kinds},
    )


def _swept(counts: Counts, word: str, rate: float) -> Setting | None:
    """At the lowest threshold from which on no higher one has more false accepts than allowed."""
    accepts = counts.total(word or None)[1:]
    too_many = np.flatnonzero(accepts > rate * counts.all_hours)
    first = int(too_many[-1]) + 1 if len(too_many) else 0
    return setting_at(counts, word, first + 1, float(GRID[first])) if first < len(GRID) else None


def _count(events: int, hours: float) -> Count:
    return Count(events, hours, events / hours if hours else 0.0, rate_interval(events, hours))


def _share(hit: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Share:
    return Share(int(hit.sum()), len(hit), share_interval(int(hit.sum()), len(hit)))


def text_of(rows: Sequence[Row], cost: Mapping[str, Sequence[float]], rate: float) -> str:
    """The tables: by default, and where no more than `rate` false accepts an hour are allowed."""
    blocks = [
        _block("each at its own default settings", [(row, row.default) for row in rows]),
        _block(
            f"at the lowest threshold with at most {rate:g} false accepts an hour, chosen on this sound",
            [(row, row.swept) for row in rows],
        ),
        _costs(rows, cost),
    ]
    return "\n\n".join(blocks)


def _block(title: str, settings: Sequence[tuple[Row, Setting | None]]) -> str:
    first = next((setting for _, setting in settings if setting), None)
    kinds = list(first.false_accepts) if first else []
    header = ["false accepts an hour", "word", "threshold", *kinds]
    lines = [[row.listener, row.word, *_accepts(setting, kinds)] for row, setting in settings]
    parts = [title, table(header, lines)]
    if first is not None:
        parts.append(_heard(first))
    said = [line for row, setting in settings if setting for line in _forms(row, setting)]
    if said:
        scenes = list(dict.fromkeys(scene for _, found in said for scene in found))
        cells = [[*start, *(found.get(scene, "-") for scene in scenes)] for start, found in said]
        parts.append(table(["hits % (95 %)", "word", "said", *scenes], cells))
    return "\n".join(parts)


def _heard(setting: Setting) -> str:
    hours = ", ".join(f"{kind} {count.hours:.2f}" for kind, count in setting.false_accepts.items())
    every = setting.false_accepts["all"].hours
    return f"hours: {hours}; they show rates from {3 / every:.1f} an hour" if every else f"hours: {hours}"


def _forms(row: Row, setting: Setting) -> Iterator[tuple[list[str], dict[str, str]]]:
    """A line for each form of the phrase: how it begins, and its cells by kind of scene."""
    cells: dict[str, dict[str, str]] = {}
    for kind, share in setting.hits.items():
        form, _, scene = kind.partition(": ")
        cells.setdefault(form, {})[scene] = _share_text(share)
    yield from (([row.listener, row.word, form], found) for form, found in cells.items())


def _accepts(setting: Setting | None, kinds: Sequence[str]) -> list[str]:
    if setting is None:
        return ["none", *["-"] * len(kinds)]
    level = "by word" if setting.threshold is None else f"{setting.threshold:.4g}"
    return [level, *(rate_text(setting.false_accepts[kind]) for kind in kinds)]


def rate_text(count: Count) -> str:
    """A rate with its interval; after no event only what that shows."""
    if not count.events:
        return f"0 (<{count.interval.high:.1f})"
    return f"{count.rate:.1f} ({count.interval.low:.1f}-{count.interval.high:.1f})"


def _share_text(found: Share) -> str:
    low, high = 100 * found.interval.low, 100 * found.interval.high
    return f"{100 * found.hits / found.of:.0f} ({low:.0f}-{high:.0f}) of {found.of}"


def _costs(rows: Sequence[Row], cost: Mapping[str, Sequence[float]]) -> str:
    weights: dict[str, list[int]] = {}
    for row in rows:
        weights.setdefault(row.listener, []).append(row.weights)
    lines = [
        [
            name,
            " to ".join(f"{size:,}" for size in sorted({min(sizes), max(sizes)})),
            *_seconds(cost.get(name, ())),
        ]
        for name, sizes in weights.items()
    ]
    return table(["", "weights", "CPU ms a second of sound", "p10-p90"], lines)


def _seconds(each: Sequence[float]) -> tuple[str, str]:
    if len(each) < 2:
        return "-", "-"
    tenths = statistics.quantiles(each, n=10)
    return f"{1000 * statistics.median(each):.1f}", f"{1000 * tenths[0]:.1f}-{1000 * tenths[-1]:.1f}"
