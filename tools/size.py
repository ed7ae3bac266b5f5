"""How large each part of the product is, and how much of it is hard to read: counts that may only fall.

    python tools/size.py [--base REF]      the table, with what came and went since a commit
    python tools/size.py --list told       the places of a count, largest first
    python tools/size.py --check           red where a count is above tools/size.toml
    python tools/size.py --update          write what fell into tools/size.toml (a file that changes its part: by hand)

Of every `.py` file below `core`, `learning`, `edge`, `cloud`, `export` and `fleet`:

lines               of text, empty ones and comments included
statements          nodes of the syntax tree that are a statement; a docstring is one
files
long_functions      functions, methods and nested ones of more than 50 lines, from `def` to the last line,
                    without the examples of its docstring
wide_functions      those of 8 or more arguments without `self`, `cls` and `*`; not those whose arguments are options of
                    a command
long_files          files of more than 300 lines
participles         functions whose name, or name after underscores, begins with a past participle (`asked`, `told_of`)
told                the word, in names of its own, comments and texts
classes_twice       public class names that the product defines more than once; in a part those that it defines
numbers             public one-word constants of a module that are a plain number, as `LONGEST = 50`: no unit is told

Of the first three what a change adds is printed, and a commit that adds says why; the others are held by the gate.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # where it is imported, too

from rooms import PARTS, ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HELD = ("long_functions", "wide_functions", "long_files", "participles", "told", "classes_twice", "numbers")
COLUMNS = ("lines", "statements", "files", *HELD)
FUNCTION_LINES = 50
FUNCTION_ARGUMENTS = 8
FILE_LINES = 300
IRREGULAR = re.compile(
    r"begun|born|bound|bought|brought|built|chosen|done|drawn|driven|fallen|felt|found|given|gone|grown|heard|held|hidden"
    r"|kept|known|laid|led|left|lent|lost|made|meant|met|mistaken|overwritten|paid|reread|rewritten|said|seen|sent|shown"
    r"|sold|spent|spoken|sprung|stood|swept|taken|thrown|told|unheard|unkept|unknown|unsent|unwritten|withheld|won|written"
)
"""Past participles without -ed that are no form of the plain verb, as `read` and `put` are."""
REGULAR = re.compile(r"(?!(bed|bleed|breed|embed|exceed|feed|heed|need|preseed|proceed|red|seed|shed|speed)$).*ed")

Place = tuple[int, str, str]
"""How much, which count, and where."""


@dataclass(frozen=True)
class Source:
    """A file of a part."""

    part: str
    place: str
    text: str
    tree: ast.Module


def sources(root: Path) -> Iterator[Source]:
    """Read the files of all parts below a folder."""
    for part in PARTS:
        for path in sorted((root / part).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            yield Source(part, str(path.relative_to(root)), text, ast.parse(text))


def places(source: Source) -> Iterator[Place]:
    """Find all that a file adds to the counts but `classes_twice`, which takes all files together."""
    lines = len(source.text.splitlines())
    nodes = list(ast.walk(source.tree))
    yield lines, "lines", source.place
    yield sum(isinstance(node, ast.stmt) for node in nodes), "statements", source.place
    yield 1, "files", source.place
    if lines > FILE_LINES:
        yield lines, "long_files", source.place
    for number, line in enumerate(source.text.splitlines(), 1):
        yield from ((1, "told", f"{source.place}:{number}") for _ in re.finditer(r"\btold\b", line))
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _of_function(node, f"{source.place}:{node.lineno} {node.name}")
    for statement in source.tree.body:
        name = _number(statement)
        if name is not None:
            yield 1, "numbers", f"{source.place}:{statement.lineno} {name}"


def _of_function(node: ast.FunctionDef | ast.AsyncFunctionDef, place: str) -> Iterator[Place]:
    _, _, examples = (ast.get_docstring(node) or "").partition("\nExamples\n")
    own = (node.end_lineno or 0) - node.lineno + 1 - (len(examples.splitlines()) + 2 if examples else 0)
    if own > FUNCTION_LINES:
        yield own, "long_functions", place
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    arguments = sum(each.arg not in ("self", "cls") for each in given)
    defaults = [*node.args.defaults, *(each for each in node.args.kw_defaults if each is not None)]
    if arguments >= FUNCTION_ARGUMENTS and not any("typer.Option" in ast.unparse(each) for each in defaults):
        yield arguments, "wide_functions", place
    first = node.name.strip("_").split("_")[0]
    if IRREGULAR.fullmatch(first) or REGULAR.fullmatch(first):
        yield 1, "participles", place


def _number(statement: ast.stmt) -> str | None:
    """The one-word name of a number that a module sets; None for all else."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target, value = statement.target, statement.value
    else:
        return None
    plain = isinstance(value, ast.Constant) and type(value.value) in (int, float)
    named = isinstance(target, ast.Name) and re.fullmatch(r"[A-Z][A-Z0-9]*", target.id)
    return target.id if plain and named and isinstance(target, ast.Name) else None


