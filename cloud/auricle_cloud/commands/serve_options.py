"""What the command line tells a coordinator: the options of `serve`, which `preflight` takes as well."""

from __future__ import annotations

from pathlib import Path

import msgspec
import typer

from auricle.errors import SettingsError
from auricle.process.options import Given, Option, optional
from auricle.settings import declared
from auricle.wire.kinds import UNDECODABLE
from auricle_cloud.commands.coordinator_settings import STRUCTS

_SETTINGS = {(table, each.name): each for table, struct in STRUCTS.items() for each in declared(struct)}


def _option(
    table: str, name: str, *flags: str, path: bool = False, hidden: bool = False, envvar: str | None = None
) -> tuple[str, Option]:
    return table, optional(_SETTINGS[table, name], *flags, path=path, hidden=hidden, envvar=envvar)


_RULE_OPTION = typer.Option([], "--rule-option", help="NAME=VALUE of the rule; may be given more than once.")

TOLD: tuple[tuple[str, Option], ...] = (
    _option("", "fleet"),
    _option("", "broker"),
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
    _option("rounds", "rule"),
    ("rounds", Option("rule_options", list[str], _RULE_OPTION)),
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


def rule_options(texts: list[str]) -> dict[str, object]:
    """Read `NAME=VALUE` options of a rule; SettingsError for anything else."""
    options: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise SettingsError(f'The rule option "{text}" is not NAME=VALUE, e.g. prune_high=0.2.')
        try:
            options[name] = msgspec.json.decode(value)
        except UNDECODABLE:
            options[name] = value
        except UnicodeEncodeError as error:
            raise SettingsError(f"A rule option is not UTF-8: {name!a}.") from error
    return options


def by_table(given: Given) -> dict[str, dict[str, object]]:
    """What was told, as `read_coordinator` reads it."""
    values: dict[str, dict[str, object]] = {table: {} for table in STRUCTS}
    for table, option in TOLD:
        value = given[option.name]
        values[table][option.name] = str(value) if isinstance(value, Path) else value
    values["rounds"]["rule_options"] = rule_options(msgspec.convert(given["rule_options"], list[str])) or None
    return values
