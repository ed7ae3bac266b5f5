"""`auricle edge run`: the service of one device."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import typer
from msgspec.structs import fields

from auricle.packs.first_weights import choose_weights
from auricle.process import ending
from auricle.process.until_signal import until_signal
from auricle.speech.clip_folder import describe_skipped
from auricle.speech.sound_faults import count_findings, sentences_of
from auricle_edge.board.priority import yield_to_detection
from auricle_edge.commands.place import CONFIG_HELP, CONFIG_VARIABLE, config_file
from auricle_edge.control import ControlServer, ControlSettings
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_edge.fleet.fleet_word import say_of_fleet
from auricle_edge.ota.pack_shelf import running_pack
from auricle_edge.runtimes import choose_runtime
from auricle_edge.service.process import say, serve
from auricle_edge.service.questions import TrainingOnly
from auricle_edge.settings import TABLES, EdgeSettings, agent_settings, read_settings
from auricle_edge.training.own_model import own_model, why_not_larger
from auricle_learning.training.speech_data import load_clips
from auricle_learning.training.train import Trainer


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
    settings = read_settings(config_file(config), {name: value for name, value in given.items() if value is not None})
    agent_settings(settings)  # refused before anything is made
    if settings.data is not None:
        say_of_fleet(as_json)
        _train_only(settings, as_json, verbose)
        return 0
    encoded = msgspec.json.encode(settings)
    told = [option for option, wanted in (("--json", as_json), ("--verbose", verbose)) if wanted]
    ending.become_module("auricle_edge.service.process", encoded, *told)
    while serve(encoded, as_json, verbose):
        pass
    return 0


def _train_only(settings: EdgeSettings, as_json: bool, verbose: bool) -> None:
    loaded = running_pack(settings)
    agent = agent_settings(settings)
    assert agent is not None, "read_settings refuses data without a fleet"
    assert settings.data is not None
    own = own_model(loaded, settings.local, settings.start)
    why = why_not_larger(loaded, settings.local, settings.start)
    first = choose_weights(settings.start, loaded, own, settings.seed)
    choice = choose_runtime(settings.runtime, loaded, settings.threads)
    clips, findings = load_clips(Path(settings.data), loaded, speaker=settings.speaker, seed=settings.seed)
    trainer = Trainer(choice.runtime, own, clips, settings.seed, first)
    facts = {
        "device": settings.name,
        "fleet": settings.fleet,
        "pack": loaded.identity,
        "pack_name": loaded.manifest.name,
        "training_clips": len(clips.train),
        "held_out_clips": len(clips.held_out),
        "skipped_files": len(sentences_of(findings)),
        "findings": msgspec.to_builtins(count_findings(findings)),
        "runtime": choice.runtime.name,
        "reason": choice.reason,
        "own_model": own,
        "own_model_reason": why,
    }
    heard = f"{len(clips.train)} training clips, {len(clips.held_out)} held out"
    heard += f"; {skipped}" if (skipped := describe_skipped(findings)) else ""
    runs = f"{settings.name}: {heard}; pack {loaded.manifest.name} ({loaded.identity[:12]})."
    say(facts, (runs,), (choice.reason, why), as_json=as_json, verbose=verbose)
    asyncio.run(_serve(agent, trainer, settings.data))


async def _serve(settings: AgentSettings, trainer: Trainer, speech: str) -> None:
    """Run the agent until SIGINT or SIGTERM."""
    with ThreadPoolExecutor(1, "train", initializer=yield_to_detection) as executor:
        agent = Agent(settings, trainer, executor)
        server = ControlServer(settings.folder, TrainingOnly(agent, speech), ControlSettings())
        try:
            await until_signal(agent.run())
        finally:
            server.close()
