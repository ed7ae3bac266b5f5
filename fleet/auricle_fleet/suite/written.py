"""Tables of a suite as rows of text, and in the forms that papers and spreadsheets take: Markdown, CSV, LaTeX."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from auricle.wire.kinds import plain
from auricle_fleet.suite.claims import Context, claim_rows
from auricle_fleet.suite.figures import Figure, Unit
from auricle_fleet.suite.plan import Suite
from auricle_fleet.suite.prints import PaperItem
from auricle_fleet.suite.tables import Beside, Entry, Results, figures_of
from auricle_fleet.suite.targets import TargetFigure

Row = list[str]
MODELS = ("claims", "plug-in", "own", "run")
UNITS: Mapping[Unit, str] = {"share": ", %", "degrees": ", degrees"}
"""Behind a title that does not say it."""


class Table(NamedTuple):
    """A table as text."""

    title: str
    head: Row
    rows: list[Row]
    model: str = "run"
    """Of what it tells, as of `Figure.model`: accuracies of the shared plug-in and of own models stand apart."""


def shown(figure: Figure, entry: Entry, seeds: int) -> str:
    """A figure, shares in percent, with its spread, and of how many seeds where not of all."""
    if entry.mean is None:
        return "-"
    by = _scale(figure)
    text = f"{by * entry.mean:.1f}" + ("" if entry.deviation is None else f" ± {by * entry.deviation:.1f}")
    return text if len(entry.known) == seeds else f"{text} (of {len(entry.known)})"


def figure_table(suite: Suite, results: Results, figure: Figure) -> Table:
    """A figure: a method a row, a condition a column, mean and deviation of the seeds."""
    conditions = [condition.name for condition in suite.conditions]
    rows = [
        [m.name, *(shown(figure, results.entry(figure.name, m.name, c), len(suite.seeds)) for c in conditions)]
        for m in suite.methods
    ]
    return Table(f"{figure.title}{UNITS.get(figure.unit, '')}", ["method", *conditions], rows, figure.model)


def beside_table(suite: Suite, beside: Iterable[Beside], figure: Figure) -> Table:
    """What each method has more or less of a figure than the reference, pair by pair."""
    unit = "points" if figure.unit == "share" else figure.unit
    head = ["method", "condition", f"{unit} over {suite.compared_with}", "95 % interval", "better in", "p"]
    by = _scale(figure)
    rows = [
        [
            each.method,
            each.condition,
            _with_sign(by * each.mean),
            "-" if each.interval is None else " to ".join(_with_sign(by * end) for end in each.interval),
            f"{each.better} of {len(each.differences)}",
            f"{each.p:.3f}",
        ]
        for each in beside
        if each.figure == figure.name
    ]
    less = "" if figure.higher_is_better else ", less is better"
    return Table(f"{figure.title}: beside {suite.compared_with}{less}", head, rows, figure.model)


def reached_table(target: TargetFigure, results: Results) -> Table:
    """Rounds or seconds until a target: the median of the runs that got there, and how many did."""
    rows = []
    for each in (each for each in results.reached if each.figure == target.name):
        rounds = target.unit == "rounds"
        values = sorted(each.rounds if rounds else results.entry(target.name, each.method, each.condition).known)
        least, middle, most = (values[0], statistics.median(values), values[-1]) if values else (0, 0, 0)
        median = f"{middle:g} ({least} to {most})" if rounds else f"{middle:.1f} ({least:.1f} to {most:.1f})"
        rows.append([each.method, each.condition, median if values else "-", f"{len(values)} of {each.runs}"])
    head = ["method", "condition", f"{target.unit} to {100 * target.target:g} %", "reached by"]
    return Table(f"{target.title}, of the runs that reached it", head, rows, target.model)


def printed_table(suite: Suite, figure: Figure, item: PaperItem | None) -> list[Table]:
    """What the print has of a figure, a table for each thing that it is of; numbers of the print and nothing else."""
    printed = [] if item is None else [each for each in item.printed if each.figure == figure.name]
    made = []
    for of in dict.fromkeys((each.of, each.unit) for each in printed):
        columns = {each.condition: each.values for each in printed if (each.of, each.unit) == of}
        methods = [m.name for m in suite.methods if any(m.name in values for values in columns.values())]
        rows = [[m, *(f"{v[m]:g}" if m in v else "-" for v in columns.values())] for m in methods]
        title = f"{figure.title}: the print, {of[0]}, {of[1]}"
        made.append(Table(title, ["method", *columns], rows, figure.model))
    return made


def tables(suite: Suite, results: Results, context: Context = (None, ())) -> list[Table]:
    """Every table that has something to say: claims, the shared plug-in, the devices' own models, the runs.

    Parameters
    ----------
    context
        As of `claim_rows`.
    """
    claims = Table("Claims of the print", *claim_rows(suite, results, context), "claims")
    found = [claims] if suite.claims else []
    for figure in sorted(figures_of(suite), key=lambda each: MODELS.index(each.model)):
        if not any(entry.known for entry in results.entries if entry.figure == figure.name):
            continue
        if isinstance(figure, TargetFigure):
            found.append(reached_table(figure, results))
            if not any(each.rounds for each in results.reached if each.figure == figure.name):
                found += printed_table(suite, figure, context[0])
                continue
        else:
            found.append(figure_table(suite, results, figure))
        found += printed_table(suite, figure, context[0])
        beside = beside_table(suite, results.beside, figure)
        found += [beside] if beside.rows else []
    return found


def _with_sign(value: float) -> str:
    """With one decimal; nothing less is +0.0, too."""
    return f"{round(value, 1) + 0.0:+.1f}"


def _scale(figure: Figure) -> int:
    return 100 if figure.unit == "share" else 1


def markdown(table: Table) -> str:
    """A table under its title."""
    lines = [
        f"**{markdown_text(table.title)}**",
        "",
        "| " + " | ".join(markdown_text(cell) for cell in table.head) + " |",
        "|" + "---|" * len(table.head),
        *("| " + " | ".join(markdown_text(cell) for cell in row) + " |" for row in table.rows),
        "",
    ]
    return "\n".join(lines)


def markdown_text(text: str) -> str:
    """Text in a line or cell of Markdown: no part of it is HTML, or ends the cell."""
    return plain(text).replace("<", "&lt;").replace("|", "\\|")


LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
}


def latex(table: Table) -> str:
    """A table that needs no package."""
    body = [
        r"\begin{table}",
        rf"\caption{{{_tex(table.title)}}}",
        r"\begin{tabular}{l" + "r" * (len(table.head) - 1) + "}",
        r"\hline",
        " & ".join(map(_tex, table.head)) + r" \\ \hline",
        *(" & ".join(map(_tex, row)) + r" \\" for row in table.rows),
        r"\hline",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]
    return "\n".join(body)


def _tex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in plain(text))


def entry_records(suite: Suite, results: Results) -> tuple[list[str], list[dict[str, object]]]:
    """Columns and a row for each figure of each run, unrounded."""
    columns = ["figure", "method", "condition", "seed", "value"]
    records: list[dict[str, object]] = [
        {"figure": e.figure, "method": e.method, "condition": e.condition, "seed": seed, "value": value}
        for e in results.entries
        for seed, value in zip(suite.seeds, e.values, strict=True)
        if value is not None
    ]
    return columns, records
