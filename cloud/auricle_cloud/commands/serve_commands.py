"""`auricle cloud serve`: runs the coordinator."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
import typer
from msgspec.structs import replace

from auricle import __version__
from auricle.checks.pack_checks import require_sound
from auricle.errors import SettingsError, StorageError
from auricle.files import be_private, make_private, read_kept, write_whole
from auricle.mqtt_link.private_link import broker_of
from auricle.packs.first_weights import choose_weights
from auricle.packs.pack import Pack, load_pack
from auricle.packs.signature import read_trusted_key
from auricle.process.options import Given, with_options
from auricle_cloud.api.api_settings import ApiSettings, require_address
from auricle_cloud.commands.coordinator_settings import (
    CoordinatorSettings,
    all_settings,
    read_coordinator,
    template,
)
from auricle_cloud.commands.embedded_broker import EMBEDDED, EmbeddedBroker, embedded_broker
from auricle_cloud.commands.serve_options import TOLD, MethodCommand, by_table
from auricle_cloud.evaluation.evaluator import Evaluator
from auricle_cloud.settings import NAME, RoundDone, RunSettings
from auricle_cloud.states.round import counted_words
from auricle_cloud.storage.state_folders import require_unserved, serving

if TYPE_CHECKING:
    from auricle_cloud.commands.home import HomeHub
    from auricle_cloud.service import Started

DEFAULT_PORT = 18830
SOUND = "sound-pack"
"""In the state folder, see `require_sound_once`."""
NOT_STARTED = "mqtt://127.0.0.1"
"""Stands for the embedded broker until all other settings are known to be good and it is started."""


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("serve", cls=MethodCommand)(serve)
    app.command("settings")(settings)


@with_options(given=[option for _, option in TOLD])
def serve(
    *,
    config: Path | None = typer.Option(None, help="A coordinator.toml; auricle cloud settings prints one."),
    given: Given,
    embedded_device: list[str] = typer.Option(
        [], help="With --broker embedded: name of a device; several are allowed [device-1 to device-10]."
    ),
    embedded_port: int | None = typer.Option(
        None, help="With --broker embedded: its port on 127.0.0.1; 0: any free one [18830]; with --home [8883]."
    ),
    home: bool = typer.Option(
        False,
        "--home",
        help="Be the hub of a home: broker, certificates, rounds by night, backups, and a code for devices.",
    ),
    host: list[str] = typer.Option([], help="With --home: name or address of this machine; several [those of now]."),
    take_over: bool = typer.Option(False, "--take-over", help="Replace a coordinator that serves this state."),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object a round."),
) -> int:
    """Run a task's rounds, and serve API and page. Every setting fits into --config; options override it."""
    from auricle_cloud.service import open_evaluator  # what serves takes longer to load than most commands take

    if home:
        if config is not None or take_over:
            raise SettingsError("--home has its settings in its folder, and takes over from nobody.")
        return _serve_home(given, host, embedded_port, as_json)
    if host:
        raise SettingsError("--host is for --home: add it.")
    told = read_coordinator(config, by_table(given))
    is_embedded = told.broker == EMBEDDED
    settings, loaded, api = _read(replace(told, broker=NOT_STARTED) if is_embedded else told, given)
    if settings.worker is not None and (is_embedded or take_over):
        raise SettingsError("A worker needs a broker of its own, and who leads decides: leave out --take-over.")
    alone = settings.worker is None
    with serving(settings.folder, take_over=take_over) if alone else nullcontext():
        if api is not None and alone and not take_over:
            require_address(api)
        evaluator = open_evaluator(settings, loaded)
        if not is_embedded:
            _run(settings, loaded, api, evaluator, take_over, as_json)
            return 0
        port = DEFAULT_PORT if embedded_port is None else embedded_port
        with embedded_broker(settings.folder / "broker", settings.fleet, embedded_device, port) as broker:
            _say_addresses(broker, as_json)
            address = broker_of(broker.coordinator, NAME, settings.folder)
            _run(dataclasses.replace(settings, broker=address), loaded, api, evaluator, take_over, as_json)
    return 0


