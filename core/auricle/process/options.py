"""Options of a command that a settings struct declares: name, kind, default and text stand in one place."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

import typer
from typer.core import TyperCommand

from auricle.errors import SettingsError
from auricle.settings import Setting

Command = TypeVar("Command", bound=Callable[..., int])
Function = TypeVar("Function", bound=Callable[..., object])
CommandLineError = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[2])
"""What typer raises for a wrong command line: click's `ClickException`, since typer 0.26 that of its own copy."""
Given = Mapping[str, object]
"""Values of a command line by the options' names."""


@dataclass(frozen=True)
class Option:
    """An option of a command."""

    name: str
    """By which its value is found."""
    kind: object
    """As typer reads it, e.g. `int | None`."""
    said: object
    """What `typer.Option` or `typer.Argument` made."""


def option_of(setting: Setting, *flags: str, kind: object = None) -> Option:
    """The option of a setting, at the setting's default.

    Parameters
    ----------
    flags
        As they are written; without, the setting's name.
    kind
        Another than the setting's, e.g. `Path` where the setting is text.
    """
    return Option(setting.name, kind or setting.kind, typer.Option(setting.default, *flags, help=setting.description))


def optional(
    setting: Setting, *flags: str, path: bool = False, hidden: bool = False, envvar: str | None = None
) -> Option:
    """The option of a setting that is None where it is not given, and says the default where the text does not.

    For settings that a file may give as well.

    Parameters
    ----------
    flags
        As they are written; without, the setting's name.
    path
        Read it as a path, where the setting is text.
    """
    text = setting.description + ("" if setting.default in (None, False) else f"  [{setting.default}]")
    said = typer.Option(None, *flags, help=text, show_default=False, hidden=hidden, envvar=envvar)
    return Option(setting.name, (Path if path else setting.kind) | None, said)


def in_panel(option: Option, panel: str) -> Option:
    """The same option under a heading of its command's help."""
    said = copy.copy(option.said)
    cast("typer.models.OptionInfo", said).rich_help_panel = panel
    return replace(option, said=said)


def with_options(**groups: Sequence[Option]) -> Callable[[Command], Command]:
    """Give a command the options of these groups.

    Each group is a parameter of the function: its options take the parameter's place in the command line, and the
    function gets their values as a mapping by name. TypeError where it has no such parameter.

        @with_options(given=[option_of(setting) for setting in declared(FleetSettings)])
        def run(*, given: Given, out: Path | None = typer.Option(None)) -> int: ...
    """

    def change(function: Command) -> Command:
        hints = get_type_hints(function, include_extras=True)
        for name in groups.keys() - hints.keys():
            raise TypeError(f"{function.__qualname__} has no parameter {name}.")
        parameters: list[inspect.Parameter] = []
        for own in inspect.signature(function).parameters.values():
            if own.name in groups:
                parameters += (_parameter(each.name, each.kind, each.said) for each in groups[own.name])
            else:
                parameters.append(_parameter(own.name, hints[own.name], own.default))

        @functools.wraps(function)
        def command(*first: object, **values: object) -> int:
            told = {name: {each.name: values.pop(each.name) for each in group} for name, group in groups.items()}
            return function(*first, **told, **values)

        return cast("Command", sign(command, parameters))

    return change


class OnceCommand(TyperCommand):
    """A command that refuses an option given twice where it has one value: the first would silently not count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own copy of click, or click
        """Read a command line; SettingsError names what stands in it twice."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for each in given:
            option: Any = each
            takes_one = option.param_type_name == "option" and not (option.multiple or option.is_flag)
            if takes_one and given.count(each) > 1:
                raise SettingsError(f"{each.opts[-1]} is given twice, and takes one value: name it once.")
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as above
        """Write what help says of arguments and options, those of a panel under its name."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for each in self.get_params(ctx):
            row = each.get_help_record(ctx)
            if row is not None:
                usual = "Arguments" if each.param_type_name == "argument" else "Options"
                sections.setdefault(getattr(each, "rich_help_panel", None) or usual, []).append(row)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def sign(command: Function, parameters: Iterable[inspect.Parameter]) -> Function:
    """Let a function say that it has these parameters, by which typer makes its command line; the function itself."""
    signed: Any = command
    signed.__signature__ = signature = inspect.Signature(list(parameters))
    signed.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
    return command


def _parameter(name: str, kind: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
