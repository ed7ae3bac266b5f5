"""`report.html`: one file with curves and tables that opens without a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from auricle.files import write_durably
from auricle.process.times import about, how_many
from auricle.wire.kinds import escape
from auricle_fleet.results.drawing import ticks
from auricle_fleet.results.parties import by_party
from auricle_fleet.results.report_tables import by_device, by_finding, by_group, by_round, by_word, told
from auricle_fleet.results.result import HEARD_BEFORE, DeviceRow, RoundRow, Summary, prolonged
from auricle_fleet.settings.units import duration, false_accepts, percent, size

WIDTH_PX, HEIGHT_PX, LEFT_PX, BOTTOM_PX, TOP_PX, RIGHT_PX = 720, 300, 52, 36, 14, 14
FIRST = 95
"""Width of the words below the first round, on a phone too."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5c6675; --line: #d8dde5; --paper: #ffffff; --card: #f5f7fa;
  --a: #0b62c4; --b: #c2500a; --c: #5c6675; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ecf2; --soft: #9aa5b5; --line: #39424f; --paper: #14181f;
  --card: #1d232c; --a: #6cb2ff; --b: #ffa25e; --c: #9aa5b5; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p.lead { color: var(--soft); margin-top: 0; }
.cards { display: flex; flex-wrap: wrap; gap: .7rem; }
.card { flex: 1 1 6.5rem; box-sizing: border-box; background: var(--card); border-radius: .5rem; padding: .7rem .9rem; }
.card b { display: block; font-size: 1.35rem; white-space: nowrap; }
.card span { color: var(--soft); font-size: .85rem; }
.keys { display: flex; flex-wrap: wrap; gap: 0 1.2rem; margin: 0 0 .3rem; color: var(--soft); font-size: .85rem; }
.keys i { display: inline-block; width: 1.4rem; height: .2rem; margin-right: .4rem; vertical-align: middle; }
svg { width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 12px; } .grid { stroke: var(--line); }
.scroll { overflow-x: auto; } .scroll + .scroll { margin-top: .8rem; }
td, .keys span { white-space: nowrap; } th { padding: 0 .5rem; }
@media (max-width: 40rem) { svg { overflow: visible; } svg text { font-size: 20px; } .card { flex-basis: 9rem; } }
table { border-collapse: collapse; width: 100%; font-size: .9rem; } th { text-align: right; color: var(--soft); }
td { text-align: right; border-top: 1px solid var(--line); padding: .15rem .5rem; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; } td.long { white-space: normal; }
summary { margin: .8rem 0; cursor: pointer; }
"""


def chart(
    title: str,
    series: Sequence[tuple[str, str, Sequence[tuple[float, float]]]],
    high: float,
    unit: str,
    level: tuple[str, float] | None = None,
) -> str:
    """Draw lines over rounds as SVG.

    Parameters
    ----------
    title
        Read out to those who cannot see it.
    series
        Name, CSS colour and points (round, value) of each line.
    high
        What the value axis reaches at least; it starts at 0 and ends at a round number.
    unit
        Written behind each value of the axis; `%` shows shares as percentages.
    level
        Name and height of a dashed line.
    """
    points = [p for _, _, line in series for p in line]
    last = max((x for x, _ in points), default=1.0)
    heights = ticks(0, high)
    if heights[-1] < high * (1 - 1e-9):
        heights.append(heights[-1] + heights[1] - heights[0])
    high = heights[-1]

    def x_of(x: float) -> float:
        return LEFT_PX + (WIDTH_PX - LEFT_PX - RIGHT_PX) * (x - 1) / max(1.0, last - 1)

    def y_of(y: float) -> float:
        return HEIGHT_PX - BOTTOM_PX - (HEIGHT_PX - BOTTOM_PX - TOP_PX) * min(y, high) / high

    parts = [f'<svg viewBox="0 0 {WIDTH_PX} {HEIGHT_PX}" role="img" aria-label="{escape(title)}">']
    for tick in heights:
        shown = f"{100 * tick:.0f} %" if unit == "%" else f"{tick:g} {unit}"
        y = y_of(tick)
        parts.append(f'<line class="grid" x1="{LEFT_PX}" x2="{WIDTH_PX - RIGHT_PX}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT_PX - 6}" y="{y + 4:.1f}" text-anchor="end">{shown}</text>')
    parts.append(f'<text x="{LEFT_PX}" y="{HEIGHT_PX - 12}">round 1</text>')
    for tick in sorted({t for t in map(int, ticks(1, last)) if x_of(t) >= LEFT_PX + FIRST}):
        parts.append(f'<text x="{x_of(tick):.1f}" y="{HEIGHT_PX - 12}" text-anchor="middle">{tick}</text>')
    if level is not None:
        y = y_of(level[1])
        parts.append(
            f'<line x1="{LEFT_PX}" x2="{WIDTH_PX - RIGHT_PX}" y1="{y:.1f}" y2="{y:.1f}" '
            'stroke="var(--c)" stroke-dasharray="6 5"/>'
        )
        parts.append(f'<text x="{LEFT_PX + 6}" y="{y - 5:.1f}">{escape(level[0])}</text>')
    for _, colour, line in series:
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in line)
        dots = "".join(f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="2.2" fill="{colour}"/>' for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}')
    keys = "".join(f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for name, colour, _ in series)
    return "".join([f'<p class="keys">{keys}</p>', *parts, "</svg>"])


def _points(rounds: Sequence[RoundRow], value: Callable[[RoundRow], float | None]) -> list[tuple[float, float]]:
    return [(r.round, height) for r in rounds if (height := value(r)) is not None]


def _cards(summary: Summary) -> str:
    central = summary.central_accuracy_unseen
    cards = [
        ("plug-in, unseen speakers", percent(summary.plugin_accuracy_unseen)),
        ("local models, own held-out clips", percent(summary.personal_accuracy)),
        *([("central ceiling", percent(central))] if central is not None else []),
        ("devices", f"{summary.devices:,}"),
        ("rounds", f"{summary.rounds} of {summary.rounds_planned}"),
        ("time", duration(summary.seconds)),
        ("sent up / down", f"{size(summary.bytes_up)} / {size(summary.bytes_down)}"),
    ]
    return "".join(f'<div class="card"><b>{escape(v)}</b><span>{escape(k)}</span></div>' for k, v in cards)


def _count_left_out(rounds: Sequence[RoundRow]) -> str:
    """How often the rule left each device out of a layer, over all rounds."""
    counts: dict[str, dict[str, int]] = {}
    for r in rounds:
        for layer, names in (r.left_out or {}).items():
            for name in names:
                counts.setdefault(name, {}).setdefault(layer, 0)
                counts[name][layer] += 1
    unknown = sum(r.left_out is None for r in rounds)
    note = f"<p>Not known of {how_many(unknown, 'round')} of an earlier version.</p>" if unknown else ""
    if not counts:
        return note if rounds and unknown == len(rounds) else f"<p>The rule left nobody out.</p>{note}"
    layers = sorted({layer for row in counts.values() for layer in row})
    head = "".join(f"<th>{escape(layer)}</th>" for layer in layers)
    rows = "".join(
        f"<tr><td>{escape(name)}</td>" + "".join(f"<td>{row.get(layer, 0)}</td>" for layer in layers) + "</tr>"
        for name, row in sorted(counts.items())
    )
    return f'<div class="scroll"><table><tr><th>device</th>{head}</tr>{rows}</table></div>{note}'


def _false_accepts(points: list[tuple[float, float]], summary: Summary, *, counted: bool) -> str:
    """The plug-in's false accepts by round, and what the judge refused; nothing where they are not known.

    They are `counted`, or an hour where an earlier version made some of the rounds.
    """
    if not points:
        return ""
    start = summary.start_false_accepts if counted else summary.start_false_accepts_per_hour
    unit = "" if counted else "/h"
    level = None if start is None else (f"start {start:.0f}{unit}", start)
    title = f"False accepts in {about(summary.negative_seconds or 0)}" if counted else "False accepts an hour"
    high = max([y for _, y in points] + ([] if start is None else [start])) or 1.0
    series = [("plug-in, sound without keywords", "var(--a)", points)]
    drawn = chart(f"{title} by round", series, high, unit, level)
    judged = (
        f"Devices refused {how_many(summary.refused_rounds, 'round')} "
        f"({how_many(summary.refusing_devices, 'device')}), because their models had become worse."
        if summary.judge
        else "Devices did not judge their rounds."
    )
    newest = false_accepts(summary.false_accepts, summary.negative_seconds, summary.false_accepts_per_hour)
    return f"<h2>{title}</h2>{drawn}<p>Last round: {newest}. {judged}</p>"


def render(
    summary: Summary,
    rounds: Sequence[RoundRow],
    devices: Sequence[DeviceRow] = (),
    settings: Mapping[str, object] | None = None,
) -> str:
    """The whole page; `settings` are those that differ from the defaults."""
    central = summary.central_accuracy_unseen
    accuracy = chart(
        "Accuracy by round",
        [
            ("plug-in, unseen speakers", "var(--a)", _points(rounds, lambda r: r.plugin_accuracy_unseen)),
            ("local models, mean", "var(--b)", _points(rounds, lambda r: r.personal_accuracy)),
        ],
        1.0,
        "%",
        None if central is None else (f"central {percent(central)}", central),
    )
    losses = _points(rounds, lambda r: r.inference_loss)
    loss = chart(
        "Inference loss by round",
        [("plug-in, devices' clips", "var(--a)", losses)],
        max((y for _, y in losses), default=1.0) or 1.0,
        "",
    )
    counted = all(r.false_accepts is not None for r in rounds if r.false_accepts_per_hour is not None)
    accepts = _points(rounds, lambda r: r.false_accepts if counted else r.false_accepts_per_hour)
    words = ", ".join(summary.words)
    lead = (
        f"{how_many(summary.devices, 'device')}, {how_many(summary.training_clips, 'training clip')}, method "
        f"{summary.method}, preset {summary.preset}, seed {summary.seed}. Judged on "
        f"{how_many(summary.unseen_clips, 'clip')} of {how_many(summary.unseen_speakers, 'speaker')} no device has."
        + (f" {HEARD_BEFORE}" if summary.heard_before else "")
        + (" Interrupted." if summary.interrupted else "")
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Auricle fleet run</title>'
        f"<style>{STYLE}</style></head><body><h1>Fleet run</h1><p class='lead'>{escape(lead)}</p>"
        f'<div class="cards">{_cards(summary)}</div><h2>Accuracy</h2>{accuracy}<h2>Inference loss</h2>{loss}'
        f"{_false_accepts(accepts, summary, counted=counted)}<h2>Words</h2><p>{escape(words)}</p>"
        f"{by_finding(summary.findings)}"
        f"{by_word(summary.words, summary.confusion)}{by_party(rounds)}"
        f"{by_device(devices)}{by_group(devices, len(rounds))}"
        f"<h2>Left out of a layer, rounds</h2>{_count_left_out(rounds)}<h2>Rounds</h2>{by_round(rounds)}"
        f"{told(settings, prolonged(rounds))}</body></html>\n"
    )


def write_report(
    folder: Path,
    summary: Summary,
    rounds: Sequence[RoundRow],
    devices: Sequence[DeviceRow] = (),
    settings: Mapping[str, object] | None = None,
) -> Path:
    """Write `report.html` into a run's folder and return its path."""
    path = folder / "report.html"
    write_durably(path, render(summary, rounds, devices, settings).encode())
    return path
