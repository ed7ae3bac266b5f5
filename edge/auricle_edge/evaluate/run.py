"""Scenes heard by each listener, and the reports that come of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auricle.hearing.curve import GRID, curve_of
from auricle.hearing.rule import Posteriors
from auricle.hearing.scenes import Scene
from auricle.hearing.waking import CommandCounts, Waking, command_counts, heard_awake
from auricle.speech.features import LogMel
from auricle_edge.detect.settings import DetectSettings
from auricle_edge.evaluate.clips import clip_accuracy
from auricle_edge.evaluate.listeners import Listener, rule_of, thresholds_of
from auricle_edge.evaluate.report import (
    Report,
    Row,
    chosen_thresholds,
    curves_of,
    rows_of,
    setting_of,
    speakers_of,
    sweep,
)
from auricle_edge.evaluate.sources import Sources
from auricle_edge.evaluate.windows import posteriors_of


@dataclass(frozen=True, eq=False)
class Stream:
    """Scenes without their samples, and what each listener said of them."""

    scenes: tuple[Scene, ...]
    posteriors: tuple[tuple[Posteriors, ...], ...]
    """By listener, then by scene: (hops, L)."""
    seconds: float


@dataclass(frozen=True, eq=False)
class Judged:
    """What is common to all listeners."""

    labels: tuple[str, ...]
    frontend: LogMel
    settings: DetectSettings
    waking: Waking | None


def hear(scenes: Iterable[Scene], listeners: Sequence[Listener], judged: Judged) -> Stream:
    """Let every listener hear every scene; a scene's samples are forgotten when the next one comes."""
    kept: list[Scene] = []
    found: list[list[Posteriors]] = [[] for _ in listeners]
    seconds = 0.0
    recognisers = [listener.recognise for listener in listeners]
    for scene in scenes:
        rows = posteriors_of(scene.samples, judged.frontend, recognisers, judged.settings, len(judged.labels))
        for mine, said in zip(found, rows, strict=True):
            mine.append(said)
        seconds += scene.hours * 3600
        kept.append(replace(scene, samples=np.zeros(0, np.int16)))
    return Stream(tuple(kept), tuple(tuple(mine) for mine in found), seconds)


def thresholds_from(
    stream: Stream, listeners: Sequence[Listener], judged: Judged, rate: float
) -> dict[str, dict[str, float]]:
    """Thresholds by word for a wanted rate, by listener; those for which there was sound enough."""
    made = {}
    for listener, posteriors in zip(listeners, stream.posteriors, strict=True):
        counts = curve_of(posteriors, stream.scenes, judged.labels, rule_of(judged.settings))
        chosen = chosen_thresholds(counts, rate)
        if chosen is not None:
            made[listener.name] = chosen
    return made


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
    here = thresholds_from(stream, listeners, judged, rate) if validated is None else validated
    where = "chosen on this sound" if validated is None else "from validation"
    return [
        _report(stream, posteriors, listener, judged, sources, {f"{rate:g}/h, {where}": here.get(listener.name)})
        for listener, posteriors in zip(listeners, stream.posteriors, strict=True)
    ]


def _report(
    stream: Stream,
    posteriors: Sequence[Posteriors],
    listener: Listener,
    judged: Judged,
    sources: Sources,
    chosen: dict[str, dict[str, float] | None],
) -> Report:
    rule, labels = rule_of(judged.settings), judged.labels
    counts = curve_of(posteriors, stream.scenes, labels, rule)
    named = {"default": thresholds_of(labels, judged.settings), **{k: v for k, v in chosen.items() if v}}
    rows = sweep(counts)
    return Report(
        listener.name,
        listener.weights,
        len(counts.words),
        counts.hours,
        kinds=rows.get("kinds", ()),
        by_word=rows.get("by_word", ()),
        alone=rows.get("alone", ()),
        by_snr=rows.get("by_snr", ()),
        speakers=speakers_of(counts),
        settings=tuple(
            setting_of(name, levels, posteriors, stream.scenes, labels, rule) for name, levels in named.items()
        ),
        clips=clip_accuracy(sources, labels, judged.frontend, listener.recognise) if sources.keywords else None,
        wake={} if judged.waking is None else _asleep(stream, posteriors, labels, judged.waking),
        commands=None if judged.waking is None else _commands(stream, posteriors, labels, judged.waking),
        curves=curves_of(counts),
    )


def _asleep(
    stream: Stream, posteriors: Sequence[Posteriors], labels: Sequence[str], waking: Waking
) -> dict[str, tuple[Row, ...]]:
    """Each wake word where only wake words count, at its own false accepts, by kind of scene."""
    columns = [labels.index(word) for word in waking.wake]
    scenes = [replace(s, words=tuple(w for w in s.words if w.word in waking.wake)) for s in stream.scenes]
    counts = curve_of([rows[:, columns] for rows in posteriors], scenes, waking.wake, waking.rule, GRID)
    if not counts.words or not counts.all_hours:
        return {}
    kinds = list(dict.fromkeys(word.kind for word in counts.words))
    return {
        word: rows_of(counts, [(kind, counts.chosen(word=word, kind=kind)) for kind in kinds], [word] * len(kinds))
        for word in waking.wake
    }


def _commands(stream: Stream, posteriors: Sequence[Posteriors], labels: Sequence[str], waking: Waking) -> CommandCounts:
    total = CommandCounts()
    for rows, scene in zip(posteriors, stream.scenes, strict=True):
        total += command_counts(scene, heard_awake(rows, labels, waking), waking.window)
    return total