def count(root: Path) -> tuple[dict[str, Counter[str]], list[tuple[str, Place]]]:
    """Count what is below a folder.

    Returns
    -------
    tuple
        The counts by part, with `all`, and each place with its part.
    """
    found: list[tuple[str, Place]] = []
    classes: dict[str, list[tuple[str, str]]] = {}
    for source in sources(root):
        found += ((source.part, place) for place in places(source))
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes.setdefault(node.name, []).append((source.part, f"{source.place}:{node.lineno} {node.name}"))
    counts = {part: Counter[str]() for part in (*PARTS, "all")}
    twice = [places for places in classes.values() if len(places) > 1]
    for part, (much, what, _) in found:
        step = much if what in ("lines", "statements") else 1
        counts[part][what] += step
        counts["all"][what] += step
    for same in twice:
        counts["all"]["classes_twice"] += 1
        for part in {part for part, _ in same}:
            counts[part]["classes_twice"] += 1
        found += ((part, (len(same), "classes_twice", place)) for part, place in same)
    return counts, found


def count_at(reference: str) -> dict[str, Counter[str]] | None:
    """Count what a commit has; None where there is no such commit here."""
    listed = subprocess.run(["git", "ls-tree", "--name-only", reference], cwd=ROOT, capture_output=True, check=False)
    parts = set(PARTS) & set(listed.stdout.decode().split())
    if not parts:
        return None
    done = subprocess.run(["git", "archive", reference, *sorted(parts)], cwd=ROOT, capture_output=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            for member in archive.getmembers():
                if member.isfile() and member.name.endswith(".py") and (content := archive.extractfile(member)):
                    path = Path(folder) / member.name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content.read())
        return count(Path(folder))[0]


def table(counts: dict[str, Counter[str]], before: dict[str, Counter[str]] | None) -> list[str]:
    """Lines of the table: what there is and, where it is not the same, by how much more or less than before."""
    rows = [["part", *COLUMNS]]
    for part, found in counts.items():
        row = [part]
        for name in COLUMNS:
            more = 0 if before is None else found[name] - before[part][name]
            row.append(f"{found[name]}{f' ({more:+})' if more else ''}")
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def above(counts: dict[str, Counter[str]], allowed: dict[str, dict[str, int]]) -> list[str]:
    """A sentence for each held count that is above what is allowed."""
    return [
        f"{part} has {counts[part][name]} {name}, {most} are allowed: python tools/size.py --list {name}"
        for part, limits in allowed.items()
        for name, most in limits.items()
        if counts[part][name] > most
    ]


def write_allowed(path: Path, counts: dict[str, Counter[str]]) -> None:
    """Write the counts of today as what is allowed, none above what was allowed before."""
    before = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    lines = ["# What tools/size.py counts, and may only fall: python tools/size.py --update"]
    for part, found in counts.items():
        lines += ["", f"[{part}]"]
        lines += (f"{name} = {min(found[name], before.get(part, {}).get(name, found[name]))}" for name in HELD)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Print the table or a list; 1 where --check finds a count that rose."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", metavar="REF", help="also say what is more or less than in this commit")
    parser.add_argument("--list", choices=COLUMNS, help="the places of a count")
    parser.add_argument("--part", choices=PARTS, help="of one part [all]")
    parser.add_argument("--check", action="store_true", help="1 where a count is above tools/size.toml")
    parser.add_argument("--update", action="store_true", help="write what fell into tools/size.toml")
    given = parser.parse_args(arguments)
    limits = ROOT / "tools" / "size.toml"
    counts, found = count(ROOT)
    if given.list:
        chosen = [place for part, place in found if place[1] == given.list and given.part in (None, part)]
        for much, _, place in sorted(chosen, key=lambda each: (-each[0], each[2])):
            print(f"{much:5} {place}")
        return 0
    before = None if given.base is None else count_at(given.base)
    if given.base is not None:
        since = f"in brackets what is more or less than in {given.base}"
        print(since if before is not None else f"there is no commit {given.base} here: nothing is compared")
    print("\n".join(table(counts, before)))
    if given.update:
        write_allowed(limits, counts)
    wrong = above(counts, tomllib.loads(limits.read_text(encoding="utf-8"))) if given.check else []
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
