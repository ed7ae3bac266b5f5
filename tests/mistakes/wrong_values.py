"""Command lines with a value that nobody means, one an option, made from what commands declare."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import typer

from auricle.process.cli import PARTS, build_app
from tests.mistakes.record import Mistake

FLAT = "flat.txt"
"""A file; a path below it is one that nobody can read or make."""
NUMBERS = ("many", "-" + "9" * 40, "1e999", "9" * 40, "nan", "", "0x10", "-inf")
PATHS = ("caf\udce9", "", f"{FLAT}/below", "x" * 300, FLAT)
WORDS = ("caf\udce9", "no such word", "")
KINDS = {
    "int": NUMBERS,
    "int range": NUMBERS,
    "float": NUMBERS,
    "float range": NUMBERS,
    "path": PATHS,
    "directory": PATHS,
    "choice": WORDS,
    "str": ("caf\udce9",),
}
"""Values by the kind of an option, used in turn."""
TAKEN = {("page", FLAT)}
"""What an option takes all the same: a file that it writes may be there."""


@functools.cache
def wrong_values() -> list[Mistake]:
    """A command line for each option of each part, the needed ones beside it filled in.

    Of an option that several commands of a part have, each value stands once.
    """
    turns = {kind: cycle(values) for kind, values in KINDS.items()}
    made, had = [], {(part, *each) for part in PARTS for each in TAKEN}
    for part in PARTS:
        group: Any = typer.main.get_command(build_app(part))
        for words, command in _commands(group.commands[part], ("auricle", part)):
            for option in _valued(command):
                value = next(turns[option.type.name])
                if (part, option.name, value) not in had:
                    had.add((part, option.name, value))
                    line = shlex.join([*words, *_needed(command, option), *_given(option, value)])
                    made.append(Mistake(what=line, habit="wrong", command=line, code=2, files={FLAT: "flat\n"}))
    return made


def _commands(group: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from _commands(each, (*words, name))
        elif not each.hidden:
            yield (*words, name), each


def _valued(command: Any) -> list[Any]:
    return [each for each in command.params if each.name != "help" and not getattr(each, "is_flag", False)]


def _needed(command: Any, but: Any) -> Iterator[str]:
    """What the command needs beside one option."""
    for each in _valued(command):
        if each.required and each is not but:
            yield from _given(each, _plain(each.type))


def _given(option: Any, value: str) -> list[str]:
    return [value] if option.param_type_name == "argument" else [f"{option.opts[-1]}={value}"]


def _plain(kind: Any) -> str:
    """A value that a command could take."""
    return str(kind.choices[0]) if kind.name == "choice" else {"int": "1", "int range": "1"}.get(kind.name, "x")