def _serve_home(given: Given, hosts: list[str], port: int | None, as_json: bool) -> int:
    from auricle_cloud.commands.home import home_folder, home_hub, use_hub  # as above
    from auricle_cloud.service import open_evaluator

    be_private()
    folder = home_folder(cast("Path | None", given["state"]))
    with serving(folder, take_over=False), home_hub(folder, by_table(given), hosts, port) as (hub, wanted):
        settings, loaded, api = _read(wanted, given)
        assert api is not None
        require_address(api)
        use_hub(folder)
        _run(settings, loaded, api, open_evaluator(settings, loaded), False, as_json, hub)
    return 0


def _read(wanted: CoordinatorSettings, given: Given) -> tuple[RunSettings, Pack, ApiSettings | None]:
    """What serves: the run, its pack, its API; all of it is checked."""
    wanted.require()
    if given["one_phase"] and not wanted.detection.enabled:
        raise SettingsError("--one-phase says how to detect: add --detect.")
    loaded = load_pack(wanted.pack, read_trusted_key(wanted.pack_key))
    if (api := wanted.api_settings()) is not None:
        api.tls()
    start = choose_weights(wanted.start, loaded, loaded.manifest.plugin, wanted.seed)
    settings = wanted.run_settings(start)
    be_private()
    require_sound_once(loaded, settings.folder / SOUND)
    make_private(settings.folder / "blobs")
    return settings, loaded, api


def require_sound_once(pack: Pack, note: Path) -> None:
    """Judge a pack, unless a file of the state says that this version did: that takes seconds in which rounds wait.

    Raises
    ------
    PackError
        As of `require_sound`; then nothing is noted.
    """
    word = f"{pack.identity} {__version__}\n".encode()
    with contextlib.suppress(OSError, StorageError):
        if read_kept(note) == word:
            return
    require_sound(pack)
    with contextlib.suppress(StorageError):  # it is judged again the next time
        write_whole(note, word, durable=False)


def _run(
    settings: RunSettings,
    loaded: Pack,
    api: ApiSettings | None,
    evaluator: Evaluator | None,
    take_over: bool,
    as_json: bool,
    hub: HomeHub | None = None,
) -> None:
    from auricle_cloud.service import run_service

    if settings.database is not None and settings.worker is None and not take_over:
        require_unserved(settings.database, settings.folder)

    def greet(said: Started) -> None:
        _greet(said if hub is None or as_json else dataclasses.replace(said, page=None), settings, loaded, as_json)
        if hub is not None:
            _say_hub(hub, as_json)

    async def tell(done: RoundDone) -> None:
        await _tell(done, as_json)

    asyncio.run(run_service(settings, loaded, api, evaluator, greet, tell, take_over=take_over))


def _say_addresses(broker: EmbeddedBroker, as_json: bool) -> None:
    """Where devices of this machine connect; JSON is often logged, so that it names the file with the passwords."""
    if as_json:
        typer.echo(json.dumps({"embedded_broker": broker.without_passwords(), "passwords": broker.passwords}))
        return
    typer.echo("An embedded broker runs on 127.0.0.1. Devices, with --broker:")
    for address in broker.devices.values():
        typer.echo(f"  {address}")
    typer.echo(f"Their passwords are kept in {broker.passwords}.")


def _say_hub(hub: HomeHub, as_json: bool) -> None:
    typer.echo(json.dumps({"home": msgspec.to_builtins(hub)}) if as_json else "\n".join(hub.sentences()))


def settings(
    as_json: bool = typer.Option(False, "--json", help="Print JSON: table, name, default and text of each."),
) -> int:
    """Print a coordinator.toml with every setting, its default and what it is for."""
    typer.echo(json.dumps([each._asdict() for each in all_settings()]) if as_json else template(), nl=as_json)
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
        "left_out": done.left_out,
        "seconds": round(done.seconds, 3),
    }
    words = counted_words(done.counted, done.invited, done.left_out)
    text = f"round {done.number} {done.state}: {words} in {done.seconds:.1f} s" + (
        f", accuracy {done.report['accuracy']:.3f}" if done.report.get("accuracy") is not None else ""
    )
    typer.echo(json.dumps(line) if as_json else text)
