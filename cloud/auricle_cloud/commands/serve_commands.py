"""`auricle cloud serve`: runs the coordinator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import msgspec
import typer
from msgspec.structs import replace

from auricle.checks.pack_checks import require_sound
from auricle.errors import SettingsError
from auricle.packs.first_weights import chosen_weights
from auricle.packs.pack import Pack, load_pack
from auricle.packs.signature import trusted_key
from auricle_cloud.commands.coordinator_settings import CoordinatorSettings, all_settings, read_coordinator, template
from auricle_cloud.commands.embedded_broker import EMBEDDED, embedded_broker
from auricle_cloud.service import Started, run_service
from auricle_cloud.settings import RoundDone, RunSettings

_SETTINGS = {(each.table, each.name): each for each in all_settings()}


def _option(table: str, name: str, *flags: str, hidden: bool = False, envvar: str | None = None) -> Any:  # noqa: ANN401  # typer declares what it returns as Any
    """An option of a setting, which says its default where its text does not."""
    setting = _SETTINGS[table, name]
    default = "" if setting.default in (None, False) else f"  [{setting.default}]"
    return typer.Option(
        None, *flags, help=setting.description + default, hidden=hidden, show_default=False, envvar=envvar
    )


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


def serve(
    config: Path | None = typer.Option(None, help="A coordinator.toml; auricle cloud settings prints one."),
    fleet: str | None = _option("", "fleet"),
    broker: str | None = _option("", "broker"),
    embedded_device: list[str] = typer.Option(
        [], help="With --broker embedded: name of a device; several are allowed [device-1 to device-10]."
    ),
    embedded_port: int = typer.Option(18830, help="With --broker embedded: its port on 127.0.0.1; 0: any free one."),
    state: Path | None = _option("", "state", envvar="AURICLE_STATE"),
    pack: str | None = _option("", "pack"),
    pack_key: str | None = _option("", "pack_key", hidden=True),
    task: str | None = _option("", "task", hidden=True),
    rounds: int | None = _option("rounds", "rounds"),
    devices: int | None = _option("rounds", "devices"),
    gather: float | None = _option("rounds", "gather", hidden=True),
    approval: Literal["manual", "claimed", "auto"] | None = _option("", "approval"),
    mode: Literal["sync", "async"] | None = _option("rounds", "mode"),
    buffer: int | None = _option("buffer", "size", "--buffer", hidden=True),
    stale_limit: int | None = _option("buffer", "stale_limit", hidden=True),
    participation: float | None = _option("rounds", "participation"),
    over_selection: float | None = _option("rounds", "over_selection", hidden=True),
    quorum: float | None = _option("rounds", "quorum", hidden=True),
    deadline: float | None = _option("rounds", "deadline"),
    rule: str | None = _option("rounds", "rule"),
    rule_option: list[str] = typer.Option([], help="NAME=VALUE of the rule; may be given more than once."),
    preset: str | None = _option("rounds", "preset"),
    server_rate: float | None = _option("rounds", "server_rate", hidden=True),
    detect: bool | None = _option("detection", "enabled", "--detect/--no-detect"),
    one_phase: bool | None = _option("detection", "one_phase", "--one-phase/--two-phase", hidden=True),
    validation: Path | None = _option("", "validation"),
    repair: Literal["re-aggregate", "hotfix"] | None = _option("detection", "repair", hidden=True),
    margin: float | None = _option("detection", "margin", hidden=True),
    quarantine_after: int | None = _option("detection", "quarantine_after", hidden=True),
    compute: str | None = _option("", "compute", hidden=True),
    start: str | None = _option("", "start"),
    seed: int | None = _option("", "seed", hidden=True),
    database: str | None = _option("storage", "database", envvar="AURICLE_DATABASE"),
    blobs: str | None = _option("storage", "blobs", envvar="AURICLE_BLOBS", hidden=True),
    keep_models: int | None = _option("storage", "keep_models", hidden=True),
    keep_hearing: float | None = _option("storage", "keep_hearing", hidden=True),
    listen: str | None = _option("api", "listen"),
    certificate: Path | None = _option("api", "certificate"),
    key: Path | None = _option("api", "key"),
    metrics_open: bool | None = _option("api", "metrics_open", "--metrics-open/--metrics-closed", hidden=True),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object a round."),
) -> int:
    """Run a task's rounds, and serve API and page. Every setting fits into --config; options count above it."""
    given: dict[str, dict[str, object]] = {
        "": {
            "fleet": fleet,
            "broker": broker,
            "state": _text(state),
            "pack": pack,
            "pack_key": pack_key,
            "task": task,
            "approval": approval,
            "start": start,
            "seed": seed,
            "compute": compute,
            "validation": _text(validation),
        },
        "rounds": {
            "rounds": rounds,
            "devices": devices,
            "gather": gather,
            "mode": mode,
            "preset": preset,
            "rule": rule,
            "rule_options": rule_options(rule_option) or None,
            "server_rate": server_rate,
            "participation": participation,
            "over_selection": over_selection,
            "quorum": quorum,
            "deadline": deadline,
        },
        "detection": {
            "enabled": detect,
            "one_phase": one_phase,
            "repair": repair,
            "margin": margin,
            "quarantine_after": quarantine_after,
        },
        "buffer": {"size": buffer, "stale_limit": stale_limit},
        "api": {
            "listen": listen,
            "certificate": _text(certificate),
            "key": _text(key),
            "metrics_open": metrics_open,
        },
        "storage": {
            "database": database,
            "blobs": blobs,
            "keep_models": keep_models,
            "keep_hearing": keep_hearing,
        },
    }
    told = read_coordinator(config, given)
    told.require()
    if one_phase and not told.detection.enabled:
        raise SettingsError("--one-phase says how to detect: add --detect.")
    loaded = load_pack(told.pack, trusted_key(told.pack_key))
    require_sound(loaded)
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


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


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
