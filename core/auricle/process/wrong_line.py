"""What is wrong with a command line, and what the system refused, in the sentences of this project."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import typer

from auricle.errors import because, closest

ALIKE = 0.6
"""How alike the name of an option or a command has to be to be meant, at most 1."""
ALMOST = 0.8
"""The same, where a word has to be meant itself."""
MANY = 12
"""With more options they are not all named in a sentence."""
MEANINGS = (
    ("overview", "status", "state", "info", "show", "inspect", "doctor"),
    ("serve", "run", "start", "up", "launch"),
    ("list", "ls", "all"),
    ("forget", "remove", "rm", "delete", "abort", "stop", "revoke"),
    ("logs", "log", "journal", "events"),
    ("add", "new", "create", "init", "build", "make"),
)
"""Names of commands that mean nearly the same; of those that a group has the first is offered for another."""

_BOUND = re.compile(r"Input should be (?P<sign>greater|less) than (?P<equal>or equal to )?(?P<limit>\S+)")
_EXTRA = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((\S+).*\)$", re.DOTALL)
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"
_HINT = re.compile(
    r"Invalid value for '\[?(?P<name>[^']*?)\]?'(?: \(env var: '(?P<variable>[^']*)'\))?: (?P<why>.*)", re.DOTALL
)
_CHOICE = re.compile(r"(?:Value error, )?'(?P<word>.*)' is not one of (?P<choices>'.*')\.?$", re.DOTALL)
_ABSENT = re.compile(r"(?P<kind>File|Directory|Dir|Path) '(?P<path>.*)' does not exist\.?$", re.IGNORECASE)
_PLACES = {"file": "file", "path": "file or folder", "dir": "folder", "directory": "folder"}
_COMMAND = re.compile(r"No such command '([^']*)'")
_KINDS = {
    "integer": "a whole number",
    "int": "a whole number",
    "number": "a number",
    "float": "a number",
    "boolean": "true or false",
}
_KIND = re.compile(rf"(?:Input should be|'.*' is not) a valid ({'|'.join(_KINDS)})\b", re.DOTALL)


def wrong_line(error: typer.BadParameter) -> str:
    """The sentence for what typer refuses.

    Parameters
    ----------
    error
        Any of its errors that a command line can cause.
    """
    given = getattr(error, "option_name", None)
    if given and (meant := _long_of(given, _command_line(), _options(error))):
        return f'There is no option {meant[1:]}: did you mean "{meant}"?'
    said = error.format_message()
    if given and said.startswith("No such option"):
        return f"There is no option {given}: {_near(given, error)}"
    if command := _COMMAND.match(said):
        return f'There is no command "{command[1]}": {_near_command(command[1], error)}'
    if extra := _EXTRA.match(said):
        if extra[1][0] in _DASHES:
            return f'"{extra[1]}" begins with the long dash of a text editor: options begin with two short ones, --.'
        return f"This command takes no {extra[1]} here{_instead(extra[1], _options(error))}."
    if hint := _HINT.fullmatch(said):
        also = f" or {hint['variable']}" if hint["variable"] else ""
        said = f"{hint['name']}{also}{_requirement(hint['why'])}"
    return said if said.endswith((".", "?")) else f"{said}."


def _requirement(why: str) -> str:
    """What an option or an argument has to be, behind its name."""
    if bound := _BOUND.search(why):
        least = bound["sign"] == "greater"
        sign = ("at least" if least else "at most") if bound["equal"] else ("more than" if least else "less than")
        return f" has to be {sign} {bound['limit']}"
    if choice := _CHOICE.match(why):
        known = re.findall(r"'([^']*)'", choice["choices"])
        return f' takes {", ".join(known[:-1])} or {known[-1]}, not "{choice["word"]}"'
    if absent := _ABSENT.match(why):
        return f": there is no {_PLACES[absent['kind'].lower()]} {absent['path']}"
    if kind := _KIND.match(why):
        return f" has to be {_KINDS[kind[1]]}"
    return f": {why}"


def _near(given: str, error: typer.BadParameter) -> str:
    """The nearest option, by its name alone, since all begin alike; or the setting of that name."""
    name = given.lstrip("-")
    known = {option.lstrip("-"): option for option in _options(error)}
    if meant := closest(name, known, ALIKE):
        return f'did you mean "{known[meant]}"?'
    context: Any = error.ctx
    places: Mapping[str, str] = context.obj() if context is not None and callable(context.obj) else {}
    if place := places.get(name.replace("-", "_")):
        return f"{place} is a setting of the file that --config names."
    if context is not None and len(known) > MANY:
        return f"{context.command_path} --help lists the {len(known)} that there are."
    return f"there is: {', '.join(sorted(known.values()))}."


def _near_command(given: str, error: typer.BadParameter) -> str:
    """The command of the group with the same meaning or the nearest name, or one of that name elsewhere."""
    here, context = _commands(error), cast("Any", error.ctx)
    almost = closest(given, (word for words in MEANINGS for word in words), ALMOST) or ""
    if meant := _same(given, here) or closest(given, here, ALIKE) or _same(almost, here):
        return f'did you mean "{meant}"?'
    above = context.parent if context is not None else None
    below: list[str] = []
    while above is not None:
        if given in getattr(above.command, "commands", {}):
            return f'did you mean "{above.command_path} {given}"?'
        above = above.parent
    for name in here:
        if given in getattr(context.command.commands[name], "commands", {}):
            below.append(f"{context.command_path} {name} {given}")
    return f"there is: {', '.join(below or sorted(here))}."


def _same(word: str, here: Sequence[str]) -> str | None:
    """The command here that means nearly what this one does elsewhere."""
    words = next((words for words in MEANINGS if word in words), ())
    return next((each for each in words if each in here), None)


def _command_line() -> list[str]:
    return sys.argv[1:]


def _long_of(given: str, typed: Sequence[str], options: Sequence[str]) -> str | None:
    """The long option that somebody wrote with one dash, where `-r` of `-rounds` is refused."""
    for word in typed:
        name = word.partition("=")[0]
        if word.startswith(given) and not word.startswith("--") and f"-{name}" in options:
            return f"-{name}"
    return None


def _instead(word: str, options: list[str]) -> str:
    """What to do with a word too many that is a file or a folder."""
    try:
        path = Path(word)
        is_file, is_folder = path.is_file(), path.is_dir()
    except (OSError, ValueError):
        return ""
    if word.isdecimal() and "--rounds" in options:
        return f"; how many is --rounds {word}"
    if is_folder and "--state" in options:
        return "; a folder of what runs is named by --state"
    if is_folder and "--out" in options:
        return "; a folder of results is named by --out"
    if is_file and path.suffix in {".toml", ".json"} and "--config" in options:
        return "; a file of settings is named by --config"
    return "; where a pattern such as *.tar matches several files, name one" if is_file else ""


def _options(error: typer.BadParameter) -> list[str]:
    """The options of the command that was called."""
    context: Any = error.ctx
    if context is None:
        return []
    return [name for each in context.command.get_params(context) for name in each.opts if name.startswith("--")]


def _commands(error: typer.BadParameter) -> list[str]:
    """The commands of the group that was called, without old names."""
    context: Any = error.ctx
    group = None if context is None else context.command
    return [name for name in group.list_commands(context) if not group.commands[name].hidden] if group else []


def of_the_system(error: OSError) -> str:
    """The sentence for what the system refused, with the path where it names one."""
    name = error.filename
    where = name.decode(errors="replace") if isinstance(name, bytes) else "" if name is None else str(name)
    return f"{where} cannot be used: {because(error)}." if where else f"The system refused: {because(error)}."
