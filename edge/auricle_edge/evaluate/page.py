"""A report as one page that needs nothing else: curves as SVG, tables, what was judged on what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from auricle.errors import StorageError
from auricle.hearing.curve import RATES, Point
from auricle.hearing.hits_chart import HitsChart, key
from auricle.hearing.origins import Recordings
from auricle.speech.sound_faults import FindingCount
from auricle.wire.kinds import escape, plain
from auricle_edge.evaluate.files import Judgement
from auricle_edge.evaluate.report import DRAWN, EVERYWHERE, Report, Row
from auricle_edge.evaluate.tables import WORST_RECORDINGS, accepts_text, once_text, text_of

CHART = HitsChart(
    rates=(0.1, 0.5, 1, 2, 5, 10, 20, 100),
    axis="false accepts an hour (shaded: too few hours to show it)",
    width=460,
    height=280,
    left=46,
    right=18,
    top=14,
    bottom=38,
)

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #6a737d; --rule: #d8dee4; --paper: #fff;
  --one: #0b5cad; --two: #b5480a; --three: #17733b; --four: #7b3fa0; --five: #8a6d00; --six: #a3165b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --faint: #9aa4ae; --rule: #3a424b; --paper: #14181d;
  --one: #6cb2ff; --two: #ff9b5e; --three: #66cf8a; --four: #cf9dff; --five: #e3c04c; --six: #ff86bd; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; } p { max-width: 46rem; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem; } figure { margin: 0; flex: 0 1 29rem; }
figcaption { font-weight: 600; } svg { width: 100%; height: auto; } svg text { fill: var(--faint); font-size: 12px; }
svg .rule { stroke: var(--rule); } svg .unknown { fill: var(--rule); opacity: .45; }
.key span { margin-right: 1.4rem; white-space: nowrap; }
.key svg { width: 2rem; height: .7rem; vertical-align: middle; margin-right: .3rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; margin: .6rem 0 1rem; }
th, td { padding: .2rem .7rem .2rem 0; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--rule); }
th:first-child, td:first-child { text-align: left; } td small { color: var(--faint); } caption { text-align: left; }
.guess { color: var(--faint); font-style: italic; } pre { overflow-x: auto; font-size: 13px; }
"""


def write_page(judgement: Judgement, path: Path) -> None:
    """Write the page; StorageError where the file cannot be written."""
    try:
        path.write_text(page_of(judgement), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from error


def page_of(judgement: Judgement) -> str:
    """The page's HTML."""
    reports = judgement.reports
    kinds = list(dict.fromkeys(kind for report in reports for kind in report.curves))
    hours = sum(reports[0].hours.values()) if reports else 0.0
    faster = judgement.seconds / judgement.took if judgement.took else 0.0
    facts = (
        f"Pack {judgement.pack}; {judgement.part} part of the speakers, {judgement.speakers} people say keywords; "
        f"{hours:.2f} hours without keywords; seed {judgement.seed}. "
        f"{judgement.seconds / 3600:.2f} hours were heard, {faster:.0f} times faster than real time."
    )
    charts = "".join(_chart(kind, reports, hours) for kind in kinds)
    names = key(plain(report.name) for report in reports)
    parts = [
        "<h1>How well it hears</h1>",
        f"<p>{escape(facts)}</p>",
        f'<h2>Hits over false accepts an hour</h2><p class="key">{names}</p><div class="charts">{charts}</div>'
        if charts
        else "",
        *(_listener(report) for report in reports),
        _files(judgement.findings),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>How well it hears</title>'
        f"<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _files(findings: Sequence[FindingCount]) -> str:
    """What was found in files; empty where nothing was."""
    if not findings:
        return ""
    rows = "".join(
        _row(f"{each.files:,}", (each.reason if each.is_used else f"not used: {each.reason}", each.example))
        for each in findings
    )
    return f"<h2>Files</h2><table>{_row('files', ('what was found', 'the first'))}{rows}</table>"


def _chart(kind: str, reports: Sequence[Report], hours: float) -> str:
    """One kind of scene: hits over false accepts an hour, a line for each listener."""
    lines = [
        CHART.line(zip(map(float, DRAWN), report.curves[kind], strict=True), number, plain(report.name))
        for number, report in enumerate(reports)
        if kind in report.curves
    ]
    picture = CHART.svg(
        f"Hits in percent over false accepts an hour, {plain(kind)}", [CHART.shade_unknown(hours), CHART.grid(), *lines]
    )
    return f"<figure><figcaption>{escape(kind)}, hits</figcaption>{picture}</figure>"


def _listener(report: Report) -> str:
    tables = (
        ("Hits % at false accepts an hour of all words together", report.kinds),
        ("By word", report.by_word),
        ("Each word alone, at its own false accepts an hour", report.alone),
        ("By the word's level over the background", report.by_snr),
        *((f"{word} while the device sleeps, at its own false accepts", rows) for word, rows in report.wake.items()),
    )
    made = "".join(_table(title, rows) for title, rows in tables if rows)
    return (
        f"<h2>{escape(report.name)}</h2><p>{report.weights:,} weights{_second(report)}.</p>{made}"
        f"{_false_accepts(report)}"
        f"<details><summary>Everything as text</summary><pre>{_lines(text_of(report))}</pre></details>"
    )


def _second(report: Report) -> str:
    if report.second is None:
        return ""
    share = report.second.windows.share
    return f"; {report.second.weights:,} in a second stage, which judges {share:.1%} of the windows while it waits"


def _table(title: str, rows: Sequence[Row]) -> str:
    head = "".join(f"<th>{rate:g}/h</th>" for rate in RATES)
    body = "".join(
        f"<tr><td>{escape(row.what)}</td><td>{row.words}</td>{''.join(map(_cell, row.points))}</tr>" for row in rows
    )
    return (
        f'<div class="wide"><table><caption>{escape(title)}</caption>'
        f"<tr><th></th><th>words</th>{head}</tr>{body}</table></div>"
    )


def _cell(point: Point) -> str:
    guess = "" if point.shown else ' class="guess" title="too few hours to show this rate"'
    low, high = round(100 * point.interval.low), round(100 * point.interval.high)
    return f"<td{guess}>{round(100 * point.share)} <small>{low}-{high}</small></td>"


def _false_accepts(report: Report) -> str:
    if not report.hours:
        return ""
    head = "".join(f"<th>{escape(setting.name)}</th>" for setting in report.settings)
    kinds = [*report.hours, EVERYWHERE]
    body = ""
    for kind in kinds:
        body += _row(
            kind,
            [
                accepts_text(kind, s.all_false_accepts if kind == EVERYWHERE else s.false_accepts[kind], s.recordings)
                for s in report.settings
            ],
        )
    known = [s.recordings[EVERYWHERE] for s in report.settings if EVERYWHERE in s.recordings]
    if len(known) == len(report.settings):
        body += _row("each recording once", [once_text(found) for found in known])
        body += _row("worst recordings", [_worst(found) for found in known])
    return (
        '<div class="wide"><table><caption>False accepts as it listens</caption>'
        f"<tr><th></th>{head}</tr>{body}</table></div>"
    )


def _lines(text: str) -> str:
    return "\n".join(map(escape, text.splitlines()))


def _row(head: str, cells: Sequence[str]) -> str:
    return f"<tr><td>{escape(head)}</td>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _worst(recordings: Recordings) -> str:
    return "; ".join(f"{count} x {name}" for name, count in list(recordings.false_accepts.items())[:WORST_RECORDINGS])
