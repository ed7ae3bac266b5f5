"""The page of an own wake word: one HTML file that needs nothing else, for a screen, a phone and paper."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence

from auricle.hearing.hits_chart import key
from auricle.hearing.intervals import Interval
from auricle.packs.manifest import HeardAt
from auricle.process.times import about, how_many
from auricle.wire.kinds import escape
from auricle_export.wakeword.curve_chart import curve_chart, scene_name
from auricle_export.wakeword.report import Negative, Threshold, TrainingSound, WakeReport

NEAR_WORDS, CONFUSIONS = 24, 12
"""How many of each are listed at the most."""
SPEAKERS = {"people": "by people", "synthetic": "by synthetic voices", "recorded": "nobody speaks"}

SOURCE = "Another phrase or another training hears more or less; docs/wake-word.md has the commands of these figures."

VOICES = (
    "A voice is a program and no person: it says a phrase in fewer ways than people do, so that a pack hears people "
    "less often than it hears voices. Styles of Kokoro are mixed, two for the timbre and two for the prosody of a take."
)
"""What it means that voices spoke."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #59636e; --rule: #d8dee4; --paper: #fff; --box: #f5f7f9;
  --one: #0b5cad; --two: #b5480a; --three: #17733b; --four: #7b3fa0; --five: #8a6d00; --six: #a3165b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --faint: #9aa4ae; --rule: #3a424b; --paper: #14181d;
  --box: #1d232a; --one: #6cb2ff; --two: #ff9b5e; --three: #66cf8a; --four: #cf9dff; --five: #e3c04c;
  --six: #ff86bd; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 1.5rem auto 3rem;
  max-width: 46rem; padding: 0 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; } p { margin: .4rem 0 .8rem; } .faint, small { color: var(--faint); }
