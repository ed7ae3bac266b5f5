"""What the command line tells a coordinator: the options of `serve`, which `preflight` takes as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import typer

from auricle.errors import SettingsError
from auricle.process.options import CommandLineError, Given, OnceCommand, Option, optional
from auricle.settings import list_settings
from auricle.wire.kinds import UNDECODABLE
from auricle_cloud.commands.coordinator_settings import STRUCTS
from auricle_learning.methods import get_rule, rule_names

_SETTINGS = {(table, each.name): each for table, struct in STRUCTS.items() for each in list_settings(struct)}


def _option(
    table: str, name: str, *flags: str, path: bool = False, hidden: bool = False, envvar: str | None = None
) -> tuple[str, Option]:
    return table, optional(_SETTINGS[table, name], *flags, path=path, hidden=hidden, envvar=envvar)


METHOD_OPTIONS = Option(
    "method_options",
    list[str],
    typer.Option([], "--method-option", help="NAME=VALUE of the method; may be given more than once."),
)


class MethodCommand(OnceCommand):
    """A command that takes `--method-option`, and says so to who writes a method's option as one of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as of `OnceCommand`
        """Read a command line; SettingsError for an option of a method."""
        try:
            return super().parse_args(ctx, args)
        except CommandLineError as error:
            name = str(getattr(error, "option_name", None) or "").lstrip("-").replace("-", "_")
            if not (having := [rule for rule in rule_names() if name in get_rule(rule).settings]):
                raise
            whose = f"the methods {', '.join(having)}" if len(having) > 1 else f"the method {having[0]}"
            raise SettingsError(f"{name} is an option of {whose}: say --method-option {name}=VALUE.") from error


TOLD: tuple[tuple[str, Option], ...] = (
    _option("", "fleet"),
    _option("", "broker"),
    _option("", "worker", hidden=True),
    _option("", "region", hidden=True),
    _option("", "state", path=True, envvar="AURICLE_STATE"),
    _option("", "pack"),
    _option("", "pack_key", hidden=True),
    _option("", "task", hidden=True),
    _option("rounds", "rounds"),
    _option("rounds", "devices"),
    _option("rounds", "gather", hidden=True),
    _option("", "approval"),
    _option("rounds", "mode"),
    _option("buffer", "size", "--buffer", hidden=True),
    _option("buffer", "stale_limit", hidden=True),
    _option("rounds", "participation"),
    _option("rounds", "over_selection", hidden=True),
    _option("rounds", "quorum", hidden=True),
    _option("rounds", "deadline"),
    _option("rounds", "method"),
    ("rounds", METHOD_OPTIONS),
    _option("rounds", "preset"),
    _option("rounds", "server_rate", hidden=True),
    _option("rounds", "codec", hidden=True),
    _option("detection", "enabled", "--detect/--no-detect"),
    _option("detection", "one_phase", "--one-phase/--two-phase", hidden=True),
    _option("", "validation", path=True),
    _option("", "labelled", path=True),
    _option("detection", "repair", hidden=True),
    _option("detection", "margin", hidden=True),
    _option("detection", "quarantine_after", hidden=True),
    _option("privacy", "clip", "--dp-clip", hidden=True),
    _option("privacy", "noise", "--dp-noise", hidden=True),
    _option("privacy", "budget", "--dp-budget", hidden=True),
    _option("privacy", "delta", "--dp-delta", hidden=True),
    _option("privacy", "view", "--dp-view", hidden=True),
    _option("secure_sum", "on", "--secure-sum/--no-secure-sum", hidden=True),
    _option("secure_sum", "bound", "--secure-sum-bound", hidden=True),
    _option("secure_sum", "wait", "--secure-sum-wait", hidden=True),
    _option("secure_sum", "bucket", "--secure-sum-bucket", hidden=True),
    _option("", "compute", hidden=True),
    _option("", "start"),
    _option("", "seed", hidden=True),
    _option("storage", "database", envvar="AURICLE_DATABASE"),
    _option("storage", "blobs", envvar="AURICLE_BLOBS", hidden=True),
    _option("storage", "keep_models", hidden=True),
    _option("storage", "keep_hearing", hidden=True),
    _option("api", "listen"),
    _option("api", "certificate", path=True),
    _option("api", "key", path=True),
    _option("api", "metrics_open", "--metrics-open/--metrics-closed", hidden=True),
)
"""Options of `serve`, each with the table that its setting stands in; the others are for a file."""


def method_options(texts: list[str]) -> dict[str, object]:
    """Read `NAME=VALUE` options of a method; SettingsError for anything else."""
    options: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise SettingsError(f'The option "{text}" of the method is not NAME=VALUE, e.g. prune_high=0.2.')
        try:
            options[name] = msgspec.json.decode(value)
        except UNDECODABLE:
            options[name] = value
        except UnicodeEncodeError as error:
            raise SettingsError(f"An option of the method is not UTF-8: {name!a}.") from error
    return options


def by_table(given: Given) -> dict[str, dict[str, object]]:
    """What was told, as `read_coordinator` reads it."""
    values: dict[str, dict[str, object]] = {table: {} for table in STRUCTS}
    told = dict(given)
    for table, option in TOLD:
        if option.name in told:
            value = told[option.name]
            values[table][option.name] = str(value) if isinstance(value, Path) else value
    options = method_options(msgspec.convert(told["method_options"], list[str]))
    values["rounds"]["method_options"] = options or None
    return values
