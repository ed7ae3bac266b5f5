"""`auricle cloud serve`: runs the coordinator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import msgspec
import typer
from msgspec.structs import replace

from auricle.checks.pack_checks import require_sound
from auricle.errors import SettingsError
from auricle.files import be_private, make_private
from auricle.packs.first_weights import chosen_weights
from auricle.packs.pack import Pack, load_pack
from auricle.packs.signature import trusted_key
from auricle.process.options import Given, Option, optional, with_options
from auricle.settings import declared
from auricle_cloud.commands.coordinator_settings import (
    STRUCTS,
    CoordinatorSettings,
    all_settings,
    read_coordinator,
    template,
)
from auricle_cloud.commands.embedded_broker import EMBEDDED, embedded_broker
from auricle_cloud.service import Started, run_service
from auricle_cloud.settings import RoundDone, RunSettings

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
    _option("detection", "enabled", "--detect/--no-detect"),
    _option("detection", "one_phase", "--one-phase/--two-phase", hidden=True),
    _option("", "validation", path=True),
    _option("detection", "repair", hidden=True),
    _option("detection", "margin", hidden=True),
    _option("detection", "quarantine_after", hidden=True),
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
        except msgspec.DecodeError:
            options[name] = value
    return options


@with_options(given=[option for _, option in TOLD])
def serve(
    *,
    config: Path | None = typer.Option(None, help="A coordinator.toml; auricle cloud settings prints one."),
    given: Given,
    embedded_device: list[str] = typer.Option(
        [], help="With --broker embedded: name of a device; several are allowed [device-1 to device-10]."
    ),
    embedded_port: int = typer.Option(18830, help="With --broker embedded: its port on 127.0.0.1; 0: any free one."),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object a round."),
) -> int:
    """Run a task's rounds, and serve API and page. Every setting fits into --config; options count above it."""
    told = read_coordinator(config, _by_table(given))
    told.require()
    if given["one_phase"] and not told.detection.enabled:
        raise SettingsError("--one-phase says how to detect: add --detect.")
    loaded = load_pack(told.pack, trusted_key(told.pack_key))
    require_sound(loaded)
    if (api := told.api_settings()) is not None:
        api.tls()
    be_private()
    make_private(Path(told.state or "") / "blobs")
    if told.broker == EMBEDDED:
        assert told.state is not None
        assert told.fleet is not None
        with embedded_broker(Path(told.state) / "broker", told.fleet, embedded_device, embedded_port) as addresses:
            _say_addresses(addresses, as_json)
            _run(replace(told, broker=addresses["coordinator"]), loaded, as_json)
        return 0
    _run(told, loaded, as_json)
    return 0


def _run(told: CoordinatorSettings, loaded: Pack, as_json: bool) -> None:
    settings = told.run_settings(chosen_weights(told.start, loaded, loaded.manifest.plugin, told.seed))
    greet, tell = (lambda said: _greet(said, settings, loaded, as_json)), (lambda done: _tell(done, as_json))
    asyncio.run(run_service(settings, loaded, told.api_settings(), greet, tell))


def _say_addresses(addresses: Mapping[str, str], as_json: bool) -> None:
    """Where devices of this machine connect."""
    if as_json:
        typer.echo(json.dumps({"embedded_broker": dict(addresses)}))
        return
    typer.echo("An embedded broker runs on 127.0.0.1. Devices, with --broker:")
    for name, address in addresses.items():
        if name != "coordinator":
            typer.echo(f"  {address}")


def settings(
    as_json: bool = typer.Option(False, "--json", help="Print JSON: table, name, default and text of each."),
) -> int:
    """Print a coordinator.toml with every setting, its default and what it is for."""
    typer.echo(json.dumps([each._asdict() for each in all_settings()]) if as_json else template(), nl=as_json)
    return 0


def _by_table(given: Given) -> dict[str, dict[str, object]]:
    values: dict[str, dict[str, object]] = {table: {} for table in STRUCTS}
    for table, option in TOLD:
        value = given[option.name]
        values[table][option.name] = str(value) if isinstance(value, Path) else value
    values["rounds"]["rule_options"] = rule_options(msgspec.convert(given["rule_options"], list[str])) or None
    return values


def _greet(said: Started, settings: RunSettings, pack: Pack, as_json: bool) -> None:
    name, identity, rates = pack.manifest.name, pack.identity, settings.preset.rates()
    start = "scratch" if settings.start is None else "pack"
    line = {
        "coordinator": said.key,
        "epoch": said.epoch,
        "page": said.page,
        "pack": identity,
        "pack_name": name,
        "start": start,
        "rates": asdict(rates),
    }
    page = "" if said.page is None else f"\npage and API at {said.page}; a token: auricle cloud tokens create NAME"
    began = "seeded noise" if settings.start is None else "trained weights"
    text = f"coordinator {said.key}, epoch {said.epoch}, pack {name} ({identity[:12]})\nfrom {began}: {rates}{page}"
    typer.echo(json.dumps(line) if as_json else text)


async def _tell(done: RoundDone, as_json: bool) -> None:
    line = {
        "round": done.number,
        "rounds": done.rounds,
        "state": done.state,
        "invited": done.invited,
        "counted": done.counted,
        "seconds": round(done.seconds, 3),
    }
    text = f"round {done.number} {done.state}: {done.counted} of {done.invited} counted in {done.seconds:.1f} s" + (
        f", accuracy {done.report['accuracy']:.3f}" if done.report.get("accuracy") is not None else ""
    )
    typer.echo(json.dumps(line) if as_json else text)
