"""What is stated about a listener: hits at fixed false accepts an hour, in every respect, with intervals and hours."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from auricle.hearing.command_counts import CommandCounts
from auricle.hearing.curve import RATES, Counts, Mask, Point, curve_of, interpolate, points
from auricle.hearing.intervals import Interval, rate_interval
from auricle.hearing.origins import Origins, Recordings
from auricle.hearing.rule import Posteriors, Rule
from auricle.hearing.scenes import Scene
from auricle_edge.evaluate.clips import ClipAccuracy, Share
from auricle_edge.evaluate.levels import BANDS, name_band, shares_around, within

SPEAKER_RATE = 5.0
"""False accepts an hour at which speakers are compared."""
SPEAKER_WORDS = 5
"""A speaker who says fewer is not compared."""
DRAWN = np.geomspace(0.1, 100, 61)
"""False accepts an hour at which a curve is drawn."""


@dataclass(frozen=True)
class Row:
    """Hits of some of the keywords at each of the fixed rates."""

    what: str
    words: int
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Events:
    """So many in so many hours."""

    count: int
    hours: float

    @property
    def rate(self) -> float:
        """An hour; nan of no time."""
        return self.count / self.hours if self.hours else math.nan

    @property
    def interval(self) -> Interval:
        """95 %."""
        return rate_interval(self.count, self.hours)


EVERYWHERE = "all"
"""What recordings of all kinds of sound are named by."""


def recordings_of(origins: Origins) -> dict[str, Recordings]:
    """Recordings by kind of sound, and of all together; nothing where scenes know none."""
    found = origins.by_kind()
    return {**found, EVERYWHERE: origins.at()} if found else {}


def in_all(found: Mapping[str, Events]) -> Events:
    """In all sound without keywords, of events by its kind."""
    return Events(sum(events.count for events in found.values()), sum(events.hours for events in found.values()))


@dataclass(frozen=True)
class Setting:
    """One setting of the device: what it hears, and how often it is wrong."""

    name: str
    thresholds: Mapping[str, float]
    hits: Mapping[str, Share]
    """By kind of scene."""
    by_word: Mapping[str, Share]
    wrong: int
    """Detections among keywords that are no hits: another word, or at another time."""
    false_accepts: Mapping[str, Events]
    """By kind of sound without keywords."""
    recordings: Mapping[str, Recordings]
    """From how many different recordings these came, by kind of sound and in `all`."""
    latency_p50: float | None
    """Seconds from a word's true end to its detection; None without hits."""
    latency_p95: float | None
    clear: Mapping[str, Share] = field(default_factory=dict)
    """By kind of scene, of the keywords whose recording alone is named rightly: how many are heard here."""
    around: Mapping[str, Share] = field(default_factory=dict)
    """Over what a loudspeaker plays, by its kind and the word's level over it."""

    @property
    def all_false_accepts(self) -> Events:
        """In all sound without keywords."""
        return in_all(self.false_accepts)


@dataclass(frozen=True)
class Speakers:
    """Hits by speaker at `SPEAKER_RATE`, of those who say `SPEAKER_WORDS` or more."""

    number: int
    worst: float
    median: float
    best: float


@dataclass(frozen=True)
class DeviceEvents:
    """What a detector with wake words did at its own settings, from its events."""

    wakes: Mapping[str, Share]
    """Wake words that were heard, by kind of scene."""
    wakes_by_word: Mapping[str, Share]
    commands: CommandCounts
    """In scenes of wake words and commands in noise, and in all sound without keywords."""
    false_wakes: Mapping[str, Events]
    """By kind of sound without keywords."""
    false_commands: Mapping[str, Events]
    over_speech: CommandCounts = field(default_factory=CommandCounts)
    """In scenes of wake words and commands over running speech."""
    wake_recordings: Mapping[str, Recordings] = field(default_factory=dict)
    """From how many different recordings these came, by kind of sound and in `all`."""
    command_recordings: Mapping[str, Recordings] = field(default_factory=dict)
    wakes_around: Mapping[str, Share] = field(default_factory=dict)
    """Wake words heard over what a loudspeaker plays, by its kind and the word's level over it."""


@dataclass(frozen=True)
class SecondStage:
    """A larger model that judges what the first stage proposes."""

    weights: int
    windows: Share
    """That it judged of those that the first stage did, while the device waits."""


