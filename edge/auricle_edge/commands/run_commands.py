"""`auricle edge run`: the service of one device."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import typer
from msgspec.structs import fields

from auricle.errors import SettingsError
from auricle.process import ending
from auricle_edge.commands.place import CONFIG_HELP, CONFIG_VARIABLE, config_file
from auricle_edge.settings import TABLES, EdgeSettings, agent_settings, read_settings


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(context_settings={"obj": _places})(run)


def _places() -> dict[str, str]:
    """Where a setting that is not an option stands in the file of --config, by its name."""
    tables = {field.name: f"[{table}] {field.name}" for table, kind in TABLES.items() for field in fields(kind)}
    return {**tables, **{field.name: field.name for field in fields(EdgeSettings)}}


def run(
    config: Path | None = typer.Option(None, envvar=CONFIG_VARIABLE, help=f"{CONFIG_HELP} Options override it."),
    device: str | None = typer.Option(None, help="Name of this device, 4 to 64 of a-z, 0-9 and hyphen."),
    state: str | None = typer.Option(None, help="Folder for key, models, outbox and clips."),
    source: str | None = typer.Option(
        None, help="What it listens to: mic, mic:NAME, alsa:CARD=ID, arecord:PCM, file:PATH, folder:PATH, fifo:PATH."
    ),
    fleet: str | None = typer.Option(None, help="Name of the fleet; without one it listens and does not train."),
    broker: str | None = typer.Option(
        None, help="mqtt://user:password@host:port; the password may be left to AURICLE_PASSWORD."
    ),
    coordinator: str | None = typer.Option(None, help="Public key of the coordinator, 64 hexadecimal digits."),
    home: bool = typer.Option(
        False, "--home", help="Join the home whose hub this network has: the first time by the code that the hub shows."
    ),
    code: str | None = typer.Option(None, help="With --home: the hub's code [asked for]."),
    hub: str | None = typer.Option(None, help="With --home: https://ADDRESS:8443 of the hub [found by mDNS]."),
    data: str | None = typer.Option(
        None,
        help="Learn from this folder of labelled recordings, <word>/<speaker>_nohash_<n>.(wav|flac), or this list of "
        "them in CSV, instead of listening.",
    ),
    pack: str | None = typer.Option(
        None, help="home, home-more, gsc12-res, gsc12, gsc35, digits, a folder or a .tar.zst [home]."
    ),
    pack_key: str | None = typer.Option(None, help="Public key in hex: refuse a pack that it has not signed."),
    local: str | None = typer.Option(None, help="The device's own model [the pack's larger model]."),
    runtime: str | None = typer.Option(None, help="auto, step, native or ort-training [auto]."),
    speaker: str | None = typer.Option(None, help="With --data: use this speaker's clips only."),
    threads: int | None = typer.Option(None, help="Threads inside one operator [1]."),
    start: str | None = typer.Option(
        None, help="Local model's first weights: pack (trained) or scratch (seeded noise) [pack where it has some]."
    ),
    seed: int | None = typer.Option(None, help="Of the local model's first weights [0]."),
    report_hearing: bool = typer.Option(
        False, "--report-hearing", help="Tell the coordinator coarse figures of what is heard, see [report]."
    ),
    verbose: bool = typer.Option(
        False,
        "--verbose",
        help="Log what happens, not only what goes wrong, and say which models and runtime are used.",
    ),
    as_json: bool = typer.Option(
        False, "--json", help="Print what the device starts with as JSON, and also at a terminal what it hears."
    ),
) -> int:
    """Listen, learn and take part in a fleet until interrupted.

    What it hears is a line each on standard output: for a person at a terminal, else JSON.
    """
    given = {
        "device": device,
        "fleet": fleet,
        "broker": broker,
        "coordinator": coordinator,
        "data": data,
        "state": state,
        "pack": pack,
        "pack_key": pack_key,
        "local": local,
        "runtime": runtime,
        "speaker": speaker,
        "threads": threads,
        "start": start,
        "seed": seed,
        "source": source,
        "report_hearing": report_hearing or None,
    }
    if verbose:
        logging.getLogger("auricle").setLevel(logging.INFO)
    if home:
        from auricle_edge.commands.joining import enter_home

        given |= {"state": str(enter_home(state, config, code, hub, device)), "home": True}
    elif code is not None or hub is not None:
        raise SettingsError("--code and --hub are for --home: add it.")
    settings = read_settings(config_file(config), {name: value for name, value in given.items() if value is not None})
    agent_settings(settings)  # refused before anything is made
    if settings.data is not None:
        from auricle_edge.service.training_service import train_only

        train_only(settings, as_json, verbose)
        return 0
    encoded = msgspec.json.encode(settings)
    told = [option for option, wanted in (("--json", as_json), ("--verbose", verbose)) if wanted]
    ending.become_module("auricle_edge.service.process", encoded, *told)
    from auricle_edge.service.process import serve  # where this process is not the command's own

    again: bytes | None = encoded
    while again is not None:
        again = serve(again, as_json, verbose)
    return 0
