"""docs/reliability.md: what must survive what, and the tests that show it, collected from the suite.

Each row of `tools/reliability.toml` has the tests that carry its marker, `@pytest.mark.reliability("F1", load="...")`.
Figures are those of the last run that recorded them: `pytest -m reliability --record docs/reliability.json`.

    python tools/reliability_page.py [--check]

A row is held where each of its tests is recorded, each figure that `limits` of `tools/reliability.toml` names is
inside, and some run was as large as `sizes` says; where a figure is outside or a test failed it is MISSED.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.reliability_verdict import HELD, SUMS, LimitError, Verdict, is_skipped, judge, runs

ROOT = Path(__file__).parents[1]
PAGE, ROWS, RECORDED = ROOT / "docs/reliability.md", ROOT / "tools/reliability.toml", ROOT / "docs/reliability.json"
Recorded = Mapping[str, Mapping[str, Any]]
"""By test, what `--record` wrote (`tests/recorder.py`)."""
PARTS = {
    "L": "Load",
    "F": "Faults",
    "C": "Content",
    "S": "Security",
    "U": "Versions",
}


@dataclass(frozen=True)
class Shown:
    """A test that shows a row."""

    row: str
    test: str
    """File and name, as pytest takes them."""
    load: str
    slow: bool


class MarkerError(Exception):
    """A marker that says no row there is, or not in plain words."""


def shown(path: Path) -> Iterator[Shown]:
    """The markers of a test file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    whole = any(
        isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node.targets[0]) and "slow" in ast.unparse(node)
        for node in tree.body
    )
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = [ast.unparse(decorator) for decorator in node.decorator_list]
            slow = whole or any(mark.startswith("pytest.mark.slow") for mark in marks)
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.reliability":
                    yield from _marked(decorator, f"{path.relative_to(ROOT).as_posix()}::{node.name}", slow)


def _marked(marker: ast.Call, test: str, slow: bool) -> Iterator[Shown]:
    try:
        rows = [ast.literal_eval(row) for row in marker.args]
        options = {keyword.arg: ast.literal_eval(keyword.value) for keyword in marker.keywords}
    except ValueError as error:
        raise MarkerError(f"{test}: a marker's row and load are words, written out.") from error
    for row in rows:
        yield Shown(str(row), test, str(options.get("load", "")), slow)


def page(told: Mapping[str, Any], found: list[Shown], recorded: Recorded) -> str:
    """The text of the page, of what `reliability.toml` says.

    Raises
    ------
    MarkerError
        A test names a row that is not there.
    LimitError
        A limit says nothing.
    """
    rows: dict[str, dict[str, Any]] = told["rows"]
    by_row: dict[str, list[Shown]] = defaultdict(list)
    for each in sorted(found, key=lambda each: each.test):
        if each.row not in rows:
            raise MarkerError(f"{each.test} shows {each.row}, which {ROWS.name} does not have.")
        by_row[each.row].append(each)
    without = [row for row in rows if row not in by_row]
    text = [told["before"], f"{len(rows) - len(without)} of {len(rows)} rows have a test"]
    text.append(f"; without one: {', '.join(without)}.\n" if without else ".\n")
    verdicts = {row: judge(rows[row], [each.test for each in by_row[row]], recorded) for row in rows}
    text.append(_summary(by_row, verdicts, recorded))
    for letter, title in PARTS.items():
        named = [row for row in rows if row.startswith(letter)]
        text.append(f"\n## {title}\n")
        text += [_section(row, rows[row], by_row[row], recorded, verdicts[row]) for row in named]
    return "".join(text) + "\n" + str(told["after"])


def _summary(by_row: Mapping[str, list[Shown]], verdicts: Mapping[str, Verdict], recorded: Recorded) -> str:
    """How many rows are recorded, have a figure, and are held, and which are not."""
    ran = {row: [[run.record for run in runs(each.test, recorded)] for each in by_row.get(row, ())] for row in verdicts}
    whole = [row for row, tests in ran.items() if tests and all(tests)]
    figures = [row for row, tests in ran.items() if any(record["figures"] for test in tests for record in test)]
    words: dict[str, list[str]] = defaultdict(list)
    for row, verdict in verdicts.items():
        words[verdict.word].append(row)
    held = len(words.pop(HELD, ()))
    others = "".join(f"; {len(named)} {word}: {', '.join(named)}" for word, named in sorted(words.items()))
    every = [record for tests in ran.values() for test in tests for record in test]
    trees = ", ".join(sorted({f"`{record.get('tree', '-')}`" for record in every})) or "none"
    return (
        f"Of {len(verdicts)} rows {len(whole)} have each test recorded and {len(figures)} a figure; "
        f"{held} held{others}. Trees: {trees}.\n"
    )


def _section(row: str, told: Mapping[str, Any], tests: list[Shown], recorded: Recorded, verdict: Verdict) -> str:
    aim = ": ".join(filter(None, (told.get("load"), told["pass"])))
    lines = [f"\n**{row}** {told['test']}. Aim: {aim}\n"]
    if "without" in told:
        lines.append(f"\n{told['without']}\n")
    if not tests:
        return "".join(lines) + ("" if "without" in told else "\n**No test shows this yet.**\n")
    lines.append(f"\n{row}: {verdict}.\n\n| test | shown with | last recorded |\n|---|---|---|\n")
    for test in tests:
        load = test.load + (" (slow)" if test.slow else "")
        lines.append(f"| `{test.test}` | {load} | {_records(recorded.get(test.test, {}))} |\n")
    return "".join(lines)


def _records(record: Mapping[str, Any]) -> str:
    """A test's last run, and its last one at full size."""
    small = {name: value for name, value in record.items() if name != "full"}
    said = {"": small, "at full size, ": record.get("full", {})}
    return "<br>".join(f"{where}{_run(each)}" for where, each in said.items() if each)


def _run(record: Mapping[str, Any]) -> str:
    """One run: when, on which tree, what came of it, at what load, and its figures."""
    if is_skipped(record):
        return f"{record['date']}: {record['outcome']}"
    cases = record.get("cases", 1)
    skipped = sum(record.get("skipped", {}).values())
    said = f"{record['date']}, `{record.get('tree', '-')}`: {record['outcome']}"
    said += f" ({cases} cases{f', {skipped} skipped' if skipped else ''})" if cases + skipped > 1 else ""
    said += f" in {record['seconds']} s" + (f", load {record['load']}" if "load" in record else "")
    figures = "; ".join(f"{name} {_figure(name, value)}" for name, value in record["figures"].items())
    return f"{said}: {figures}" if figures else said


def _figure(name: str, value: object) -> str:
    """A figure; of several cases their sum, or the least and the most."""
    if not isinstance(value, dict):
        return str(value)
    if name in SUMS:
        return f"{value['sum']} in all"
    return str(value["least"]) if value["least"] == value["most"] else f"{value['least']} to {value['most']}"


def collected() -> list[Shown]:
    """The markers of the whole suite."""
    return [each for path in sorted((ROOT / "tests").rglob("test_*.py")) for each in shown(path)]


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or with --check say whether it is as it would be written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit 1 where the page is not as it would be written")
    given = parser.parse_args(arguments)
    told = tomllib.loads(ROWS.read_text(encoding="utf-8"))
    recorded = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.is_file() else {}
    try:
        text = page(told, collected(), recorded)
    except (MarkerError, LimitError) as error:
        print(error, file=sys.stderr)
        return 1
    if given.check:
        if PAGE.read_text(encoding="utf-8") != text:
            print(f"{PAGE.relative_to(ROOT)} is out of date: python tools/reliability_page.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
