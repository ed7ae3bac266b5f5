"""`auricle cloud regions`: where coordinators of several regions make one model together."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import typer
from msgspec import ValidationError, convert

from auricle.checks.pack_checks import require_sound
from auricle.errors import SettingsError
from auricle.files import be_private
from auricle.packs.first_weights import choose_weights
from auricle.packs.pack import load_pack
from auricle.packs.signature import read_trusted_key
from auricle.process.options import Given, with_options
from auricle.wire.kinds import FleetName
from auricle_cloud.commands.coordinator_settings import read_coordinator
from auricle_cloud.commands.serve_options import TOLD, MethodCommand, by_table
from auricle_cloud.settings import JointSettings
from auricle_cloud.storage.state_folders import serving

SHARED = ("state", "pack", "pack_key", "method", "method_options", "preset", "server_rate", "start", "seed")
SERVED = ("listen", "certificate", "key")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("regions", cls=MethodCommand)(regions)


@with_options(given=[option for _, option in TOLD if option.name in (*SHARED, *SERVED)])
def regions(
    *,
    config: Path | None = typer.Option(None, help="A coordinator.toml; every region has the same [rounds] and pack."),
    given: Given,
    region: list[str] = typer.Option([], help="Name of a region that may take part; give it for each."),
    quorum: int | None = typer.Option(None, help="Regions without which no model is made [all]."),
    patience: float = typer.Option(60.0, help="Seconds that a quorum waits for the other regions."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> int:
    """Make one model of the rounds of several regions, whose updates stay with them.

    Each region is a coordinator of its own devices: auricle cloud serve --region URL.
    """
    from auricle_cloud.service import run_regions  # what serves takes longer to load than most commands take

    wanted = read_coordinator(config, by_table(given))
    if wanted.state is None:
        raise SettingsError("Name a folder for the joint model and the regions' tokens: --state FOLDER.")
    names = _names(region)
    api = wanted.api_settings()
    if api is None:
        raise SettingsError("Regions meet at an address: leave out --listen none.")
    api.tls()
    folder, pack = Path(wanted.state), load_pack(wanted.pack, read_trusted_key(wanted.pack_key))
    require_sound(pack)
    start = choose_weights(wanted.start, pack, pack.manifest.plugin, wanted.seed)
    settings = JointSettings(
        folder=folder,
        regions=names,
        preset=wanted.preset_for(trained=start is not None),
        quorum=len(names) if quorum is None else quorum,
        patience=patience,
        limits=wanted.limits,
        horizon=wanted.rounds.rounds or wanted.rounds.horizon,
    )
    be_private()
    first = pack.plugin_table.initial(wanted.seed) if start is None else start

    def greet(url: str, rounds: int) -> None:
        line = {"regions": url, "joint_rounds": rounds, "tokens": {name: f"{folder}/{name}.token" for name in names}}
        text = f"regions meet at {url}; each has its token in {folder}/REGION.token: {', '.join(names)}"
        typer.echo(json.dumps(line) if as_json else text)

    with serving(folder, take_over=False):
        asyncio.run(run_regions(settings, pack, first, api, greet))
    return 0


def _names(given: list[str]) -> tuple[str, ...]:
    try:
        names = tuple(convert(name, FleetName) for name in given)
    except ValidationError as error:
        raise SettingsError(
            "The name of a region has 1 to 64 small letters, digits and hyphens: write --region north."
        ) from error
    if not names or len({*names}) < len(names):
        raise SettingsError("Name each region once: --region north --region south.")
    return names
