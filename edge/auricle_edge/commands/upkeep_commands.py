"""Commands that look after a device: its check-up, its microphones, its diagnosis, its unit."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import typer

from auricle.process.table import Column, print_grid
from auricle_edge.board.gate import GateSettings
from auricle_edge.board.sensors import Sensors
from auricle_edge.commands.place import AsJson, Config, State, settings_of, state_folder
from auricle_edge.control.client import ControlClient
from auricle_edge.listening.capture.child_process import devices as microphones
from auricle_edge.listening.capture.frames import Device
from auricle_edge.service.diagnosis import write_bundle
from auricle_edge.service.systemd import in_a_home, unit_text

MARKS = {"good": "ok", "doubtful": "?", "bad": "!!"}


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (doctor, devices, diag, unit):
        app.command()(command)


def doctor(
    state: State = None,
    config: Config = None,
    source: str | None = typer.Option(None, help="What to listen to [that of the settings]."),
    seconds: float = typer.Option(3.0, min=0.5, max=60, help="How long to listen; say something meanwhile."),
    simulate: bool = typer.Option(
        False, "--simulate", help="Assume that microphone, GPIO lines and required sensors are there; check all else."
    ),
    as_json: AsJson = False,
) -> int:
    """Check the board and everything that the service needs; exit code 1 when something is bad."""
    from auricle_edge.commands.examination import examine
    from auricle_edge.service.checkup import verdict_of

    settings = settings_of(config)
    folder = state or (settings.folder if settings is not None else Path.cwd())
    found = examine(settings, folder, source, seconds, simulate=simulate)
    if as_json:
        typer.echo(json.dumps({"findings": [msgspec.to_builtins(each) for each in found]}))
    else:
        columns = (Column("", 0), Column("", 0), Column("", 0, is_sentence=True))
        print_grid(columns, [(MARKS[each.verdict], each.check, each.sentence) for each in found])
    return verdict_of(found)


def devices(as_json: AsJson = False) -> int:
    """List the microphones that are there now; exit code 1 when there are none."""
    found = microphones()
    if as_json:
        typer.echo(json.dumps({"devices": [msgspec.to_builtins(each) for each in found]}))
    else:
        for each in found:
            typer.echo(_describe(each))
        if not found:
            typer.echo("No microphone: plug one in, or see whether this user is in the group audio.")
    return 0 if found else 1


def _describe(device: Device) -> str:
    facts = [f"{device.rate} Hz" if device.rate else "", f"{device.channels} channels" if device.channels else ""]
    facts += [f"usb {device.usb}" if device.usb else "", "the default" if device.default else ""]
    return f'{device.name}: source = "{device.source}" ({", ".join(fact for fact in facts if fact)})'


def diag(
    out: Path = typer.Option(Path("auricle-diagnosis.tar.gz"), help="File to write."),
    state: State = None,
    config: Config = None,
    as_json: AsJson = False,
) -> int:
    """Write a bundle for somebody who helps: versions, settings, figures, sensors; no secrets, no words, no sound."""
    from auricle_edge.service.checkup import versions

    folder, settings = state_folder(state, config), settings_of(config)
    gate = GateSettings() if settings is None else settings.gate
    parts: dict[str, Callable[[], object]] = {
        "versions": lambda: versions()[1],
        "settings": lambda: None if settings is None else msgspec.to_builtins(settings),
        "service": lambda: ControlClient(folder).get("/v1/status"),
        "devices": lambda: [msgspec.to_builtins(each) for each in microphones()],
        "sensors": lambda: dataclasses.asdict(Sensors(Path("/"), gate)()),
        "files": lambda: {
            str(p.relative_to(folder)): p.stat().st_size for p in sorted(folder.glob("*")) if p.is_file()
        },
    }
    written = write_bundle(out, parts)
    typer.echo(json.dumps({"file": str(out), "parts": written}) if as_json else f"{out}: {', '.join(written)}.")
    return 0


def unit(as_json: AsJson = False) -> int:
    """Print the systemd unit: auricle edge unit > /etc/systemd/system/auricle-edge.service."""
    text = unit_text()
    if in_a_home(Path(sys.prefix)):
        typer.echo(
            f"{sys.prefix} lies in a home folder, which the service's own user may not read: make the environment "
            "elsewhere, such as python3 -m venv /opt/auricle-edge.",
            err=True,
        )
    typer.echo(json.dumps({"unit": text}) if as_json else text, nl=as_json)
    return 0
