"""docs/commands.md and a page a part below docs/commands/, made of the commands: `python tools/commands_page.py`.

`--check` changes nothing, and compares.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from auricle.process.cli import PARTS
from auricle.process.command_groups import first_sentence
from tools.command_tree import tree

DOCS = Path(__file__).parents[1] / "docs"
COMMON = ("--help", "--json", "--version")
PLACE = ("--state", "--database", "--blobs", "--server", "--task")
"""Options that say which coordinator; every command of `auricle cloud` that acts on one takes them."""
SHARING = 8
"""So many commands have an option for it to stand once, at the top of its page."""
MANY = 5
"""Words that an option takes, of which more are named in the text."""
VALUES = {"int": "N", "float": "X", "Path": "PATH", "str": "TEXT"}
MORE = {
    "cloud serve": "What is changed less often has an option too, and stands in its file: "
    "[the coordinator's settings](../coordinator.md#settings).",
}
"""What follows a command's table."""
INDEX = """# Commands

<!-- made by tools/commands_page.py -->

Every command, one sentence each; its page has the options with their defaults. `-h` prints the same. `--json` prints
JSON, one object or one a line, and nothing else on standard output. A mistake is one sentence on standard error; what
the exit codes say is in [one table](coordinator.md#exit-codes). `auricle --install-completion`: names by the tab key.
"""
PAGE = """# {title}

<!-- made by tools/commands_page.py -->

{text} All commands: [commands](../commands.md).
All take `-h`, and those with an answer `--json`; exit codes are in [one table](../coordinator.md#exit-codes).
"""
SHARED = """
Many commands take these:

{table}
"""
HEAD = ("| option | default | what it says |", "|---|---|---|")
WHICH = """
Commands that act on a coordinator take these options, before or after their name. `auricle cloud use NAME` names one
once for all.

{table}
"""


def written() -> dict[Path, str]:
    """Every page with what it has to say."""
    index = [INDEX]
    found: dict[Path, str] = {}
    for part, (_, text) in PARTS.items():
        index.append(f"\n## [auricle {part}](commands/{part}.md)\n\n{text}\n\n| command | what it does |\n|---|---|\n")
        pages = [PAGE.format(title=f"auricle {part}", text=_escaped(text))]
        common = _common(part)
        if common:
            pages.append(SHARED.format(table="\n".join([*HEAD, *common])))
        for path, command in tree():
            if path[0] != part or command.hidden:
                continue
            if path == ("cloud",):
                pages.append(WHICH.format(table="\n".join([*HEAD, *_rows(command, every=True)])))
            if getattr(command, "commands", None) is None:
                index.append(_row(path, command))
                pages.append(_section(path, command, common))
        found[DOCS / "commands" / f"{part}.md"] = "".join(pages)
    return {DOCS / "commands.md": "".join(index), **found}


def _row(path: tuple[str, ...], command: Any) -> str:
    name = " ".join(path)
    anchor = f"auricle-{name.replace(' ', '-')}"
    return f"| [`{name}`](commands/{path[0]}.md#{anchor}) | {_escaped(first_sentence(command))} |\n"


def _common(part: str) -> list[str]:
    """Rows that many commands of a part share, in the order of their first command."""
    counts: Counter[str] = Counter()
    for path, command in tree():
        if path[0] == part and not command.hidden:
            counts.update(_rows(command))
    return [row for row, count in counts.items() if count >= SHARING]


def _section(path: tuple[str, ...], command: Any, common: list[str]) -> str:
    name = " ".join(path)
    told = _escaped(" ".join(inspect.cleandoc(command.help or "").split()))
    rows = _rows(command)
    table: list[str] = []
    for panel, of_panel in groupby(_shown(command), lambda each: getattr(each, "rich_help_panel", None)):
        own = [row for each in of_panel if (row := _parameter(command, each)) not in common]
        if own:
            table += [*([""] if table else []), *([f"**{panel}**", ""] if panel else []), *HEAD, *own]
    shared = ", ".join(f"`{word}`" for row in rows if row in common for word in re.findall(r"--[a-z-]+", row)[:1])
    if shared:
        table += [*([""] if table else []), f"Also {shared}."]
    more = ["", MORE[name]] if name in MORE else []
    return "\n".join(["", f"## auricle {name}", "", told, *([""] if table else []), *table, *more]) + "\n"


