"""What a suite leaves: one page that opens without a network, tables as Markdown, LaTeX and CSV, curves as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from auricle import __version__
from auricle.files import write_durably
from auricle.wire.kinds import escaped
from auricle_fleet.results.metrics import write_csv
from auricle_fleet.results.report import STYLE
from auricle_fleet.suite.curves import curves
from auricle_fleet.suite.folder import Ended
from auricle_fleet.suite.plan import Suite, plain_name
from auricle_fleet.suite.tables import FIGURES, Results
from auricle_fleet.suite.tuning import Tuned
from auricle_fleet.suite.written import entry_records, latex, markdown, tables


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

    def lead(self) -> str:
        """How much of it there is, and what made it."""
        planned = len(self.suite.methods) * len(self.suite.conditions) * len(self.suite.seeds)
        seeds = ", ".join(map(str, self.suite.seeds))
        return (
            f"{len(self.suite.methods)} methods in {len(self.suite.conditions)} conditions, seeds {seeds}: "
            f"{len(self.ended)} of {planned} runs have ended. Auricle {__version__}, made by: {self.command}"
        )


TUNED = ["method", "tried", "kept"]


def write_shown(folder: Path, what: Shown) -> Path:
    """Write all of it into a folder; the page's path. StorageError where it cannot be written."""
    drawn = [
        (f"{figure.name}-{plain_name(condition.name)}", f"{figure.title}, {condition.name}", svg)
        for figure in FIGURES
        for condition in what.suite.conditions
        if (svg := curves(what.suite, what.ended, condition.name, figure)) is not None
    ]
    for name, _, svg in drawn:
        write_durably(folder / f"{name}.svg", svg.encode())
    made = tables(what.suite, what.results)
    if what.tuned:
        setting = what.suite.tuning.setting if what.suite.tuning is not None else ""
        made.append((f"Tuned on a seed of its own: {setting}", TUNED, [each.row() for each in what.tuned]))
    intro = f"# {what.name}\n\n{what.suite.about}\n\n{what.lead()}\n\n"
    write_durably(folder / "tables.md", (intro + "\n".join(markdown(*table) for table in made)).encode())
    write_durably(folder / "tables.tex", "\n".join(latex(*table) for table in made).encode())
    write_csv(folder / "tables.csv", *entry_records(what.suite, what.results))
    path = folder / "suite.html"
    write_durably(path, _page(what, made, drawn).encode())
    return path


def _page(
    what: Shown,
    made: Sequence[tuple[str, list[str], list[list[str]]]],
    drawn: Sequence[tuple[str, str, str]],
) -> str:
    parts = [f"<h2>{escaped(title)}</h2>{_table(head, rows)}" for title, head, rows in made]
    parts.append(
        "<p>Mean and standard deviation of the seeds. Beside the reference: the same condition, seed, devices, clips "
        "in each pair; p is that of the sign-flip test, with three seeds 0.25 at the least, with five 0.063.</p>"
    )
    parts += (f"<h2>{escaped(title)}</h2>{svg}" for _, title, svg in drawn)
    if what.failed:
        rows = [[name, why] for name, why in sorted(what.failed.items())]
        parts.append(f"<h2>Runs that failed</h2>{_table(['run', 'why'], rows)}")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escaped(what.name)}</title><style>{STYLE}</style></head><body><h1>{escaped(what.name)}</h1>"
        f"<p class='lead'>{escaped(what.suite.about)}</p><p>{escaped(what.lead())}</p>{''.join(parts)}"
        "</body></html>\n"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escaped(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{top}</tr>{body}</table></div>'
