"""Groups of commands that load a command when it is called, not all of a part when one of it is."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from auricle.errors import AuricleError, SettingsError, extra_command


class MissingPartError(AuricleError):
    """A part whose extra is not installed."""


class Entry(NamedTuple):
    """Where a command is, and what the help of its group says of it: see `command_group`."""

    place: str
    sentence: str


@contextlib.contextmanager
def needs_extra(part: str) -> Iterator[None]:
    """Say of a library that is missing by which extra it comes.

    Raises
    ------
    MissingPartError
        What is imported meanwhile needs a library that is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0].startswith("auricle"):
            raise
        raise MissingPartError(
            f'"auricle {part}" needs {error.name}, which is not installed: {extra_command(part)}'
        ) from error


def command_group(part: str, package: str, places: Mapping[str, Mapping[str, str]]) -> type[TyperGroup]:
    """The class of a part's group, for `typer.Typer(cls=...)`.

    Parameters
    ----------
    part
        Its name, of which a message speaks where a library is missing.
    package
        Where its modules of commands are.
    places
        By place, its commands: name, and the first sentence of its help, "" where it is hidden. A place is a module
        whose `add_to` registers them, or `module:name` of a function or of the group that the command is.
    """
    entries = {
        name: Entry(f"{package}.{place}", sentence)
        for place, commands in places.items()
        for name, sentence in commands.items()
    }

    class CommandGroup(TyperGroup):
        def __init__(self, **given: Any) -> None:  # noqa: ANN401 - typer's own
            super().__init__(**given)
            self.commands = _Commands(part, entries)  # type: ignore[assignment]

        def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - as of typer's or of click's click
            return list(entries)

        def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as above
            with formatter.section("Commands"):
                formatter.write_dl([(name, entry.sentence) for name, entry in entries.items() if entry.sentence])

    return CommandGroup


class _Commands(MutableMapping[str, object]):
    """Commands by name, each loaded when it is first asked for."""

    def __init__(self, part: str, entries: Mapping[str, Entry]) -> None:
        self._part, self.entries = part, entries
        self._loaded: dict[str, object] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - as above
        if name not in self._loaded:
            with needs_extra(self._part):
                self._loaded[name] = _load(name, self.entries[name])
            tidy(self._loaded[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:  # noqa: ANN401 - as above
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"The command {name} is there for good.")

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries


def _load(name: str, entry: Entry) -> Any:  # noqa: ANN401 - as above
    place, _, what = entry.place.partition(":")
    module, app = importlib.import_module(place), typer.Typer(rich_markup_mode=None)
    app.callback()(lambda: None)  # a group, of however many
    if not what:
        module.add_to(app)
    elif isinstance(found := getattr(module, what), typer.Typer):
        app.add_typer(found, name=name, help=entry.sentence)
    else:
        app.command(name)(found)
    return typer.main.get_group(app).commands[name]


def tidy(command: Any) -> None:  # noqa: ANN401 - as above
    """Make help of a command and those below it ours, and its paths; those of groups that load them later, then."""
    _tidy_help(command)
    _refuse_empty_paths(command)
    below = getattr(command, "commands", {})
    for each in {} if isinstance(below, _Commands) else below.values():
        tidy(each)


def first_sentence(command: Any) -> str:  # noqa: ANN401 - as above
    """The first sentence of a command's help."""
    told = " ".join(inspect.cleandoc(command.help or "").split("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z])", told)[0]


def _tidy_help(command: Any) -> None:  # noqa: ANN401 - as above
    """Let help say a command's first sentence whole, which click cuts to one line, and kinds as `<path>`."""
    command.short_help = first_sentence(command) or None
    for parameter in command.params:
        if hasattr(parameter, "display_type"):  # of typer since 0.26
            parameter.display_type = functools.partial(_plain_kind, parameter.display_type)


def _plain_kind(shown: Callable[[Any], str], context: Any) -> str:  # noqa: ANN401 - as above
    """The kind of a value as help says it: `<str>` instead of `<list[str]>`, `<float>` instead of `<float range>`."""
    kind = re.sub(r"^<list\[(.*)\]>$", r"<\1>", shown(context)).replace(" range>", ">")
    return "<path>" if kind == "<Path>" else kind


def _refuse_empty_paths(command: Any) -> None:  # noqa: ANN401 - as above
    """Let no command take "", which a script's unset variable leaves, for the folder that we are in."""
    for parameter in command.params:
        if parameter.type.name in ("path", "file", "directory"):
            parameter.type.convert = functools.partial(_path, parameter.type.convert)


def _path(convert: Callable[..., Any], value: Any, parameter: Any, context: Any) -> Any:  # noqa: ANN401 - as above
    if value == "":
        name = (
            parameter.opts[-1] if parameter.param_type_name == "option" else parameter.human_readable_name.strip("[].")
        )
        raise SettingsError(f"{name} is empty: name a path.")
    return convert(value, parameter, context)
