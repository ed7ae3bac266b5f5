"""`auricle cloud`: the coordinator."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import msgspec
import typer

from auricle.first_weights import chosen_weights
from auricle.messages import Count, FleetName, Seconds
from auricle.pack import Pack, load_pack
from auricle.pack_checks import require_sound
from auricle.pack_signature import trusted_key
from auricle.settings import from_mapping
from auricle.until_signal import broker_of, until_signal
from auricle_cloud.coordinator import NAME, Coordinator
from auricle_cloud.presets import get_preset
from auricle_cloud.rules import get_rule
from auricle_cloud.run_settings import RoundDone, RunSettings
from auricle_cloud.store import Store

app = typer.Typer(no_args_is_help=True)


class OnTheWire(msgspec.Struct, frozen=True):
    """Options that travel in messages: what a device would refuse there is refused here."""

    fleet: FleetName
    seed: Count
    deadline: Seconds


@app.callback()
def cloud() -> None:
    """Run the coordinator, and look at what it keeps."""


@app.command()
def serve(
    broker: str = typer.Option(
        ..., help="mqtt://user:password@host:port; the password may be left to AURICLE_PASSWORD."
    ),
    fleet: str = typer.Option(..., help="Name of the fleet."),
    state: Path = typer.Option(..., help="Folder for database, models and key."),
    pack: str = typer.Option("gsc12", help="gsc12, gsc35, digits, a folder or a .tar.zst."),
    pack_key: str | None = typer.Option(None, help="Public key in hex: refuse a pack that it has not signed."),
    rounds: int = typer.Option(10, help="Rounds to run in all; a restart goes on where it stopped."),
    devices: int = typer.Option(1, help="Registered devices to wait for before the first round."),
    gather: float = typer.Option(120.0, help="Seconds to wait for them."),
    participation: float = typer.Option(1.0, help="Share of the devices invited to a round."),
    quorum: float = typer.Option(0.7, help="Share of the invited that is enough to close a round that has waited."),
    deadline: float = typer.Option(300.0, help="Seconds after which a round closes."),
    rule: str | None = typer.Option(None, help="fedavg, lpa, fedvsa or lpa+fedvsa [the preset's]."),
    preset: str = typer.Option(
        "practical", help="practical, paper (FedMLAC's own settings), or fedavg (the tuned baseline)."
    ),
    start: str | None = typer.Option(
        None, help="First model: pack (the pack's trained weights) or scratch (seeded noise) [pack where it has some]."
    ),
    seed: int = typer.Option(0, help="Decides the first model and who is invited."),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object a round."),
) -> int:
    """Run a task's rounds."""
    from_mapping(OnTheWire, {"fleet": fleet, "seed": seed, "deadline": deadline}, "command line")
    chosen = get_preset(preset)
    if rule is not None:
        get_rule(rule)
        chosen = replace(chosen, rule=rule, rule_options={})
    loaded = load_pack(pack, trusted_key(pack_key))
    require_sound(loaded)
    settings = RunSettings(
        fleet=fleet, broker=broker_of(broker, NAME), folder=state, rounds=rounds, preset=chosen,
        participation=participation,
        quorum=quorum, deadline=deadline, devices=devices, gather=gather, seed=seed,
        start=chosen_weights(start, loaded, loaded.manifest.plugin, seed),
    )  # fmt: skip
    asyncio.run(_serve(settings, loaded, as_json))
    return 0


async def _serve(settings: RunSettings, pack: Pack, as_json: bool) -> None:
    """Run until all rounds are done, or SIGINT or SIGTERM."""

    async def show(done: RoundDone) -> None:
        line = {
            "round": done.number, "rounds": done.rounds, "state": done.state, "invited": done.invited,
            "counted": done.counted, "seconds": round(done.seconds, 3),
        }  # fmt: skip
        typer.echo(json.dumps(line) if as_json else
                   f"round {done.number}/{done.rounds} {done.state}: {done.counted} of {done.invited} counted in "
                   f"{done.seconds:.1f} s")  # fmt: skip

    coordinator = Coordinator(settings, pack, show)
    key = coordinator.identity.public.hex()
    start = {"coordinator": key, "epoch": coordinator.epoch}
    typer.echo(json.dumps(start) if as_json else f"coordinator {key}, epoch {coordinator.epoch}")
    await until_signal(coordinator.run())


@app.command()
def why(
    round_number: int = typer.Argument(..., metavar="ROUND", help="The round."),
    device: str | None = typer.Argument(None, help="Only this device."),
    state: Path = typer.Option(..., help="The coordinator's folder."),
    task: str = typer.Option("keywords", help="The task."),
    as_json: bool = typer.Option(False, "--json", help="Print the stored report as JSON."),
) -> int:
    """Say, layer by layer, who counted in a round, with what weight, and who was pruned."""
    store = Store(state / "coordinator.db", must_exist=True)
    report = store.report(task, round_number)
    store.close()
    layers = report.get("layers", [])
    if as_json:
        typer.echo(json.dumps(report))
        return 0
    names = [device] if device is not None else report["invited"]
    counted = {row["device"] for row in report.get("updates", [])}
    for name in names:
        if name not in report["invited"]:
            typer.echo(f"{name} was not invited to round {round_number}.")
        elif name not in counted:
            typer.echo(f"{name} was invited and no update of it was counted.")
        else:
            parts = [_layer_sentence(layer, name) for layer in layers]
            typer.echo(f"{name}: " + "; ".join(parts) + ".")
    return 0


def _layer_sentence(layer: dict[str, object], name: str) -> str:
    shares, deviations = layer["share"], layer["deviation"]
    assert isinstance(shares, dict)
    far = f", deviation {deviations[name]:.4g}" if isinstance(deviations, dict) and name in deviations else ""
    if name in layer["pruned_high"]:  # type: ignore[operator]
        return f"{layer['layer']} pruned as too far from the mean{far}"
    if name in layer["pruned_low"]:  # type: ignore[operator]
        return f"{layer['layer']} pruned as too close to the mean{far}"
    return f"{layer['layer']} weight {shares.get(name, 0.0):.4f}{far}"
