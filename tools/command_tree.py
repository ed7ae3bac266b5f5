"""The commands of `auricle` as they are, and what one of them says to a line of arguments, without running it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from auricle.errors import AuricleError
from auricle.packs.shipped import SHIPPED
from auricle.process.cli import PARTS, build_app
from auricle.process.options import CommandLineError
from auricle_cloud.commands.serve_options import method_options
from auricle_learning.methods import get_method, rule_names
from auricle_learning.presets import PRESETS

BOARDS = sorted(path.stem for path in (Path(__file__).parents[1] / "firmware-configs").glob("*.toml"))
HELP = ("-h", "--help")
_PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9_]*|.*\.\.\..*|<.*>")
KNOWN: dict[str, Callable[[], Iterable[str]]] = {
    "method": rule_names,
    "preset": lambda: PRESETS,
    "board": lambda: BOARDS,
    "like": lambda: BOARDS,
    "mode": lambda: ("sync", "async"),
    "start": lambda: ("pack", "scratch"),
    "learning": lambda: ("mutual", "supervised"),
    "runtime": lambda: ("auto", "step", "native", "ort-training"),
    "pack": lambda: SHIPPED,
}
"""Words that options take, where the command line itself does not know them."""


@functools.cache
def part(name: str) -> Any:
    """The command of a part: a click command or group."""
    root: Any = typer.main.get_command(build_app(name))
    return root.commands[name]


def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A command and all below it, with the words that call them."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, (*path, name))


def tree() -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands and groups of all parts."""
    for name in PARTS:
        yield from walk(part(name), (name,))


@functools.cache
def all_options() -> frozenset[str]:
    """Every option that any command takes."""
    found = {"--version", "--install-completion", "--show-completion", *HELP}
    for _, command in tree():
        for parameter in command.params:
            found.update([*parameter.opts, *parameter.secondary_opts])
    return frozenset(name for name in found if name.startswith("-"))


def arguments(words: list[str]) -> list[str] | None:
    """What follows `auricle` in the words of a command; None where it is not called."""
    for at, word in enumerate(words):
        name = word.rpartition("/")[2]
        if name == "auricle-cloud":
            return ["cloud", *words[at + 1 :]] if at == 0 else None
        if name == "auricle" and (at == 0 or words[at + 1 : at + 2] in [[one] for one in PARTS]):
            return words[at + 1 :]
    return None


def mistake(given: list[str], *, mentioned: bool = False) -> str:
    """Why the command line would refuse these arguments; empty where it takes them.

    Parameters
    ----------
    given
        What follows `auricle`; words in capitals and `...` stand for anything.
    mentioned
        It stands in a sentence: arguments may be missing.
    """
    lenient = mentioned or "..." in given
    words = [word for word in given if word not in ("...", *HELP)]
    if not words or words[0].startswith("-"):
        return next((f"there is no option {word}" for word in words if word not in all_options()), "")
    if words[0] not in PARTS:
        return f"there is no command {words[0]}"
    command, path, words = part(words[0]), words[0], words[1:]
    while getattr(command, "commands", None):
        words, unknown = _after_options(command, words)
        if unknown:
            return f"auricle {path} has no option {unknown}"
        if not words:
            return "" if lenient or len(given) > path.count(" ") + 1 else f"auricle {path} needs a command"
        if words[0] not in command.commands:
            return "" if _PLACEHOLDER.fullmatch(words[0]) else f"auricle {path} has no command {words[0]}"
        command, path, words = command.commands[words[0]], f"{path} {words[0]}", words[1:]
    said = _refusal(command, path, words, lenient=lenient)
    return f"auricle {path}: {said}" if said else ""


def _after_options(group: Any, words: list[str]) -> tuple[list[str], str]:
    """The words from a sub-command on, and the first option that the group does not have."""
    options = {name: parameter for parameter in group.params for name in [*parameter.opts, *parameter.secondary_opts]}
    while words and words[0].startswith("-"):
        name, equals, _ = words[0].partition("=")
        if name not in options:
            return words, name
        words = words[1 if equals or options[name].is_flag else 2 :]
    return words, ""


def _refusal(command: Any, path: str, words: list[str], *, lenient: bool) -> str:
    for at, word in enumerate(words):
        if word.startswith("-") and word != "-" and not re.match(r"-\d", word):
            name = word.partition("=")[0]
            if name not in {one for each in command.params for one in [*each.opts, *each.secondary_opts]}:
                return f"no option {name}"
            if words[at + 1 :] == [] and lenient:
                words = words[:at]
    said, values = _parsed(command, path, words, lenient=lenient)
    if said and any(map(_PLACEHOLDER.fullmatch, words)):  # of a number
        said, values = _parsed(command, path, [_PLACEHOLDER.sub("1", word) for word in words], lenient=lenient)
    return said or _unknown_word(values)


def _parsed(command: Any, path: str, words: list[str], *, lenient: bool) -> tuple[str, dict[str, Any]]:
    try:
        return "", dict(command.make_context(path, list(words)).params)
    except CommandLineError as error:
        said = error.format_message()
        missing = type(error).__name__ == "MissingParameter" and lenient
        return "" if missing or "does not exist" in said else said, {}
    except AuricleError as error:
        return str(error), {}


def _unknown_word(given: dict[str, Any]) -> str:
    values = given
    for name, known in KNOWN.items():
        value = values.get(name)
        for word in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(word, str) and not _PLACEHOLDER.fullmatch(word) and not re.search(r"[./]", word):
                taken = sorted(known())
                if word not in taken:
                    return f"{word} is not one of {', '.join(taken)}"
    method, options = values.get("method"), values.get("method_options")
    if isinstance(method, str) and options and not _PLACEHOLDER.fullmatch(method):
        try:
            get_method(method, **method_options(options))
        except AuricleError as error:
            return str(error)
    return ""
