"""A report as text of at most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from auricle.hearing.command_counts import CommandCounts
from auricle.hearing.curve import RATES, Point
from auricle.hearing.origins import Recordings
from auricle_edge.evaluate.clips import ClipAccuracy, Share
from auricle_edge.evaluate.report import (
    EVERYWHERE,
    SPEAKER_RATE,
    SPEAKER_WORDS,
    DeviceEvents,
    Events,
    Report,
    Row,
    SecondStage,
    Setting,
    in_all,
)

_NAME, _COUNT, _CELL = 13, 6, 10
_LONGEST = 66
"""Letters of a recording's name, of which the end is shown."""
WORST_RECORDINGS = 5
"""Recordings that are named, of those with most false accepts."""


def text_of(report: Report) -> str:
    """All that is stated about a listener."""
    hours = sum(report.hours.values())
    blocks = [
        [
            f"{report.name}: {report.weights:,} weights, {report.words} keywords, {hours:.2f} h without keywords",
            *_second(report.second),
        ],
        _block("hits % at false accepts an hour of all words together", report.kinds),
        _block("by word", report.by_word),
        _block("each word alone, at its own false accepts an hour", report.alone),
        _block("by the word's level over the background", report.by_snr),
        _speakers(report),
        *(_block(f"{word} while the device sleeps, at its own", rows) for word, rows in report.wake.items()),
        _device(report.device),
        *(_setting(setting) for setting in report.settings),
        _clips(report.clips),
        textwrap.wrap(report.note, 80),
        _note(report),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _second(second: SecondStage | None) -> list[str]:
    if second is None:
        return []
    return [
        f"second stage: {second.weights:,} weights, judges {second.windows.share:.1%} of the windows while it waits"
    ]


def _block(title: str, rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    head = f"{'':{_NAME}}{'words':>{_COUNT}}" + "".join(f"{rate:>{_CELL}g}" for rate in RATES)
    return [title, head, *(_line(row) for row in rows)]


def _line(row: Row) -> str:
    return f"{row.what[: _NAME - 1]:{_NAME}}{row.words:>{_COUNT}}" + "".join(_cell(point) for point in row.points)


def _cell(point: Point) -> str:
    """Share and interval in percent; a tilde where the hours cannot show such a rate."""
    low, high, share = (round(100 * value) for value in (point.interval.low, point.interval.high, point.share))
    around = f"{low}+" if share == 100 else f"{low}-{high}"
    return f"{'' if point.shown else '~'}{share} {around}".rjust(_CELL)


def _speakers(report: Report) -> list[str]:
    found = report.speakers
    if found is None:
        return []
    return [
        f"by speaker at {SPEAKER_RATE:g}/h: worst {found.worst:.0%}, median {found.median:.0%}, best {found.best:.0%}",
        f"({found.number} who say {SPEAKER_WORDS} or more)",
    ]


def _setting(setting: Setting) -> list[str]:
    levels = sorted(set(setting.thresholds.values()))
    lines = [f"as it listens, {setting.name}" + (f": threshold {levels[0]:g}" if len(levels) == 1 else "")]
    if setting.hits:
        lines.append("  hits")
        lines += [f"    {kind:{_NAME}}{_share(share)}" for kind, share in setting.hits.items()]
        lines += _around(setting.around)
        lines.append(f"    {setting.wrong} more detections there, of another word or at another time")
    if setting.clear:
        lines.append("  hits, of keywords that are right as single recordings")
        lines += [f"    {kind:{_NAME}}{_share(share)}" for kind, share in setting.clear.items()]
    if setting.false_accepts:
        lines.append("  false accepts")
        every = {**setting.false_accepts, "all": setting.all_false_accepts}
        lines += [
            f"    {kind:{_NAME}}{accepts_text(kind, events, setting.recordings)}" for kind, events in every.items()
        ]
        lines += _worst(setting.recordings)
    if setting.latency_p50 is not None and setting.latency_p95 is not None:
        p50, p95 = round(1000 * setting.latency_p50), round(1000 * setting.latency_p95)
        lines.append(f"  {p50} ms from a word's end to its detection (median), 95 % within {p95} ms")
    return lines if len(levels) == 1 else [*lines, *_levels(setting)]


def _around(found: Mapping[str, Share]) -> list[str]:
    return [f"    {name:{2 * _NAME}}{_share(share)}" for name, share in found.items()]


def _levels(setting: Setting) -> list[str]:
    found = [(word, level, setting.by_word.get(word)) for word, level in setting.thresholds.items()]
    return [
        "  thresholds",
        *(
            f"    {word:{_NAME}}{level:.4f}" + (f"  hits {_share(share)}" if share else "")
            for word, level, share in found
        ),
    ]


def _share(share: Share) -> str:
    found = share.interval
    return f"{share.share:.1%} ({100 * found.low:.0f}-{100 * found.high:.0f}) of {share.of}"


def events_text(events: Events) -> str:
    """Rate with its interval, and what it comes from; after no event only what is shown by that."""
    found = events.interval
    if not events.count:
        return f"0 in {events.hours:.2f} h: under {found.high:.1f}/h"
    return f"{events.rate:.1f}/h ({found.low:.1f}-{found.high:.1f}), {events.count} in {events.hours:.2f} h"


def accepts_text(kind: str, events: Events, recordings: Mapping[str, Recordings]) -> str:
    """What `events_text` says, and from how many of the recordings they came."""
    found = recordings.get(kind)
    said = events_text(events)
    return said if found is None or not events.count else f"{said}, {found.bad} of {found.heard} recordings"


def once_text(recordings: Recordings) -> str:
    """The rate in which each recording counts once."""
    return events_text(Events(recordings.bad, recordings.hours))


def _worst(recordings: Mapping[str, Recordings]) -> list[str]:
    """Each recording counted once, and the worst by name."""
    found = recordings.get(EVERYWHERE)
    if found is None:
        return []
    worst = list(found.false_accepts.items())[:WORST_RECORDINGS]
    return [
        f"    each recording once {once_text(found)}",
        *(f"      {number:4} x {_shorten(name)}" for name, number in worst),
    ]


def _shorten(name: str) -> str:
    return name if len(name) <= _LONGEST else f"...{name[3 - _LONGEST :]}"


def _device(device: DeviceEvents | None) -> list[str]:
    if device is None:
        return []
    said = [
        "the detector itself at the pack's own settings: a wake word, then a command",
        "  wake words heard",
        *(f"    {name:{_NAME}}{_share(share)}" for name, share in {**device.wakes, **device.wakes_by_word}.items()),
        *_around(device.wakes_around),
    ]
    said += [*_commands("noise", device.commands), *_commands("over speech", device.over_speech)]
    for what, found, recordings in (
        ("woken", device.false_wakes, device.wake_recordings),
        ("commands", device.false_commands, device.command_recordings),
    ):
        if found:
            every = {**found, "all": in_all(found)}
            said.append(f"  {what} without keywords")
            said += [f"    {kind:{_NAME}}{accepts_text(kind, events, recordings)}" for kind, events in every.items()]
            said += _worst(recordings)
    return said


def _commands(where: str, counts: CommandCounts) -> list[str]:
    """What became of commands, and of windows in which nobody said one."""
    said = []
    if counts.commands:
        said += [
            f"  commands after a wake word, {where}",
            f"    {'right':{_NAME}}{_share(Share(counts.right, counts.commands))}",
            f"    {'wrong':{_NAME}}{_share(Share(counts.wrong, counts.commands))}",
            f"    {counts.reached} were said after a wake word that was heard",
        ]
    if counts.clear:
        said.append(f"    right, of those right alone {_share(Share(counts.clear_right, counts.clear))}")
    if counts.opened:
        said.append(f"  one heard in windows without any, {where} {_share(Share(counts.false, counts.opened))}")
    return said


def _clips(clips: ClipAccuracy | None) -> list[str]:
    if clips is None:
        return []
    lines = ["single recordings", f"  {'keywords':{_NAME}}right {_share(clips.words)}"]
    for name, share in (("other words", clips.unknown), ("silence", clips.silence)):
        if share is not None and share.of:
            lines.append(f"  {name:{_NAME}}right {_share(share)}")
    return [*lines, f"  {f'{clips.classes} classes':{_NAME}}right {clips.balanced:.1%}, each class counting alike"]


def _note(report: Report) -> list[str]:
    hours = sum(report.hours.values())
    if not report.kinds:
        return ["For hits at fixed false accepts it takes recordings of keywords and sound without any."]
    named = ", ".join(f"{kind} {part:.2f} h" for kind, part in report.hours.items())
    said = f"Without keywords: {named}. 95 % intervals. {hours:.2f} h show rates from {3 / hours:.1f} an hour; "
    return textwrap.wrap(f"{said}below (~) it is a guess.", 80)
