"""`auricle cloud serve`: runs the coordinator."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

import msgspec
import typer

from auricle.checks.pack_checks import require_sound
from auricle.errors import SettingsError
from auricle.packs.first_weights import chosen_weights
from auricle.packs.pack import DEFAULT_PACK, Pack, load_pack
from auricle.packs.signature import trusted_key
from auricle.process.until_signal import broker_of
from auricle.settings import from_mapping
from auricle.wire.messages import Count, FleetName, Seconds
from auricle.wire.messages import Token as Name
from auricle_cloud.aggregation.presets import get_preset
from auricle_cloud.api.api_settings import ApiSettings
from auricle_cloud.link.messenger import NAME
from auricle_cloud.service import Started, listen_address, run_service
from auricle_cloud.settings import Buffer, Detection, RoundDone, RunSettings

Approval = Literal["manual", "auto"]
Mode = Literal["sync", "async"]
Repair = Literal["re-aggregate", "hotfix"]


class OnTheWire(msgspec.Struct, frozen=True):
    """Options that travel in messages: what a device would refuse there is refused here."""

    fleet: FleetName
    seed: Count
    deadline: Seconds
    task: Name


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
    broker: str = typer.Option(
        ..., help="mqtt://user:password@host:port; the password may be left to AURICLE_PASSWORD."
    ),
    fleet: str = typer.Option(..., help="Name of the fleet."),
    state: Path = typer.Option(..., envvar="AURICLE_STATE", help="Folder for key, database and models."),
    pack: str = typer.Option(DEFAULT_PACK, help="home, gsc12-res, gsc12, gsc35, digits, a folder or a .tar.zst."),
    pack_key: str | None = typer.Option(None, help="Public key in hex: refuse a pack that it has not signed."),
    task: str = typer.Option("keywords", help="Name of what is trained."),
    rounds: int | None = typer.Option(None, help="Run so many rounds in all and leave [wait for operators]."),
    devices: int = typer.Option(1, help="With --rounds: devices to wait for before the first."),
    gather: float = typer.Option(120.0, help="Seconds to wait for them."),
    approval: Approval = typer.Option("manual", help="manual: a new device waits for an operator; auto: it does not."),
    mode: Mode = typer.Option(
        "sync", help="sync, or async: a model from every --buffer updates, nobody is waited for."
    ),
    buffer: int = typer.Option(10, help="Updates a model is made of, with --mode async."),
    stale_limit: int = typer.Option(20, help="Models an update may be behind, with --mode async."),
    participation: float = typer.Option(1.0, help="Share of the devices wanted in a round."),
    over_selection: float = typer.Option(1.0, help="Invite so many times more, and close when enough have answered."),
    quorum: float = typer.Option(0.7, help="Share of the invited that is enough to close a round that has waited."),
    deadline: float = typer.Option(300.0, help="Seconds after which a round closes."),
    rule: str | None = typer.Option(None, help="How updates are averaged, see docs/rules.md [the preset's]."),
    rule_option: list[str] = typer.Option([], help="NAME=VALUE of the rule; may be given more than once."),
    preset: str = typer.Option(
        "practical", help="practical, paper (FedMLAC's own settings), or fedavg (the tuned baseline)."
    ),
    server_rate: float | None = typer.Option(
        None, help="Learning rate of the server's optimizer [the preset's; from trained weights a gentle step]."
    ),
    detect: bool = typer.Option(False, "--detect", help="Two-phase rounds: compare losses, find who poisons, repair."),
    one_phase: bool = typer.Option(
        False, "--one-phase", help="With --detect: compare the losses that come with the updates, after training."
    ),
    validation: Path | None = typer.Option(None, help="Your labelled clips, <word>/<speaker>_nohash_<n>.wav."),
    repair: Repair = typer.Option("re-aggregate", help="re-aggregate, or hotfix."),
    margin: float = typer.Option(0.01, help="Accuracy a device must have cost to be called harmful."),
    quarantine_after: int = typer.Option(0, help="Harmful rounds after which a device is quarantined; 0: never."),
    compute: str = typer.Option("auto", help="Where rules and evaluation compute: auto, cpu or cuda."),
    start: str | None = typer.Option(
        None, help="First model: pack (the pack's trained weights) or scratch (seeded noise) [pack where it has some]."
    ),
    seed: int = typer.Option(0, help="Decides the first model and who is invited."),
    database: str | None = typer.Option(None, envvar="AURICLE_DATABASE", help="postgresql:// URL [SQLite in --state]."),
    blobs: str | None = typer.Option(None, envvar="AURICLE_BLOBS", help="s3:// or other fsspec URL [--state/blobs]."),
    keep_models: int = typer.Option(100, help="Newest models kept."),
    keep_hearing: float = typer.Option(35.0, help="Days for which reports of hearing are kept."),
    listen: str = typer.Option("127.0.0.1:8080", help="HOST:PORT of API and page, or none."),
    certificate: Path | None = typer.Option(None, help="PEM chain for the API; needed off loopback."),
    key: Path | None = typer.Option(None, help="Its private key, if it is another file."),
    metrics_open: bool = typer.Option(False, "--metrics-open", help="Serve /metrics without a token."),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object a round."),
) -> int:
    """Run a task's rounds, and serve API and page."""
    from_mapping(OnTheWire, {"fleet": fleet, "seed": seed, "deadline": deadline, "task": task}, "command line")
    chosen = get_preset(preset)
    if rule is not None or rule_option:
        chosen = replace(chosen, rule=rule or chosen.rule, rule_options=rule_options(rule_option))
    loaded = load_pack(pack, trusted_key(pack_key))
    require_sound(loaded)
    first = chosen_weights(start, loaded, loaded.manifest.plugin, seed)
    chosen = chosen.fitted(trained=first is not None, server_rate=server_rate)
    address = listen_address(listen)
    api = None if address is None else ApiSettings(*address, certificate, key, metrics_open)
    if one_phase and not detect:
        raise SettingsError("--one-phase says how to detect: add --detect.")
    detection = Detection(repair, margin=margin, quarantine_after=quarantine_after, one_phase=one_phase)
    settings = RunSettings(
        fleet=fleet,
        broker=broker_of(broker, NAME, state),
        folder=state,
        rounds=rounds,
        task=task,
        preset=chosen,
        participation=participation,
        over_selection=over_selection,
        quorum=quorum,
        deadline=deadline,
        devices=devices,
        gather=gather,
        seed=seed,
        start=first,
        mode=mode,
        buffer=Buffer(buffer, stale_limit),
        approval=approval,
        database=database,
        blobs=blobs,
        compute=compute,
        detection=detection if detect else None,
        validation=validation,
        keep_models=keep_models,
        keep_hearing=keep_hearing,
    )
    greet, tell = (lambda said: _greet(said, settings, loaded, as_json)), (lambda done: _tell(done, as_json))
    asyncio.run(run_service(settings, loaded, api, greet, tell))
    return 0


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
