"""Mistakes of a page that can be found without running anything.

Each command of `auricle` is parsed by the command line itself, targets of make, paths, tests and options of scripts are
looked up, links lead somewhere, and blocks of Python, TOML and JSON can be read.
"""

from __future__ import annotations

import ast
import functools
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from auricle.settings import tomllib
from tools import command_tree
from tools.doc_pages import ROOT, Block, blocks, commands, mentions, simple_commands
from tools.doc_settings import refusal

FOLDERS = (
    "core",
    "learning",
    "edge",
    "cloud",
    "export",
    "fleet",
    "bench",
    "deploy",
    "docs",
    "tests",
    "tools",
    "examples",
    "firmware-configs",
)
_PATH = re.compile(rf"(?:{'|'.join(FOLDERS)})/[\w./*-]*\w")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
MADE = ("deploy/.env", "deploy/secrets/", "deploy/compose.override.yaml", "deploy/agent/claim")
"""Beginnings of paths at which there is something once `deploy/prepare` ran, or an operator wrote it."""
FOREIGN = frozenset({"--build", "--no-install-recommends", "--keep-data"})
"""Options of other programs that pages name in a sentence."""


class Mistake(NamedTuple):
    """Something that a page says and that is not so."""

    line: int
    said: str


def mistakes(path: Path) -> list[Mistake]:
    """All of a page."""
    page = path.read_text(encoding="utf-8")
    found = [*_in_commands(page), *_in_sentences(page), *_in_links(path, page)]
    for block in blocks(page):
        found += _unreadable(block, path)
    return sorted(set(found))


def _in_commands(page: str) -> Iterator[Mistake]:
    activated = False
    for command in commands(page):
        try:
            parts = command.parts
        except ValueError as error:
            yield Mistake(command.line, f"no shell reads this: {error}")
            continue
        for words in parts:
            activated = activated or words[-1].endswith("bin/activate")
            if words[:2] == ["pip", "install"] and "--target" not in words and not activated:
                yield Mistake(command.line, "outside of an environment pip is refused: activate one before")
            for said in _wrong(words):
                variable = re.search(r"env var: '(\w+)'", said)
                if variable is None or f"{variable[1]}=" not in page:
                    yield Mistake(command.line, said)


def _wrong(words: list[str]) -> Iterator[str]:
    given = command_tree.arguments(words)
    if given is not None and (said := command_tree.mistake(given)):
        yield said
    if "make" in words[:2]:
        for word in words[words.index("make") + 1 :]:
            if "=" not in word and not word.startswith("-") and word not in make_targets():
                yield f"there is no target {word}"
            if "=" in word and not re.search(rf"\b{word.partition('=')[0]}\b", _makefile()):
                yield f"the Makefile knows no {word.partition('=')[0]}"
    if words[0].startswith("python") or words[0] == "pytest":
        yield from _wrong_script(words)
    else:
        yield from (f"there is no {word}" for word in words if _is_lost(word))


def _wrong_script(words: list[str]) -> Iterator[str]:
    script = next((word for word in words[1:] if word.endswith(".py")), None)
    if "pytest" in words:
        yield from (f"there is no {word}" for word in words if _is_lost(word.partition("::")[0]))
        wanted = words[words.index("-k") + 1] if "-k" in words else ""
        if wanted and script and wanted not in (ROOT / script.partition("::")[0]).read_text(encoding="utf-8"):
            yield f"no test of {script} has {wanted} in its name"
    elif "-m" in words:
        module = words[words.index("-m") + 1]
        places = (ROOT / f"{module.replace('.', '/')}.py", ROOT / module.replace(".", "/") / "__main__.py")
        if module.split(".")[0] in FOLDERS and not any(place.is_file() for place in places):
            yield f"there is no module {module}"
    elif script and script.partition("/")[0] in FOLDERS:
        if not (ROOT / script).is_file():
            yield f"there is no {script}"
            return
        options = script_options(ROOT / script)
        for word in words:
            name = word.strip("[]").partition("=")[0]
            if name.startswith("--") and name not in options:
                yield f"{script} has no option {name}"


def _is_lost(word: str) -> bool:
    """Whether it is a path of the repository at which there is nothing."""
    if not _PATH.fullmatch(word) or word.startswith(MADE):
        return False
    return not any(ROOT.glob(word))


