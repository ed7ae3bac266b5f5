"""What a suite leaves: one page that opens without a network, tables as Markdown, LaTeX, CSV and JSON, pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from auricle.errors import StorageError
from auricle.files import describe, write_durably
from auricle.process.times import how_many
from auricle.wire.kinds import escape, plain
from auricle_fleet.results.metrics import write_csv
from auricle_fleet.results.png import png_of, why_not
from auricle_fleet.results.report import STYLE
from auricle_fleet.suite.claims import methods_alike
from auricle_fleet.suite.curves import Picture, pictures
from auricle_fleet.suite.folder import Ended
from auricle_fleet.suite.plan import Suite
from auricle_fleet.suite.prints import find_item
from auricle_fleet.suite.record import Size, SuiteRecord, Tuned, machine, versions
from auricle_fleet.suite.tables import Results
from auricle_fleet.suite.written import MODELS, Table, entry_records, latex, markdown, markdown_text, tables

FIGURES = "figures"
"""Folder of the pictures."""
HEADINGS = {
    "claims": "What is claimed",
    "plug-in": "The shared plug-in",
    "own": "The devices' own models",
    "run": "The runs",
}
HOW_TO_READ = (
    "Mean and standard deviation of the seeds. Beside the reference: the same condition, seed, devices and clips in "
    "each pair; the interval holds the mean difference with 95 % (Student's t of the pairs), p is that of the "
    "sign-flip test, with three seeds 0.25 at the least, with five 0.063. Curves are the mean of the seeds, and from "
    "the least to the most."
)
CSS = """
.drawn { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; margin: 1rem 0; }
.drawn svg { width: auto; max-width: 100%; border: 1px solid var(--line); border-radius: .4rem; overflow: hidden; }
h3 { font-size: 1rem; margin: 1.6rem 0 .3rem; } code { white-space: pre-wrap; overflow-wrap: anywhere; }
"""


@dataclass(frozen=True)
class Shown:
    """Everything that a suite's page is made of."""

    name: str
    suite: Suite
    ended: Sequence[Ended]
    results: Results
    failed: Mapping[str, str]
    """Why a run failed, by its name."""
    tuned: Sequence[Tuned]
    """What each method tried, and kept."""
    command: str
    """That made it."""
    size: Size = "small"
    packs: Sequence[str] = ()
    """What the packs are that it built for itself."""

    @cached_property
    def record(self) -> SuiteRecord:
        """What `results.json` says."""
        suite = self.suite
        return SuiteRecord(
            name=self.name,
            about=suite.about,
            size=self.size,
            command=self.command,
            versions=versions(),
            machine=machine(),
            seeds=suite.seeds,
            methods=tuple(method.name for method in suite.methods),
            conditions=tuple(condition.name for condition in suite.conditions),
            reference=suite.compared_with,
            target=suite.target,
            target_figure=suite.target_figure,
            target_seconds=suite.target_seconds,
            target_devices=suite.target_devices,
            setting=None if suite.tuning is None else suite.tuning.setting,
            tuned=tuple(self.tuned),
            tables=self.results,
            failed=dict(self.failed),
            packs=tuple(self.packs),
        )

    def lead(self) -> str:
        """How much of it there is."""
        suite = self.suite
        planned = len(suite.methods) * len(suite.conditions) * len(suite.seeds)
        return (
            f"{how_many(len(suite.methods), 'method')} in {how_many(len(suite.conditions), 'condition')}, seeds "
            f"{', '.join(map(str, suite.seeds))}, {self.size} size: {len(self.ended)} of {planned} runs have ended."
            + (f" Packs of its own: {', '.join(self.packs)}." if self.packs else "")
        )

    def made_by(self) -> str:
        """With what versions, on what machine."""
        said = ", ".join(f"{name} {number}" for name, number in self.record.versions.items())
        return f"Made with {said} on {self.record.machine.cores} cores ({self.record.machine.processor}) by:"

    def tuning(self) -> Table:
        """The grid: what each method tried, and kept."""
        rows = [[each.method, each.tries(), each.kept] for each in self.tuned]
        told, title = self.suite.tuning, "Tuned"
        if told is not None:
            length = "" if told.rounds is None else f", {told.rounds} rounds"
            title = f'Tuned: {told.setting}, on seed {told.seed} in "{self.suite.conditions[0].name}"{length}'
        return Table(title, ["method", "tried", "kept"], rows)


def write_shown(folder: Path, what: Shown) -> Path:
    """Write all of it into a folder; the page's path. StorageError where it cannot be written."""
    drawn = pictures(what.suite, what.ended, what.results)
    _write_pictures(folder / FIGURES, drawn)
    context = find_item(what.name), methods_alike(what.tuned)
    made = tables(what.suite, what.results, context)
    every = [*made, *([what.tuning()] if what.tuned else [])]
    said = (markdown_text(part) for part in (what.name, what.suite.about, what.lead(), what.made_by()))
    intro = "# " + "\n\n".join([*said, f"    {plain(what.command)}", ""])
    write_durably(folder / "tables.md", (intro + "\n".join(map(markdown, every))).encode())
    write_durably(folder / "tables.tex", "\n".join(map(latex, every)).encode())
    write_csv(folder / "tables.csv", *entry_records(what.suite, what.results))
    write_durably(folder / "results.json", what.record.as_json())
    path = folder / "suite.html"
    write_durably(path, _page(what, made, drawn).encode())
    return path


def _write_pictures(folder: Path, drawn: Sequence[Picture]) -> None:
    """Each as SVG, and as PNG where that can be; those of before are removed."""
    has_png = not why_not()
    try:
        folder.mkdir(exist_ok=True)
        for before in (*folder.glob("*.svg"), *folder.glob("*.png")):
            before.unlink()
    except OSError as error:
        raise StorageError(describe(error, folder)) from error
    for picture in drawn:
        write_durably(folder / f"{picture.name}.svg", picture.svg.encode())
        if has_png:
            write_durably(folder / f"{picture.name}.png", png_of(picture.svg))


def _page(what: Shown, made: Sequence[Table], drawn: Sequence[Picture]) -> str:
    parts = [f"<p>{HOW_TO_READ}</p>"]
    for model in MODELS:
        told = [f"<h3>{escape(each.title)}</h3>{_table(each)}" for each in made if each.model == model]
        shown = "".join(picture.svg for picture in drawn if picture.model == model)
        if told or shown:
            parts += [f"<h2>{HEADINGS[model]}</h2>", *told, f'<div class="drawn">{shown}</div>' if shown else ""]
    if what.tuned:
        parts.append(f"<h2>{escape(what.tuning().title)}</h2>{_table(what.tuning())}")
    if what.failed:
        failed = Table("", ["run", "why"], [[name, why] for name, why in sorted(what.failed.items())])
        parts.append(f"<h2>Runs that failed</h2>{_table(failed)}")
    parts.append(f"<h2>How it was made</h2><p>{escape(what.made_by())}</p><p><code>{escape(what.command)}</code></p>")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(what.name)}</title><style>{STYLE}{CSS}</style></head><body><h1>{escape(what.name)}</h1>"
        f"<p class='lead'>{escape(what.suite.about)}</p><p>{escape(what.lead())}</p>{''.join(parts)}"
        "</body></html>\n"
    )


def _table(table: Table) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in table.head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return f'<div class="scroll"><table><tr>{top}</tr>{body}</table></div>'
