"""`auricle edge`: the agent of one device."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from auricle.errors import SettingsError, nearest
from auricle.first_weights import chosen_weights
from auricle.messages import Count, DeviceId, FleetName
from auricle.pack import load_pack
from auricle.pack_signature import trusted_key
from auricle.settings import from_mapping, read_toml
from auricle.until_signal import broker_of, until_signal
from auricle_edge.agent import Agent, AgentSettings
from auricle_edge.runtimes import choose_runtime
from auricle_edge.speech_data import load_clips
from auricle_edge.train import Trainer

app = typer.Typer(no_args_is_help=True)


class EdgeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a device's settings file or command line may say."""

    device: DeviceId
    fleet: FleetName
    broker: str
    coordinator: str
    """The coordinator's public key, 64 hexadecimal digits; `auricle cloud serve` prints it."""
    clips: str
    state: str
    pack: str = "gsc12"
    pack_key: str | None = None
    """Public key in hex that must have signed the pack."""
    local: str = "crnn-base"
    runtime: str = "auto"
    speaker: str | None = None
    threads: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    start: str | None = None
    """`pack`, `scratch`, or None for the pack's trained weights where it has some."""
    seed: Count = 0


@app.callback()
def edge() -> None:
    """Run the agent of one device."""


@app.command()
def run(
    config: Path | None = typer.Option(None, help="TOML file with the settings; options override it."),
    device: str | None = typer.Option(None, help="Name of this device, 4 to 64 of a-z, 0-9 and hyphen."),
    fleet: str | None = typer.Option(None, help="Name of the fleet."),
    broker: str | None = typer.Option(
        None, help="mqtt://user:password@host:port; the password may be left to AURICLE_PASSWORD."
    ),
    coordinator: str | None = typer.Option(None, help="Public key of the coordinator, 64 hexadecimal digits."),
    clips: str | None = typer.Option(None, help="Folder of labelled clips, <word>/<speaker>_nohash_<n>.(wav|flac)."),
    state: str | None = typer.Option(None, help="Folder for key, local model and outbox."),
    pack: str | None = typer.Option(None, help="gsc12, gsc35, digits, a folder or a .tar.zst [gsc12]."),
    pack_key: str | None = typer.Option(None, help="Public key in hex: refuse a pack that it has not signed."),
    local: str | None = typer.Option(None, help="Architecture of the local model [crnn-base]."),
    runtime: str | None = typer.Option(None, help="auto, step or ort-training [auto]."),
    speaker: str | None = typer.Option(None, help="Use this speaker's clips only."),
    threads: int | None = typer.Option(None, help="Threads inside one operator [1]."),
    start: str | None = typer.Option(
        None, help="Local model's first weights: pack (trained) or scratch (seeded noise) [pack where it has some]."
    ),
    seed: int | None = typer.Option(None, help="Of the local model's first weights [0]."),
    as_json: bool = typer.Option(False, "--json", help="Print what the agent starts with as JSON."),
) -> int:
    """Take part in a fleet until interrupted."""
    given = {
        "device": device, "fleet": fleet, "broker": broker, "coordinator": coordinator, "clips": clips,
        "state": state, "pack": pack, "pack_key": pack_key, "local": local, "runtime": runtime, "speaker": speaker,
        "threads": threads, "start": start, "seed": seed,
    }  # fmt: skip
    settings = _settings(config, {name: value for name, value in given.items() if value is not None})
    loaded = load_pack(settings.pack, trusted_key(settings.pack_key))
    if settings.local not in loaded.tables:
        raise SettingsError(f'There is no local model "{settings.local}": {nearest(settings.local, loaded.tables)}')
    first = chosen_weights(settings.start, loaded, settings.local, settings.seed)
    choice = choose_runtime(settings.runtime, loaded, settings.threads)
    data, skipped = load_clips(Path(settings.clips), loaded, speaker=settings.speaker, seed=settings.seed)
    trainer = Trainer(choice.runtime, settings.local, data, settings.seed, first)
    facts = {
        "device": settings.device, "fleet": settings.fleet, "pack": loaded.identity, "training_clips": len(data.train),
        "held_out_clips": len(data.held_out), "skipped_files": len(skipped),
        "runtime": choice.runtime.name, "reason": choice.reason,
    }  # fmt: skip
    typer.echo(json.dumps(facts) if as_json else
               f"{settings.device}: {len(data.train)} training clips, {len(data.held_out)} held out, "
               f"{len(skipped)} unreadable files skipped; pack {loaded.identity[:12]}.\n{choice.reason}")  # fmt: skip
    asyncio.run(_serve(_agent_settings(settings), trainer))
    return 0


def _settings(config: Path | None, given: dict[str, object]) -> EdgeSettings:
    if config is None:
        return from_mapping(EdgeSettings, given, "command line")
    return from_mapping(EdgeSettings, {**read_toml(config), **given}, str(config))


def _agent_settings(settings: EdgeSettings) -> AgentSettings:
    try:
        key = bytes.fromhex(settings.coordinator)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise SettingsError("--coordinator takes the 64 hexadecimal digits that auricle cloud serve prints.")
    address = broker_of(settings.broker, settings.device)
    return AgentSettings(settings.device, settings.fleet, address, Path(settings.state), key)


async def _serve(settings: AgentSettings, trainer: Trainer) -> None:
    """Run the agent until SIGINT or SIGTERM."""
    with ThreadPoolExecutor(1, "train") as executor:
        await until_signal(Agent(settings, trainer, executor).run())