def _in_sentences(page: str) -> Iterator[Mistake]:
    for line, text in mentions(page):
        try:
            called = list(simple_commands(text))
        except ValueError:
            continue
        for words in called:
            given = command_tree.arguments(words)
            if given and words[0] == "auricle" and (said := command_tree.mistake(given, mentioned=True)):
                yield Mistake(line, said)
            if words[0] == "make" and len(words) > 1 and words[1] not in make_targets():
                yield Mistake(line, f"there is no target {words[1]}")
            for word in words:
                if _is_lost(word.partition("::")[0]):
                    yield Mistake(line, f"there is no {word}")
        option = re.match(r"--[a-z][a-z-]+", text)
        if option is not None and option[0] not in known_options():
            yield Mistake(line, f"no command and no script has the option {option[0]}")


def _in_links(path: Path, page: str) -> Iterator[Mistake]:
    for number, line in enumerate(page.splitlines(), 1):
        for target in _LINK.findall(line):
            if re.match(r"[a-z]+:|\d+$", target):
                continue
            name, _, anchor = target.partition("#")
            to = path.parent / name if name else path
            if not to.exists():
                yield Mistake(number, f"the link leads nowhere: {target}")
            elif anchor and to.suffix == ".md" and anchor not in anchors(to.read_text(encoding="utf-8")):
                yield Mistake(number, f"{name or path.name} has no heading #{anchor}")


def anchors(page: str) -> set[str]:
    """What links can name in a page: headings as forges write them, and named places."""
    headings = re.findall(r"^#+ +(.+?) *$", page, re.MULTILINE)
    written = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return written | set(re.findall(r'<a (?:id|name)="([^"]+)"', page))


def _unreadable(block: Block, path: Path) -> Iterator[Mistake]:
    try:
        if block.kind == "python":
            tree = ast.parse(block.text)
            for statement in ast.walk(tree):
                if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("auricle"):
                    module = importlib.import_module(statement.module or "")
                    for name in statement.names:
                        if not hasattr(module, name.name):
                            yield Mistake(block.line, f"{statement.module} has no {name.name}")
        elif block.kind == "toml":
            tomllib.loads(block.text)
            if ROOT in path.parents and (said := refusal(str(path.relative_to(ROOT)), block.text)):
                yield Mistake(block.line, said)
        elif block.kind == "json":
            json.loads(block.text)
    except (SyntaxError, ModuleNotFoundError, ValueError) as error:
        yield Mistake(block.line, f"no {block.kind} reads this block: {error}")


@functools.cache
def _makefile() -> str:
    return (ROOT / "Makefile").read_text(encoding="utf-8")


@functools.cache
def make_targets() -> frozenset[str]:
    """What `make` can make here."""
    return frozenset(re.findall(r"^([a-z][a-z0-9-]*):", _makefile(), re.MULTILINE))


@functools.cache
def script_options(script: Path) -> frozenset[str]:
    """Options that a script adds, or the scripts beside it that it imports; nothing of it runs."""
    found = {"--help"}
    seen: set[Path] = set()
    open_ = [script]
    while open_:
        path = open_.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
                found.update(
                    one.value
                    for one in node.args
                    if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value.startswith("--")
                )
            elif isinstance(node, ast.FunctionDef) and "import typer" in text:
                found.update(f"--{one.arg.replace('_', '-')}" for one in [*node.args.args, *node.args.kwonlyargs])
            elif isinstance(node, ast.ImportFrom):
                module = node.module or ""
                names = [f"{module}.{alias.name}" for alias in node.names] + [module]
                open_ += [ROOT / f"{name.replace('.', '/')}.py" for name in names]
                open_ += [path.parent / f"{name.replace('.', '/')}.py" for name in names]
    return frozenset(found)


@functools.cache
def known_options() -> frozenset[str]:
    """Options of all commands and scripts, and those of other programs that pages may name."""
    scripts = [*ROOT.glob("bench/*.py"), *ROOT.glob("tools/*.py"), ROOT / "tests/fuzz/__main__.py"]
    return command_tree.all_options() | FOREIGN | frozenset().union(*map(script_options, scripts))