def _rows(command: Any, *, every: bool = False) -> list[str]:
    """A row for each argument and option that help shows, or for each of all."""
    return [_parameter(command, parameter) for parameter in _shown(command, every=every)]


def _shown(command: Any, *, every: bool = False) -> list[Any]:
    """The arguments and options of `_rows`, those under one heading of help one after the other."""
    shown = [
        parameter
        for parameter in command.params
        if (every or not getattr(parameter, "hidden", False)) and not set(parameter.opts) & set(COMMON)
    ]
    panels = list(dict.fromkeys(getattr(parameter, "rich_help_panel", None) for parameter in shown))
    return sorted(shown, key=lambda parameter: panels.index(getattr(parameter, "rich_help_panel", None)))


def _parameter(command: Any, parameter: Any) -> str:
    text = (parameter.help or "").strip()
    default = ""
    flag = bool(getattr(parameter, "is_flag", False))
    if not flag and (stands := re.search(r"\s*\[([^\[\]]+)\](\.?)$", text)) is not None:
        text, default = text[: stands.start()] + stands[2], stands[1]
    elif parameter.required:
        default = "needed"
    elif type(parameter.default) in (int, float, str) and not flag:
        default = str(parameter.default)
    if parameter.envvar:
        default = f"{default or 'that'}, or `{parameter.envvar}`".removeprefix("that, or ")
    flags = [name for name in parameter.opts if name.startswith("--")]
    if not flags:
        many = "..." if parameter.nargs == -1 else ""
        name = f"`{(parameter.metavar or parameter.name).strip('[].').upper()}{many}`"
    elif flag:
        name = ", ".join(f"`{one}`" for one in [*flags, *parameter.secondary_opts])
    else:
        kind = _kind(command.callback, parameter.name)
        name = ", ".join(f"`{one} {_value(kind)}`" for one in flags)
        words = _words(kind)
        text += f" One of: {', '.join(words)}." if len(words) > MANY else ""
        text += " May be given more than once." if _many(parameter, text) else ""
    return f"| {name} | {_escaped(default)} | {_escaped(text)} |"


def _many(parameter: Any, text: str) -> bool:
    return bool(parameter.multiple) and not re.search(r"more than once|once for each|several|more than one", text)


def _kind(function: Callable[..., object], name: str) -> object:
    """The type of a parameter, as its function declares it."""
    parameter = inspect.signature(function).parameters.get(name)
    declared = None if parameter is None else parameter.annotation
    return get_type_hints(function, include_extras=True).get(name) if isinstance(declared, str) else declared


def _words(kind: object) -> list[str]:
    """The words that a parameter takes; none where it takes others as well."""
    return [str(word) for one in _inside(kind) if get_origin(one) is Literal for word in get_args(one)]


def _value(kind: object) -> str:
    """What stands for an option's value: words that it takes, or a letter for its kind."""
    words = _words(kind)
    if words:
        return "\\|".join(words) if len(words) <= MANY else "WORD"
    names = [one.__name__ for one in _inside(kind) if isinstance(one, type)]
    return next((VALUES[name] for name in names if name in VALUES), "TEXT")


def _inside(kind: object) -> Iterator[object]:
    yield kind
    if get_origin(kind) is not Literal:
        for one in get_args(kind)[:1] if get_origin(kind) is Annotated else get_args(kind):
            yield from _inside(one)


def _escaped(text: str) -> str:
    """Text in a table of Markdown; what has angle brackets is code."""
    text = " ".join(text.split()).replace("|", "\\|")
    text = re.sub(r"(?<!`)(--[a-z][a-z-]+)(?![\w`])", r"`\1`", text)
    return re.sub(r"\S*<\S+>[^\s.,:;]*", lambda match: f"`{match[0]}`", text)


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or say that they are not those of the commands."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where a page is out of date")
    given = parser.parse_args(arguments)
    pages = written()
    old = [page for page, text in pages.items() if not page.is_file() or page.read_text(encoding="utf-8") != text]
    gone = sorted(set((DOCS / "commands").glob("*.md")) - set(pages))
    if given.check:
        for page in [*old, *gone]:
            print(f"docs/{page.relative_to(DOCS)} is not what the commands are: run python tools/commands_page.py")
        return 1 if old or gone else 0
    for page in old:
        page.parent.mkdir(exist_ok=True)
        page.write_text(pages[page], encoding="utf-8")
    for page in gone:
        page.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
