"""Tables of a suite as rows of text, and in the forms that papers and spreadsheets take: Markdown, CSV, LaTeX."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from auricle_fleet.suite.claims import claim_rows
from auricle_fleet.suite.plan import Suite
from auricle_fleet.suite.tables import FIGURES, Beside, Entry, Figure, Reached, Results

Row = list[str]


def shown(entry: Entry, seeds: int) -> str:
    """A figure in percent, with its spread, and of how many seeds where not of all."""
    if entry.mean is None:
        return "-"
    text = f"{100 * entry.mean:.1f}" + ("" if entry.deviation is None else f" ± {100 * entry.deviation:.1f}")
    return text if len(entry.known) == seeds else f"{text} (of {len(entry.known)})"


def figure_rows(suite: Suite, results: Results, figure: Figure) -> tuple[Row, list[Row]]:
    """Head and rows of a figure: a method a row, a condition a column, percent, mean and deviation of the seeds."""
    conditions = [condition.name for condition in suite.conditions]
    rows = [
        [m.name, *(shown(results.entry(figure.name, m.name, c), len(suite.seeds)) for c in conditions)]
        for m in suite.methods
    ]
    return ["method", *conditions], rows


def beside_rows(suite: Suite, beside: Iterable[Beside]) -> tuple[Row, list[Row]]:
    """Head and rows of what each method gains or loses beside the reference, in points."""
    head = ["figure", "method", "condition", f"points over {suite.compared_with}", "better in", "p"]
    rows = [
        [
            each.figure,
            each.method,
            each.condition,
            f"{100 * each.mean:+.1f} ({100 * min(each.differences):+.1f} to {100 * max(each.differences):+.1f})",
            f"{each.better} of {len(each.differences)}",
            f"{each.p:.3f}",
        ]
        for each in beside
    ]
    return head, rows


def reached_rows(suite: Suite, reached: Iterable[Reached]) -> tuple[Row, list[Row]]:
    """Head and rows of the rounds until the target: the median of the runs that got there, and how many did."""
    assert suite.target is not None
    rows = []
    for each in reached:
        rounds = sorted(each.rounds)
        median = "-" if not rounds else f"{statistics.median(rounds):g} ({rounds[0]} to {rounds[-1]})"
        rows.append([each.method, each.condition, median, f"{len(rounds)} of {each.runs}"])
    return ["method", "condition", f"rounds to {100 * suite.target:.0f} %", "reached by"], rows


def tables(suite: Suite, results: Results) -> list[tuple[str, Row, list[Row]]]:
    """Title, head and rows of every table that has something to say."""
    found = [("Claims of the print", *claim_rows(suite, results))] if suite.claims else []
    found += [
        (f"{figure.title}, %", *figure_rows(suite, results, figure))
        for figure in FIGURES
        if any(entry.known for entry in results.entries if entry.figure == figure.name)
    ]
    if results.beside:
        found.append((f"Beside {suite.compared_with}", *beside_rows(suite, results.beside)))
    if suite.target is not None and any(each.runs for each in results.reached):
        found.append(("Rounds to the target", *reached_rows(suite, results.reached)))
    return found


def markdown(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table under its title."""
    lines = [
        f"**{title}**",
        "",
        "| " + " | ".join(_bar(cell) for cell in head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(_bar(cell) for cell in row) + " |" for row in rows),
        "",
    ]
    return "\n".join(lines)


def _bar(text: str) -> str:
    return text.replace("|", "\\|")


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


def latex(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that needs no package."""
    body = [
        r"\begin{table}",
        rf"\caption{{{_tex(title)}}}",
        r"\begin{tabular}{l" + "r" * (len(head) - 1) + "}",
        r"\hline",
        " & ".join(map(_tex, head)) + r" \\ \hline",
        *(" & ".join(map(_tex, row)) + r" \\" for row in rows),
        r"\hline",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]
    return "\n".join(body)


def _tex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


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
