"""A report as JSON and as CSV: every figure with its interval and what it was counted from."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from auricle.errors import StorageError
from auricle.hearing.command_counts import CommandCounts
from auricle.hearing.intervals import Interval
from auricle.hearing.origins import Recordings
from auricle.speech.sound_faults import FindingCount
from auricle_edge.evaluate.clips import Share
from auricle_edge.evaluate.report import DRAWN, EVERYWHERE, DeviceEvents, Events, Report, Setting
from auricle_edge.listening.detect.rules import thresholds_table


@dataclass(frozen=True)
class Judgement:
    """What was judged on what, and by whom."""

    pack: str
    part: str
    seed: int
    speakers: int
    seconds: float
    """Of sound."""
    took: float
    """Seconds that listening to it took, by all listeners together."""
    reports: tuple[Report, ...]
    findings: tuple[FindingCount, ...] = ()
    """Files that could not be used, or not as they stand, by reason."""


COLUMNS = ("listener", "table", "what", "counted", "of", "rate", "value", "low", "high", "shown")


def as_json(judgement: Judgement) -> str:
    """Everything, on one line; a number that is not there is null."""
    facts = {**asdict(judgement), "curve_rates": [round(float(rate), 4) for rate in DRAWN]}
    for report, made in zip(facts["reports"], judgement.reports, strict=True):
        for setting, whole in zip(report["settings"], made.settings, strict=True):
            setting["false_accepts_an_hour"] = {
                kind: {"rate": events.rate, **asdict(events.interval)} for kind, events in whole.false_accepts.items()
            }
            setting["each_recording_once_an_hour"] = _once(whole.recordings)
        if made.device is not None:
            report["device"]["false_wakes_each_recording_once"] = _once(made.device.wake_recordings)
            report["device"]["false_commands_each_recording_once"] = _once(made.device.command_recordings)
        if made.clips is not None:
            report["clips"]["balanced"] = made.clips.balanced
    return json.dumps(_finite(facts), allow_nan=False)


def _once(recordings: Mapping[str, Recordings]) -> dict[str, dict[str, float]]:
    return {kind: {"rate": found.rate, **asdict(found.interval)} for kind, found in recordings.items()}


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_csv(judgement: Judgement, path: Path) -> None:
    """Every figure as a row; StorageError where the file cannot be written."""
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows(row for report in judgement.reports for row in _rows(report))
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from error


_Row = tuple[str, str, str, int | str, float | str, float | str, float, float, float, str]


def _rows(report: Report) -> Iterator[_Row]:
    tables = {
        "kind": report.kinds,
        "word": report.by_word,
        "word alone": report.alone,
        "snr": report.by_snr,
        **{f"{word} asleep": rows for word, rows in report.wake.items()},
    }
    for table, rows in tables.items():
        for row in rows:
            for p in row.points:
                low, high = p.interval.low, p.interval.high
                yield (report.name, table, row.what, "", row.words, p.rate, p.share, low, high, str(p.shown).lower())
    for setting in report.settings:
        yield from _of_setting(report.name, setting)
    if report.second is not None:
        yield _share(report.name, "second stage", "windows", report.second.windows)
    if report.device is not None:
        yield from _of_device(report.name, report.device)
    if report.clips is not None:
        yield _share(report.name, "recordings", "keywords", report.clips.words)
        for name, share in (("other words", report.clips.unknown), ("silence", report.clips.silence)):
            if share is not None and share.of:
                yield _share(report.name, "recordings", name, share)


def _of_setting(listener: str, setting: Setting) -> Iterator[_Row]:
    for kind, share in setting.hits.items():
        yield _share(listener, f"hits, {setting.name}", kind, share)
    for kind, share in setting.around.items():
        yield _share(listener, f"hits by level, {setting.name}", kind, share)
    for kind, share in setting.clear.items():
        yield _share(listener, f"hits of those right alone, {setting.name}", kind, share)
    for kind, events in setting.false_accepts.items():
        yield _events(listener, f"false accepts an hour, {setting.name}", kind, events)
    yield from _recordings(listener, f"false accepts, {setting.name}", setting.recordings)
    for word, level in setting.thresholds.items():
        yield (listener, f"threshold, {setting.name}", word, "", "", "", level, level, level, "true")


def _of_device(listener: str, device: DeviceEvents) -> Iterator[_Row]:
    for kind, share in {**device.wakes, **device.wakes_by_word}.items():
        yield _share(listener, "wake words, own settings", kind, share)
    for kind, share in device.wakes_around.items():
        yield _share(listener, "wake words by level, own settings", kind, share)
    yield from _commands(listener, "commands, own settings", device.commands)
    yield from _commands(listener, "commands over speech, own settings", device.over_speech)
    for what, found, recordings in (
        ("wakes", device.false_wakes, device.wake_recordings),
        ("commands", device.false_commands, device.command_recordings),
    ):
        for kind, events in found.items():
            yield _events(listener, f"false {what} an hour, own settings", kind, events)
        yield from _recordings(listener, f"false {what}, own settings", recordings)


def _commands(listener: str, table: str, counts: CommandCounts) -> Iterator[_Row]:
    for what, right, of in (
        ("right", counts.right, counts.commands),
        ("wrong", counts.wrong, counts.commands),
        ("none said, one heard", counts.false, counts.opened),
        ("right, of those right alone", counts.clear_right, counts.clear),
    ):
        if of:
            yield _share(listener, table, what, Share(right, of))


def _recordings(listener: str, what: str, recordings: Mapping[str, Recordings]) -> Iterator[_Row]:
    for kind, found in recordings.items():
        yield _share(listener, f"recordings with {what}", kind, Share(found.bad, found.heard))
        yield _events(listener, f"each recording once, {what}", kind, Events(found.bad, found.hours))
    every = recordings.get(EVERYWHERE)
    for name, count in every.false_accepts.items() if every else ():
        yield (listener, f"by recording, {what}", name, count, "", "", count, math.nan, math.nan, "true")


def _share(listener: str, table: str, what: str, share: Share) -> _Row:
    found: Interval = share.interval
    return (listener, table, what, share.right, share.of, "", share.share, found.low, found.high, "true")


def _events(listener: str, table: str, what: str, events: Events) -> _Row:
    found = events.interval
    hours = round(events.hours, 4)
    return (listener, table, what, events.count, hours, "", events.rate, found.low, found.high, "true")


def settings_for(reports: Sequence[Report]) -> str:
    """Lines for edge.toml: the thresholds of the first listener's last setting, where there was sound enough."""
    if not reports or reports[0].note:
        return ""
    chosen = reports[0].settings[-1].thresholds
    return thresholds_table({word: f"{math.ceil(level * 1e4) / 1e4:.4f}" for word, level in chosen.items()})
