"""Tables of docs/api.md and docs/runtimes.md, made of the code: `python tools/api_page.py`; `--check` compares."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Union, get_args, get_origin

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
RUNTIMES = PAGE.with_name("runtimes.md")
PARTS = ("auricle", "auricle_fleet", "auricle_learning", "auricle_cloud", "auricle_edge")
METHODS = {
    "FleetRun": ("run", "run_async", "resume", "stop"),
    "Pack": ("table", "with_labels", "negatives"),
    "Cohort": ("build",),
    "Aggregate": ("explain",),
    "Coordinator": ("run",),
    "Agent": ("run",),
    "Listener": ("feed", "reset"),
    "Trainer": ("run", "first_state"),
    "Runtime": ("logits", "embeddings", "begin"),
}
"""Methods that are promised with their class; of the others none is. `Operations` promises all of its own."""
TABLES = {"METHODS": "The methods that come with auricle, by name; other packages add theirs to `get_method`."}
FIELDS = {"fields_of_a_round": "RoundRow", "fields_of_a_run": "Summary"}
"""Structs of `auricle_fleet.results.result` of which the page has every field, by the name of its mark."""
MANY = 8
"""A signature with more parameters is cut: the class itself lists them."""


def signature(what: Callable[..., object]) -> str:
    """A signature on one line: annotations as they are written, defaults where they are plain values."""
    parameters = [p for p in inspect.signature(what).parameters.values() if p.name not in ("self", "cls")]
    if len(parameters) > MANY:
        keyword = parameters[0].kind is inspect.Parameter.KEYWORD_ONLY
        return f"({'*, ' if keyword else ''}{', '.join(p.name for p in parameters[:3])}, ...)"
    shown: list[str] = []
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = parameter.default
        plain = default is None or isinstance(default, (bool, int, float, str, tuple))
        value = "" if default is inspect.Parameter.empty else f" = {default!r}" if plain else " = ..."
        shown.append(f"{stars}{parameter.name}: {_type(parameter.annotation)}{value}")
    return f"({', '.join(shown)}){_returned(what)}"


def _returned(what: Callable[..., object]) -> str:
    """What a function returns, marked where it is awaited; nothing for a class."""
    if isinstance(what, type):
        return ""
    awaited = "await " if inspect.iscoroutinefunction(what) else ""
    found = inspect.signature(what).return_annotation
    return "" if found is inspect.Signature.empty or _type(found) == "None" else f" -> {awaited}{_type(found)}"


def _type(annotation: object) -> str:
    """A type as it is read, without the bounds and descriptions of `Annotated`."""
    if get_origin(annotation) is Annotated:
        return _type(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return " | ".join(_type(each) for each in get_args(annotation))
    if annotation is type(None):
        return "None"
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\bpathlib\.(?:_local\.)?", "", text)


def first_line(what: object) -> str:
    """The first sentence of a docstring, escaped for a table."""
    return (inspect.getdoc(what) or "").splitlines()[0].replace("|", "\\|")


def _row(name: str, what: Callable[..., object], *, arguments: bool = True) -> str:
    shown = signature(what).replace("|", "\\|") if arguments else ""
    cut = isinstance(what, type) and shown.endswith("...)")
    every = ", ".join(f"`{field}`" for field in inspect.signature(what).parameters) if cut else ""
    return f"| `{name}{shown}` | {first_line(what)}{f' Of: {every}.' if every else ''} |"


def methods(name: str, kind: type) -> list[str]:
    """The promised methods of a class."""
    if name == "Operations":
        return sorted(m for m in dir(kind) if not m.startswith("_") and inspect.isfunction(getattr(kind, m)))
    return list(METHODS.get(name, ()))


def table(part: str) -> str:
    """The promised names of a part, a row each, methods below their class."""
    package = importlib.import_module(part)
    rows = ["| name | what it is |", "|---|---|"]
    for name in package.__all__:
        what = getattr(package, name)
        if isinstance(what, dict):
            rows.append(f"| `{name}` | {TABLES[name]} |")
            continue
        protocol = bool(getattr(what, "_is_protocol", False))
        rows.append(_row(name, what, arguments=not protocol))
        if isinstance(what, type):
            rows += [_row(f"{name}.{method}", getattr(what, method)) for method in methods(name, what)]
    return "\n".join(rows)


def field_table(kind: type) -> str:
    """Return a table of a struct's fields, each with the docstring below it."""
    (struct,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(struct, ast.ClassDef)
    rows = ["| field | what it is |", "|---|---|"]
    for statement, below in zip(struct.body, struct.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(below, ast.Expr):
            text = " ".join(ast.literal_eval(below.value).split()).replace("|", "\\|")
            rows.append(f"| `{ast.unparse(statement.target)}` | {text} |")
    return "\n".join(rows)


def operator_table() -> str:
    """Return a table of a pack's operators by the runtimes that have them; `step` has all that a pack may hold."""
    known = importlib.import_module("auricle.checks.layout_shapes").RULES.keys()
    ours = importlib.import_module("auricle_learning.native.planner").HANDLERS.keys()
    translated = importlib.import_module("auricle_export.tflite.pack").OPERATORS.keys()
    rows = {
        "`step`, `native`, `tflite`": ours & translated,
        "`step`, `native`": ours - translated,
        "`step`, `tflite`": translated - ours,
        "`step`": known - ours - translated,
    }
    made = [f"| {runtimes} | {', '.join(sorted(operators))} |" for runtimes, operators in rows.items()]
    return "\n".join(["| runtimes | operators |", "|---|---|", *made])


def filled(page: str) -> str:
    """The page of the API with every table between its marks written new."""
    results = importlib.import_module("auricle_fleet.results.result")
    for part in PARTS:
        page = _put(page, part, table(part))
    for mark, kind in FIELDS.items():
        page = _put(page, mark, field_table(getattr(results, kind)))
    return page


def filled_runtimes(page: str) -> str:
    """Return the page of runtimes with its table of operators written new."""
    return _put(page, "operators", operator_table())


def _put(page: str, mark: str, made: str) -> str:
    begin, end = f"<!-- {mark} -->", f"<!-- end {mark} -->"
    if begin not in page or end not in page:
        raise SystemExit(f"The page has no place for {mark}: add {begin} and {end}.")
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{made}\n{end}{after}"


def main(arguments: list[str] | None = None) -> int:
    """Write the tables, or say that they are not those of the code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where a page is out of date")
    given = parser.parse_args(arguments)
    wrong = 0
    for path, fill in ((PAGE, filled), (RUNTIMES, filled_runtimes)):
        page = path.read_text(encoding="utf-8")
        new = fill(page)
        if given.check and new != page:
            print(f"docs/{path.name} is not what the code has: run python tools/api_page.py", file=sys.stderr)
            wrong = 1
        if not given.check:
            path.write_text(new, encoding="utf-8")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
