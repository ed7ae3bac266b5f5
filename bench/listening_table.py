"""The listening bench's figures as text of at most 80 columns."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Callable, Iterator, Sequence

from auricle.hearing.intervals import rate_interval, share_interval
from bench.listening_differences import by_owner, of_fleets
from bench.listening_fleet import above_the_start
from bench.listening_judging import LISTENERS, RATES
from bench.listening_result import DEVICE, PLUGIN, SIDES, AtRate, AtThresholds, Fleet, Side

WIDTH = 80
_NAME, _CELL = 22, 17


def report(fleets: Sequence[Fleet]) -> str:
    """A part for each share of answers: all its fleets together, then each by day and by round."""
    shares = dict.fromkeys(fleet.answers for fleet in fleets)
    return "\n\n".join(_part([fleet for fleet in fleets if fleet.answers == share]) for share in shares)


def _part(fleets: Sequence[Fleet]) -> str:
    blocks = [
        _about(fleets),
        _rates(fleets),
        _differences(fleets),
        _thresholds(fleets),
        *(block for fleet in fleets for block in (_days(fleet), _rounds(fleet), _cost(fleet))),
    ]
    return "\n\n".join("\n".join(block) for block in blocks)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH)


def _about(fleets: Sequence[Fleet]) -> list[str]:
    fleet, asked = fleets[0], fleets[0].asked
    hours = sum(fleet.sides[0].kept.hours.values())
    seeds = ", ".join(str(each.seed) for each in fleets)
    answers = "every detection and every miss" if fleet.answers >= 1 else f"{fleet.answers:g} of them, at random"
    rate = "" if asked.server_rate is None else f", the server's rate {asked.server_rate:g}"
    return [
        f"{asked.pack}, {asked.owners} owners, {asked.days} days, {asked.rounds} rounds; seeds {seeds}",
        *_wrapped(
            f"owners answer {answers}; own model {asked.local}; carried {asked.carried:g}; "
            f"rounds judged on {asked.judge}; preset {asked.preset}{rate}"
        ),
        *_wrapped(
            f"Days (minutes of recordings): {_minutes(fleet.heard)}; words of gsc by people without a device, speech "
            "of stream, noises of the train part."
        ),
        *_wrapped(
            f"Judge: {_minutes(fleet.judged_by)}; words of gsc-more (test part, nobody of gsc) and fsdd, speech of "
            "stream-more (test), languages of arabic (test and validation), noises of the test part; "
            f"{fleet.sides[0].kept.words} keywords and {hours:.2f} h without a fleet, drawn for each owner."
        ),
    ]


def _minutes(found: dict[str, float]) -> str:
    return ", ".join(f"{kind} {minutes:.1f}" for kind, minutes in found.items() if minutes)


def _row(name: str, cells: Sequence[str]) -> str:
    return f"{name:{_NAME}}" + "".join(f"{cell:>{_CELL}}" for cell in cells)


def _rates(fleets: Sequence[Fleet]) -> list[str]:
    around = "(95 %)" if len(fleets) == 1 else f"(least to most of {len(fleets)} fleets)"
    lines = [
        f"hits % at equal false accepts an hour of all devices {around}",
        _row("", [f"{rate:g}/h" for rate in RATES]),
    ]
    for when, listener in _named():
        points = [fleet.side(when, listener).points for fleet in fleets]
        lines.append(_row(f"{when}: {listener}", [_at([each[i] for each in points]) for i in range(len(RATES))]))
    for when in SIDES:
        lines += _wrapped(f"{when}, {DEVICE}: {_models([fleet.side(when, DEVICE) for fleet in fleets])}")
    if not all(point.shown for point in fleets[0].sides[0].points):
        lines.append("~: too few hours to show such a rate")
    return lines


def _named() -> Iterator[tuple[str, str]]:
    yield from ((when, listener) for when in SIDES for listener in LISTENERS)


def _at(found: Sequence[AtRate]) -> str:
    shown = "" if all(point.shown for point in found) else "~"
    low, high = (found[0].low, found[0].high) if len(found) == 1 else _range([point.share for point in found])
    return f"{shown}{100 * statistics.mean(point.share for point in found):.1f} ({100 * low:.0f}-{100 * high:.0f})"


def _range(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _models(sides: Sequence[Side]) -> str:
    names = dict.fromkeys(name for side in sides for name in side.models)
    return ", ".join(f"{name} on {sum(side.models.get(name, 0) for side in sides)} devices" for name in names)


def _differences(fleets: Sequence[Fleet]) -> list[str]:
    lines = ["after less before, owner by owner: points (95 %), owners better / worse"]
    lines.append(_row("", [f"{rate:g}/h" for rate in RATES]))
    for listener in LISTENERS:
        found = [by_owner(fleets, listener, place) for place in range(len(RATES))]
        cells = [f"{100 * d.mean:+.1f} ({100 * d.low:+.0f} {100 * d.high:+.0f})" for d in found]
        lines.append(_row(listener, cells))
        lines.append(_row("", [f"{d.better} / {d.worse} of {d.owners}" for d in found]))
    if len(fleets) > 1:
        lines.append("fleet by fleet: mean (least to most)")
        for listener in LISTENERS:
            each = [of_fleets(fleets, listener, place) for place in range(len(RATES))]
            lines.append(_row(listener, [_points(values) for values in each]))
    return lines


def _points(values: Sequence[float]) -> str:
    low, high = _range(values)
    return f"{100 * statistics.mean(values):+.1f} ({100 * low:+.0f} {100 * high:+.0f})"


def _thresholds(fleets: Sequence[Fleet]) -> list[str]:
    lines = [
        "at the thresholds they listen with (plug-in: the pack's), what a user meets",
        f"{'':{_NAME}}{'hits % (95 %)':>17}{'wrong %':>9}{'false accepts/h (95 %)':>24}{'p50 ms':>8}",
    ]
    for when, listener in _named():
        lines.append(_kept(f"{when}: {listener}", [fleet.side(when, listener).kept for fleet in fleets]))
    return lines


def _kept(name: str, found: Sequence[AtThresholds]) -> str:
    hits, words, wrong, accepts = (sum(map(get, found)) for get in _COUNTS)
    hours = sum(sum(each.hours.values()) for each in found)
    of, rate = share_interval(hits, words), rate_interval(accepts, hours)
    heard = f"{100 * hits / words:.1f} ({100 * of.low:.0f}-{100 * of.high:.0f})"
    often = f"{accepts / hours:.1f} ({rate.low:.1f}-{rate.high:.1f})"
    late = [each.latency_p50 for each in found if each.latency_p50 is not None]
    p50 = f"{1000 * statistics.median(late):.0f}" if late else "-"
    return f"{name:{_NAME}}{heard:>17}{100 * wrong / words:>9.1f}{often:>24}{p50:>8}"


_COUNTS: tuple[Callable[[AtThresholds], int], ...] = (
    lambda found: found.hits,
    lambda found: found.words,
    lambda found: found.wrong,
    lambda found: found.accepts,
)


def _days(fleet: Fleet) -> list[str]:
    lines = [
        f"seed {fleet.seed}, day by day, at these thresholds: hits %, false accepts/h",
        f"{'':6}{'rounds':>7}{'that day':>18}{'judged: plug-in':>22}{'judged: as it listens':>25}",
    ]
    for day in fleet.by_day:
        met = "-"
        if day.hours and day.words:
            met = f"{100 * day.hits / day.words:.1f}, {day.false_accepts / day.hours:.1f}"
        cells = [_both(day.judged[name]) for name in (PLUGIN, DEVICE)]
        name = f"day {day.day}" if day.hours else "end"
        lines.append(f"{name:6}{day.after_rounds:>7}{met:>18}{cells[0]:>22}{cells[1]:>25}")
    above, _ = above_the_start(fleet)
    said = ", ".join("the end" if number == len(fleet.by_day) else f"day {number}" for number in above)
    return [*lines, f"above the start's false accepts, as it listens: {said or 'no day'}"]


def _both(found: AtThresholds) -> str:
    return f"{100 * found.share:.1f}, {found.per_hour:.1f}"


def _rounds(fleet: Fleet) -> list[str]:
    judged = fleet.by_round[0].judged
    lines = [
        f"seed {fleet.seed}, published plug-ins at the pack's thresholds, on {judged.words} words and "
        f"{sum(judged.hours.values()):.2f} h",
        f"{'round':>6}{'counted':>9}{'refused':>9}{'seconds':>9}{'hits %':>9}{'false accepts/h':>17}",
    ]
    for each in fleet.by_round:
        counted = f"{each.counted}/{each.invited}" if each.number else "-"
        found = each.judged
        lines.append(
            f"{each.number:>6}{counted:>9}{each.refused:>9}{each.seconds:>9.1f}{100 * found.share:>9.1f}"
            f"{found.per_hour:>17.1f}"
        )
    _, above = above_the_start(fleet)
    return [*lines, *_wrapped(f"above the start's false accepts: {_rounds_said(above, len(fleet.by_round) - 1)}")]


def _rounds_said(above: Sequence[int], rounds: int) -> str:
    if not above:
        return "no round"
    return f"{len(above)} of {rounds} rounds: {', '.join(map(str, above))}"


def _cost(fleet: Fleet) -> list[str]:
    cost = fleet.cost
    parts = ", ".join(f"{name} {cost.wall[name]:.0f} s ({cost.cpu[name]:.0f} s CPU)" for name in cost.wall)
    return _wrapped(f"seed {fleet.seed}: {parts}; load {cost.load_before:.2f} before, {cost.load_after:.2f} after")
