"""Scenes heard by each listener, and the reports that come of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auricle.errors import DataError
from auricle.hearing.curve import Counts, curve_of
from auricle.hearing.rule import Posteriors
from auricle.hearing.scenes import Scene
from auricle.hearing.second_stage import Levels, levels_of
from auricle.hearing.waking import Heard, Waking
from auricle.hearing.word_thresholds import WordThresholds, threshold_for, thresholds_for
from auricle.speech.features import LogMel
from auricle_edge.evaluate.clips import Share, clip_accuracy
from auricle_edge.evaluate.device import device_events, hear_by_detector
from auricle_edge.evaluate.listeners import ListenerUnderTest, rule_of, thresholds_of
from auricle_edge.evaluate.report import Report, Row, SecondStage, Setting, name_recordings, rows_of, setting_of, swept
from auricle_edge.evaluate.sources import Sources
from auricle_edge.evaluate.windows import Said, judge_windows, waiting_levels
from auricle_edge.listening.detect.settings import DetectSettings

_WAYS: Mapping[str, Callable[[Counts, float], WordThresholds]] = {
    "by word": thresholds_for,
    "one for all": threshold_for,
}
"""To choose thresholds for a rate, the one that keeps to it on other sound last."""
_ROUNDS = 4
"""Most times that thresholds are chosen for two stages: what is proposed depends on them, and they on that."""


@dataclass(frozen=True, eq=False)
class Stream:
    """Scenes without their samples, and what each listener said of them."""

    scenes: tuple[Scene, ...]
    said: tuple[tuple[Said, ...], ...]
    """By listener, then by scene."""
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

    def levels(self, thresholds: Mapping[str, float] | None = None) -> Levels:
        """Thresholds by label (L,), as they are proposed by; those of the settings where none are given."""
        usual = thresholds_of(self.labels, self.settings)
        return levels_of(self.labels, usual if thresholds is None else thresholds)

    def counted(self, said: Sequence[Said], levels: Levels) -> list[Posteriors]:
        """Posteriors (hops, L) of each scene that count on a device with these thresholds."""
        return [each.counted(levels, self.settings.smoothing) for each in said]


def hear(
    scenes: Iterable[Scene], listeners: Sequence[ListenerUnderTest], judged: Judged, *, events: bool = False
) -> Stream:
    """Let every listener hear every scene; a scene's samples are forgotten when the next one comes.

    With `events`, a detector hears it too, with wake words and all: window by window, which takes longer.
    """
    kept: list[Scene] = []
    happened: list[list[Sequence[Heard]]] = [[] for _ in listeners if events]
    found: list[list[Said]] = [[] for _ in listeners]
    seconds = 0.0
    recognisers, votes = [each.recognise for each in listeners], [each.vote for each in listeners]
    labels, settings = judged.labels, judged.settings
    for scene in scenes:
        heard = judge_windows(scene.samples, judged.frontend, recognisers, settings, len(labels), votes)
        for mine, said in zip(found, heard, strict=True):
            mine.append(said)
        for each, own in zip(listeners, happened, strict=False):
            own.append(hear_by_detector(scene.samples, judged.frontend, labels, each.recognise, settings, each.vote))
        seconds += scene.hours * 3600
        kept.append(replace(scene, samples=np.zeros(0, np.int16)))
    return Stream(tuple(kept), tuple(map(tuple, found)), seconds, tuple(map(tuple, happened)))


def thresholds_from(
    stream: Stream, listeners: Sequence[ListenerUnderTest], judged: Judged, rate: float
) -> dict[str, dict[str, dict[str, float]]]:
    """Thresholds for a wanted rate, by listener: those by word, and one for all words.

    With two stages they are chosen again for what is proposed with them, until that changes nothing, `_ROUNDS` times
    at most.

    Raises
    ------
    DataError
        There is too little sound without keywords to show such a rate.
    """
    return {
        listener.name: {way: _thresholds(stream.scenes, said, judged, rate, choose) for way, choose in _WAYS.items()}
        for listener, said in zip(listeners, stream.said, strict=True)
    }


def _thresholds(
    scenes: Sequence[Scene],
    said: Sequence[Said],
    judged: Judged,
    rate: float,
    choose: Callable[[Counts, float], WordThresholds],
) -> dict[str, float]:
    chosen: dict[str, float] | None = None
    for _ in range(_ROUNDS):
        before = chosen
        counts = curve_of(judged.counted(said, judged.levels(before)), scenes, judged.labels, rule_of(judged.settings))
        chosen = choose(counts, rate).thresholds
        if chosen == before or all(each.second is None for each in said):
            break
    assert chosen is not None
    return chosen


def reports(
    stream: Stream,
    listeners: Sequence[ListenerUnderTest],
    judged: Judged,
    sources: Sources,
    rate: float,
    validated: dict[str, dict[str, dict[str, float]]] | None = None,
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
            note = f"No thresholds for that rate: {error}"
    made = []
    for number, (listener, said) in enumerate(zip(listeners, stream.said, strict=True)):
        settings = {f"{rate:g}/h {way}, {where}": found for way, found in chosen.get(listener.name, {}).items()}
        clips, clear = None, frozenset[str]()
        if sources.keywords:
            clips, clear = clip_accuracy(sources, judged.labels, judged.frontend, listener.recognise, listener.vote)
        report = _report(stream, said, listener, judged, settings, clear)
        device = None
        if judged.waking is not None and stream.events:
            device = device_events(
                stream.scenes, stream.events[number], judged.waking.wake, judged.waking.window, clear
            )
        made.append(name_recordings(replace(report, note=note, clips=clips, device=device), sources.names))
    return made


def _report(
    stream: Stream,
    said: Sequence[Said],
    listener: ListenerUnderTest,
    judged: Judged,
    chosen: dict[str, dict[str, float]],
    clear: Collection[str],
) -> Report:
    rule, labels, waking = rule_of(judged.settings), judged.labels, judged.waking
    counts = curve_of(judged.counted(said, judged.levels()), stream.scenes, labels, rule)
    usual = "default" if waking is None else "default, every word always open"
    named = {usual: thresholds_of(labels, judged.settings), **chosen}
    report = Report(
        listener.name,
        listener.weights,
        len(counts.words),
        counts.hours,
        settings=tuple(_setting(name, levels, stream, said, judged, clear) for name, levels in named.items()),
        second=_second(said, listener, judged),
    )
    report = swept(report, counts)
    return report if waking is None else _with_waking(report, stream, said, judged, waking, clear)


def _setting(
    name: str,
    thresholds: Mapping[str, float],
    stream: Stream,
    said: Sequence[Said],
    judged: Judged,
    clear: Collection[str],
) -> Setting:
    rows = judged.counted(said, judged.levels(thresholds))
    return setting_of(name, thresholds, rows, stream.scenes, judged.labels, rule_of(judged.settings), clear)


def _second(said: Sequence[Said], listener: ListenerUnderTest, judged: Judged) -> SecondStage | None:
    if all(each.second is None for each in said):
        return None
    levels, smoothing = waiting_levels(judged.labels, judged.settings), judged.settings.smoothing
    windows = sum(int(each.proposed(levels, smoothing).sum()) for each in said)
    return SecondStage(listener.second_weights, Share(windows, sum(int(each.first.any(axis=1).sum()) for each in said)))


def _with_waking(
    report: Report, stream: Stream, said: Sequence[Said], judged: Judged, waking: Waking, clear: Collection[str]
) -> Report:
    """The same with what becomes of wake words while the device sleeps, at every threshold."""
    columns = [judged.labels.index(word) for word in waking.wake]
    counted = judged.counted(said, waiting_levels(judged.labels, judged.settings))
    asleep = [rows[:, columns] for rows in counted]
    scenes = [replace(s, words=tuple(w for w in s.words if w.word in waking.wake)) for s in stream.scenes]
    settings = []
    for word in waking.wake:
        alone = [replace(scene, words=tuple(w for w in scene.words if w.word == word)) for scene in scenes]
        level = {word: waking.thresholds[word]}
        settings.append(setting_of(f"{word} while it sleeps", level, asleep, alone, waking.wake, waking.rule, clear))
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
