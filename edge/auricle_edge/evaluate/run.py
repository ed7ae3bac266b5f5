"""Scenes heard by each listener, and the reports that come of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auricle.errors import DataError
from auricle.hearing.curve import Counts, curve_of
from auricle.hearing.rule import Posteriors
from auricle.hearing.scenes import Scene
from auricle.hearing.waking import Heard, Waking
from auricle.hearing.word_thresholds import thresholds_for
from auricle.speech.features import LogMel
from auricle_edge.evaluate.clips import clip_accuracy
from auricle_edge.evaluate.device import device_events, heard_by_detector
from auricle_edge.evaluate.listeners import Listener, rule_of, thresholds_of
from auricle_edge.evaluate.report import (
    Report,
    Row,
    rows_of,
    setting_of,
    swept,
)
from auricle_edge.evaluate.sources import Sources
from auricle_edge.evaluate.windows import posteriors_of
from auricle_edge.listening.detect.settings import DetectSettings


@dataclass(frozen=True, eq=False)
class Stream:
    """Scenes without their samples, and what each listener said of them."""

    scenes: tuple[Scene, ...]
    posteriors: tuple[tuple[Posteriors, ...], ...]
    """By listener, then by scene: (hops, L)."""
    seconds: float
    events: tuple[tuple[Sequence[Heard], ...], ...] = ()
    """What a detector heard, states and all: by listener, then by scene; empty where nobody asked for it."""


@dataclass(frozen=True, eq=False)
class Judged:
    """What is common to all listeners."""

    labels: tuple[str, ...]
    frontend: LogMel
    settings: DetectSettings
    waking: Waking | None


def hear(scenes: Iterable[Scene], listeners: Sequence[Listener], judged: Judged, *, events: bool = False) -> Stream:
    """Let every listener hear every scene; a scene's samples are forgotten when the next one comes.

    With `events`, a detector hears it too, with wake words and all: window by window, which takes longer.
    """
    kept: list[Scene] = []
    happened: list[list[Sequence[Heard]]] = [[] for _ in listeners if events]
    found: list[list[Posteriors]] = [[] for _ in listeners]
    seconds = 0.0
    recognisers, labels, settings = [each.recognise for each in listeners], judged.labels, judged.settings
    for scene in scenes:
        rows = posteriors_of(scene.samples, judged.frontend, recognisers, settings, len(labels))
        for mine, said in zip(found, rows, strict=True):
            mine.append(said)
        for recognise, own in zip(recognisers, happened, strict=False):
            own.append(heard_by_detector(scene.samples, judged.frontend, labels, recognise, settings))
        seconds += scene.hours * 3600
        kept.append(replace(scene, samples=np.zeros(0, np.int16)))
    return Stream(tuple(kept), tuple(map(tuple, found)), seconds, tuple(map(tuple, happened)))


def thresholds_from(
    stream: Stream, listeners: Sequence[Listener], judged: Judged, rate: float
) -> dict[str, dict[str, float]]:
    """Thresholds by word for a wanted rate, by listener.

    Raises
    ------
    DataError
        There is too little sound without keywords to show such a rate.
    """
    return {
        listener.name: thresholds_for(
            curve_of(posteriors, stream.scenes, judged.labels, rule_of(judged.settings)), rate
        ).thresholds
        for listener, posteriors in zip(listeners, stream.posteriors, strict=True)
    }


def reports(
    stream: Stream,
    listeners: Sequence[Listener],
    judged: Judged,
    sources: Sources,
    rate: float,
    validated: dict[str, dict[str, float]] | None = None,
) -> list[Report]:
    """A report for each listener.

    Parameters
    ----------
    stream
        From `hear`.
    sources
        Whose single recordings are judged, too.
    rate
        False accepts an hour for which thresholds are chosen.
    validated
        Thresholds by listener that were chosen on other sound, from `thresholds_from`; None: on this.
    """
    where, note = "from validation", ""
    chosen = validated or {}
    if validated is None:
        where = "chosen on this sound"
        try:
            chosen = thresholds_from(stream, listeners, judged, rate)
        except DataError as error:
            note = f"No thresholds by word: {error}"
    made = []
    for number, (listener, posteriors) in enumerate(zip(listeners, stream.posteriors, strict=True)):
        by_word = {f"{rate:g}/h, {where}": chosen[listener.name]} if chosen else {}
        report = _report(stream, posteriors, listener, judged, by_word)
        clips = clip_accuracy(sources, judged.labels, judged.frontend, listener.recognise) if sources.keywords else None
        device = None
        if judged.waking is not None and stream.events:
            device = device_events(stream.scenes, stream.events[number], judged.waking.wake, judged.waking.window)
        made.append(replace(report, note=note, clips=clips, device=device))
    return made


def _report(
    stream: Stream,
    posteriors: Sequence[Posteriors],
    listener: Listener,
    judged: Judged,
    chosen: dict[str, dict[str, float]],
) -> Report:
    rule, labels, waking = rule_of(judged.settings), judged.labels, judged.waking
    counts = curve_of(posteriors, stream.scenes, labels, rule)
    usual = "default" if waking is None else "default, every word always open"
    named = {usual: thresholds_of(labels, judged.settings), **chosen}
    settings = [setting_of(name, levels, posteriors, stream.scenes, labels, rule) for name, levels in named.items()]
    report = Report(
        listener.name,
        listener.weights,
        len(counts.words),
        counts.hours,
        settings=tuple(settings),
    )
    report = swept(report, counts)
    return report if waking is None else _with_waking(report, stream, posteriors, labels, waking)


def _with_waking(
    report: Report, stream: Stream, posteriors: Sequence[Posteriors], labels: Sequence[str], waking: Waking
) -> Report:
    """The same with what becomes of wake words while the device sleeps, at every threshold."""
    columns = [labels.index(word) for word in waking.wake]
    asleep = [rows[:, columns] for rows in posteriors]
    scenes = [replace(s, words=tuple(w for w in s.words if w.word in waking.wake)) for s in stream.scenes]
    settings = []
    for word in waking.wake:
        alone = [replace(scene, words=tuple(w for w in scene.words if w.word == word)) for scene in scenes]
        level = {word: waking.thresholds[word]}
        settings.append(setting_of(f"{word} while it sleeps", level, asleep, alone, waking.wake, waking.rule))
    wake = _asleep(curve_of(asleep, scenes, waking.wake, waking.rule), waking)
    return replace(report, settings=(*settings, *report.settings), wake=wake)


def _asleep(counts: Counts, waking: Waking) -> dict[str, tuple[Row, ...]]:
    """Each wake word at its own false accepts: a row for each kind of scene."""
    if not counts.words or not counts.all_hours:
        return {}
    kinds = list(dict.fromkeys(word.kind for word in counts.words))
    return {
        word: rows_of(counts, [(kind, counts.chosen(word=word, kind=kind)) for kind in kinds], [word] * len(kinds))
        for word in waking.wake
    }