@dataclass(frozen=True)
class Report:
    """All about one listener."""

    name: str
    weights: int
    """Of the first stage."""
    words: int
    hours: Mapping[str, float]
    """Of sound without keywords, by kind."""
    kinds: tuple[Row, ...] = ()
    by_word: tuple[Row, ...] = ()
    """At false accepts of all words together."""
    alone: tuple[Row, ...] = ()
    """Each word at its own false accepts: as if the device had no other."""
    by_snr: tuple[Row, ...] = ()
    speakers: Speakers | None = None
    settings: tuple[Setting, ...] = ()
    note: str = ""
    """Why thresholds for the wanted rate are missing; "": they are there."""
    clips: ClipAccuracy | None = None
    wake: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    """Each wake word at its own false accepts while the device sleeps: a row for each kind of scene."""
    second: SecondStage | None = None
    """None with one stage."""
    device: DeviceEvents | None = None
    """What the detector itself did, states and all; None without wake words."""
    curves: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Hits at each rate of `DRAWN`, by kind."""


def rows_of(counts: Counts, named: Sequence[tuple[str, Mask]], alone: Sequence[str | None] = ()) -> tuple[Row, ...]:
    """A row for each selection of spoken keywords that is not empty."""
    single = alone or [None] * len(named)
    return tuple(
        Row(what, int(mask.sum()), tuple(points(counts, mask, RATES, word)))
        for (what, mask), word in zip(named, single, strict=True)
        if mask.any()
    )


def name_recordings(report: Report, names: Mapping[str, str]) -> Report:
    """The same with recordings by where they lie instead of by fingerprint."""

    def told(found: Mapping[str, Recordings]) -> dict[str, Recordings]:
        return {kind: recordings.named(names) for kind, recordings in found.items()}

    settings = tuple(replace(setting, recordings=told(setting.recordings)) for setting in report.settings)
    device = report.device
    if device is not None:
        wakes, commands = told(device.wake_recordings), told(device.command_recordings)
        device = replace(device, wake_recordings=wakes, command_recordings=commands)
    return replace(report, settings=settings, device=device)


def swept(report: Report, counts: Counts) -> Report:
    """The same with all that is read off the curve; nothing without keywords or without sound that has none."""
    if not counts.words or not counts.all_hours:
        return report
    kinds = list(dict.fromkeys(word.kind for word in counts.words))
    words = [label for label in counts.labels if any(word.word == label for word in counts.words)]
    by_kind = [(kind, counts.chosen(kind=kind)) for kind in kinds]
    every = np.ones(len(counts.words), np.bool_)
    by_word = [(word, counts.chosen(word=word)) for word in words]
    return replace(
        report,
        kinds=rows_of(counts, [*by_kind, *([("all", every)] if len(kinds) > 1 else [])]),
        by_word=rows_of(counts, by_word),
        alone=rows_of(counts, by_word, words),
        by_snr=rows_of(counts, [(name_band(*band), within(counts.words, *band)) for band in BANDS]),
        speakers=speakers_of(counts),
        curves=_curves(counts, kinds),
    )


def speakers_of(counts: Counts) -> Speakers | None:
    """Worst, median and best speaker; None where nobody says enough, or there is no sound without keywords."""
    said = Counter(word.speaker for word in counts.words)
    named = [speaker for speaker, number in said.items() if number >= SPEAKER_WORDS]
    if not named or not counts.all_hours:
        return None
    accepts = counts.total()
    shares = [
        interpolate(accepts, counts.hit[:, counts.chosen(speaker=speaker)].mean(axis=1), counts.all_hours, SPEAKER_RATE)
        for speaker in named
    ]
    return Speakers(len(named), min(shares), float(np.median(shares)), max(shares))


def _curves(counts: Counts, kinds: Sequence[str]) -> dict[str, tuple[float, ...]]:
    accepts = counts.total()
    shares = {kind: counts.hit[:, counts.chosen(kind=kind)].mean(axis=1) for kind in kinds}
    return {
        kind: tuple(interpolate(accepts, shares[kind], counts.all_hours, float(rate)) for rate in DRAWN)
        for kind in kinds
    }


def setting_of(
    name: str,
    thresholds: Mapping[str, float],
    posteriors: Sequence[Posteriors],
    scenes: Sequence[Scene],
    labels: Sequence[str],
    rule: Rule,
    clear: Collection[str] = (),
) -> Setting:
    """What a device hears with these thresholds; a keyword without one is never heard.

    Parameters
    ----------
    clear
        Fingerprints of the recordings that are named rightly alone.
    """
    levels = np.array([[thresholds.get(label, math.inf) for label in labels]])
    counts = curve_of(posteriors, scenes, labels, rule, levels)
    hit, delays = counts.hit[0], counts.delay[0][counts.hit[0]]

    def share(mask: Mask) -> Share:
        return Share(int(hit[mask].sum()), int(mask.sum()))

    known = np.array([word.recording in clear for word in counts.words], dtype=np.bool_)
    p50, p95 = np.percentile(delays, (50, 95)).tolist() if len(delays) else (None, None)
    return Setting(
        name,
        dict(thresholds),
        {kind: share(counts.chosen(kind=kind)) for kind in dict.fromkeys(word.kind for word in counts.words)},
        {word: share(counts.chosen(word=word)) for word in labels if counts.chosen(word=word).any()},
        sum(int(number[0]) for number in counts.wrong.values()),
        {kind: Events(int(table[0].sum()), counts.hours[kind]) for kind, table in counts.false_accepts.items()},
        recordings_of(counts.origins),
        p50,
        p95,
        {
            kind: share(mask)
            for kind in dict.fromkeys(word.kind for word in counts.words)
            if (mask := counts.chosen(kind=kind) & known).any()
        },
        shares_around(zip(counts.words, hit.tolist(), strict=True)),
    )