dl.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .6rem; margin: 1rem 0; }
dl.tiles div { background: var(--box); border-radius: .5rem; padding: .6rem .8rem; }
dl.tiles dt { color: var(--faint); font-size: .85rem; } dl.tiles dd { margin: 0; font-size: 1.35rem; font-weight: 600; }
dl.tiles small { display: block; font-size: .8rem; font-weight: 400; }
aside.banner { border-left: .35rem solid var(--two); background: var(--box); padding: .6rem .9rem; margin: 1rem 0; }
aside.banner p, aside.banner ul { margin: .2rem 0 .5rem; }
figure { margin: 0; max-width: 34rem; } figure > svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--faint); font-size: 12px; } svg .rule { stroke: var(--rule); fill: none; }
svg .unknown { fill: var(--rule); opacity: .45; } svg .band { opacity: .13; }
svg .chosen { stroke: var(--ink); stroke-width: 1.2; stroke-dasharray: 4 3; fill: none; }
svg circle { stroke: var(--paper); stroke-width: 1.5; }
.key span { display: inline-block; margin-right: 1.2rem; white-space: nowrap; }
.key svg { width: 2rem; height: .7rem; vertical-align: middle; margin-right: .35rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; margin: .4rem 0 1rem; }
th, td { padding: .25rem 1rem .25rem 0; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; font-size: .9rem; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 6.5rem; max-width: 16rem; }
th.text, td.text { text-align: left; }
ul.words { margin: .4rem 0; list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem; }
ul.words li { background: var(--box); border-radius: .3rem; padding: 0 .5rem; }
pre { background: var(--box); border-radius: .5rem; padding: .7rem .8rem; font-size: .85rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
@media (max-width: 32rem) { th, td { white-space: normal; padding-right: .6rem; font-size: .88rem; }
  th:first-child, td:first-child { min-width: 4.5rem; } }
@media print { :root { --ink: #000; --faint: #444; --rule: #bbb; --paper: #fff; --box: #fff; --one: #0b5cad;
  --two: #b5480a; --three: #17733b; --four: #7b3fa0; --five: #8a6d00; --six: #a3165b; color-scheme: light; }
  body { margin: 0; max-width: none; font-size: 11pt; } .wide { overflow: visible; }
  dl.tiles div, pre, ul.words li { border: 1px solid var(--rule); }
  h2, h3 { break-after: avoid; } figure, table, dl, pre { break-inside: avoid; } }
"""


def wake_page(report: WakeReport) -> str:
    """The page as HTML: it loads nothing, runs no script, and every text of the report is escape."""
    title = " and ".join(f"“{phrase}”" for phrase in report.phrases)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="faint">{escape(_lead(report))}</p>',
        _banner(report),
        _tiles(report),
        _curve(report),
        _thresholds(report),
        _confusions(report),
        _training(report),
        _judges(report),
        _next(report),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


def _lead(report: WakeReport) -> str:
    what = "A wake word" if len(report.phrases) == 1 else how_many(len(report.phrases), "wake word")
    commands = sum(not each.is_wake for each in report.thresholds)
    after = f", and {how_many(commands, 'command')} after it" if commands else ""
    if report.vote:
        after += f"; a second model, over the network {report.vote}, votes, and every figure is of both together"
    return f"{what}{after}. Language of the voices: {report.language}. Seed {report.seed}."


def _banner(report: WakeReport) -> str:
    """Whose voices the figures below are of, and what was measured on people, where no person judged."""
    if not report.caution:
        return ""
    rows = "".join(f"<li>{escape(row.sentence)}</li>" for row in report.people)
    told = f"<p><strong>{escape(report.caution)}</strong></p><p>Of people other packs heard:</p><ul>{rows}</ul>"
    advice = f"<p>{escape(report.advice)}</p>" if report.advice else ""
    return f'<aside class="banner">{told}{advice}<small>{escape(SOURCE)}</small></aside>'


def _tiles(report: WakeReport) -> str:
    chosen, hours = report.chosen, report.hearing.hours
    tiles = [
        (f"Heard {scene_name(kind)}", f"{chosen.hits[kind]:.0%}", _of(report, chosen, kind))
        for kind in report.kinds
        if kind in chosen.hits
    ]
    accepts = report.accepts_interval
    tiles.append(
        (
            "False accepts an hour",
            f"{chosen.false_accepts_per_hour:.2f}",
            f"{report.false_accepts} in {hours:.2f} hours, {accepts.low:.2f} to {accepts.high:.2f}; "
            f"asked for: {report.rate:g}",
        )
    )
    if report.latency is not None:
        slow = f"95 of 100 within {report.latency.slowest:.2f} s"
        tiles.append(("After the word's end", f"{report.latency.median:.2f} s", slow))
    tiles.append(("Size of the pack", _size(report.size), f"{report.size:,} bytes"))
    tiles.append(("Made in", about(report.seconds), "with synthesis and judging"))
    items = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(more)}</small></dd></div>"
        for name, value, more in tiles
    )
    return f'<dl class="tiles">{"".join(items)}</dl>'


def _of(report: WakeReport, point: HeardAt, kind: str) -> str:
    by = " by synthetic voices" if report.caution else ""
    return f"of {report.spoken[kind]:,}{by}, {_range(report.interval(kind, point.hits[kind]))}"


def _range(interval: Interval) -> str:
    return f"{100 * interval.low:.0f} to {100 * interval.high:.0f} %"


def _span(interval: Interval) -> str:
    """In percent, as short as a column of a phone needs it."""
    return f"{100 * interval.low:.0f}-{100 * interval.high:.0f}"


def _size(count: int) -> str:
    return f"{count / 1_000_000:.2f} MB" if count >= 1_000_000 else f"{count / 1_000:.0f} kB"


def _curve(report: WakeReport) -> str:
    rows = [
        (f"{point.false_accepts_per_hour:g}", *(_heard(report, point, kind) for kind in report.kinds))
        for point in report.hearing.curve
    ]
    head = ("false accepts an hour", *map(scene_name, report.kinds))
    names = key(map(scene_name, report.kinds))
    return (
        "<h2>How well it hears</h2>"
        "<p>How much is heard where so many false accepts an hour are allowed: lower thresholds hear more, and are "
        "wrong more often. Around each line, and in brackets, is the 95 % interval. These hours are too few to show "
        "the shaded rates.</p>"
        f'<figure>{curve_chart(report)}<figcaption class="key">{names}</figcaption></figure>{_table(head, rows)}'
    )


def _heard(report: WakeReport, point: HeardAt, kind: str) -> str:
    if kind not in point.hits:
        return "-"
    return f"{point.hits[kind]:.1%} ({_span(report.interval(kind, point.hits[kind]))})"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: Sequence[int] = ()) -> str:
    """A table that scrolls where it is too wide; `texts` are columns, beside the first, that are no numbers."""

    def cell(tag: str, column: int, words: str) -> str:
        name = ' class="text"' if column in texts else ""
        return f"<{tag}{name}>{escape(words)}</{tag}>"

    def row(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(cell(tag, column, words) for column, words in enumerate(cells))}</tr>"

    body = "".join(row("td", cells) for cells in rows)
    return f'<div class="wide"><table>{row("th", head)}{body}</table></div>'


def _thresholds(report: WakeReport) -> str:
    head = ("word", "what it is", "threshold", "heard", "of", "95 % interval", "false accepts")
    rows = (
        (
            each.word,
            "wake word" if each.is_wake else "command",
            f"{each.threshold:.4f}",
            *_hits(each),
            "-" if each.false_accepts is None else f"{each.false_accepts:,}",
        )
        for each in report.thresholds
    )
    return (
        "<h2>Thresholds</h2><p>From this mean posterior on a word counts as heard; "
        f"<code>[detect.thresholds]</code> in a device's settings overrides it. {escape(report.threshold_sound)}</p>"
        + _table(head, rows, (1,))
    )


def _hits(each: Threshold) -> tuple[str, str, str]:
    if each.hits is None or each.interval is None:
        return "-", "-", "-"
    return f"{each.hits:,}", f"{each.spoken:,}", _span(each.interval)


def _confusions(report: WakeReport) -> str:
    if not report.confusions:
        return ""
    rows = ((each.sound, each.kind, each.word, f"{each.posterior:.3f}") for each in report.confusions[:CONFUSIONS])
    table = _table(("sound", "kind", "taken for", "posterior"), rows, (1, 2))
    return f"<h2>What it is mistaken for most</h2>{table}"


def _training(report: WakeReport) -> str:
    training = report.training
    parts = [f"<h2>What it was trained on</h2><p>{escape(_speakers(training))}</p>"]
    if training.sources:
        said = [
            (each.name, each.about, f"{each.voices:,}", f"{each.takes:,}", each.licence) for each in training.sources
        ]
        head = ("voices", "what they are", "how many", "takes of it", "licence")
        parts.append(f"<h3>Voices that said it</h3>{_table(head, said, (1, 4))}<p>{escape(VOICES)}</p>")
    if training.near_words:
        shown = training.near_words[:NEAR_WORDS]
        words = "".join(f"<li>{escape(word)}</li>" for word in shown)
        rest = f", the first {len(shown)}" if len(shown) < len(training.near_words) else ""
        parts.append(
            f'<h3>Words that sound like it ({len(training.near_words):,}{rest})</h3><ul class="words">{words}</ul>'
        )
    if training.negatives:
        rows = [*map(_negative, training.negatives), _negative_sum(training.negatives)]
        parts.append(f"<h3>Sound without it</h3>{_table(('kind', 'hours', 'by'), rows, (2,))}")
    if report.attribution:
        parts.append(f"<h3>Recordings by</h3><p>{escape('; '.join(report.attribution))}</p>")
    return "".join(parts)


def _speakers(training: TrainingSound) -> str:
    takes = f"{how_many(training.takes, 'take')} by {how_many(training.voices, 'synthetic voice')}"
    if not training.recordings:
        return f"Said in {takes}, and in no recording of people."
    return f"Said in {takes}, and in {how_many(training.recordings, 'recording')} by {_people(training.people)}."


def _people(count: int) -> str:
    return "1 person" if count == 1 else f"{count:,} people"


def _negative(negative: Negative) -> tuple[str, str, str]:
    return negative.kind, f"{negative.hours:.2f}", SPEAKERS[negative.speaker]


def _negative_sum(negatives: Sequence[Negative]) -> tuple[str, str, str]:
    return "in all", f"{sum(negative.hours for negative in negatives):.2f}", ""


def _judges(report: WakeReport) -> str:
    judges, hearing = report.judges, report.hearing
    who = [
        how_many(judges.voices, "synthetic voice") if judges.voices else "",
        _people(judges.people) if judges.people else "",
    ]
    spoken = ", ".join(f"{count:,} {scene_name(kind)}" for kind, count in report.spoken.items())
    told = (
        f"{' and '.join(filter(None, who)) or 'Voices'} that were not trained on said it {hearing.words:,} times: "
        f"{spoken}. Sound without it: {hearing.hours:.2f} hours."
    )
    return f"<h2>Who judged</h2><p>{escape(told)}</p><p>Judged by {escape(hearing.data)}.</p>"


def _next(report: WakeReport) -> str:
    """Commands that run the pack, as they are typed; docs/wake-word.md has the whole way."""
    pack, name = shlex.quote(report.pack), json.dumps(report.pack, ensure_ascii=False)
    wake = " ".join(map(shlex.quote, report.phrases))
    steps = (
        ("Run it, on this machine or a board", f"auricle edge run --device kitchen-1 --state kitchen --pack {pack}"),
        (
            "Bring it to Home Assistant, whose MQTT integration finds the device",
            f'# edge.toml\ndevice = "kitchen-1"\nstate = "kitchen"\npack = {name}\n[events]\n'
            'mqtt = "mqtts://USER:PASSWORD@homeassistant.local"\nmqtt_discovery = true',
        ),
        ("With this file", "auricle edge run --config edge.toml"),
        (
            "Let it learn with a fleet: the hub, then each device",
            "auricle cloud fleet new home --host HUB\n"
            f"auricle cloud serve --config home/coordinator.toml --pack {pack}\n"
            f"auricle edge claim --token-file TOKEN --state kitchen\nauricle edge run --state kitchen --pack {pack}",
        ),
        (
            "Let it learn your own voice: ten takes, while it runs, for the fleet's rounds and the next pack",
            f"auricle edge record {shlex.quote(report.phrases[0])} --takes 10 --state kitchen\n"
            "auricle edge clips export takes --source enrolled --state kitchen\n"
            f"{report.again or f'auricle export wakeword {wake} --out {pack}'} --voices takes",
        ),
    )
    return "<h2>Next</h2>" + "".join(f"<h3>{escape(what)}</h3><pre>{_lines(text)}</pre>" for what, text in steps)


def _lines(text: str) -> str:
    return "\n".join(map(escape, text.splitlines()))
