"""`auricle fleet`: emulate a fleet."""

from __future__ import annotations

from pathlib import Path

import typer

from auricle.errors import SettingsError
from auricle.process.options import Given, Option, option_of, with_options
from auricle.settings import declared, from_mapping
from auricle_fleet.live import View, percent
from auricle_fleet.results.result import FleetResult
from auricle_fleet.run import FleetRun
from auricle_fleet.settings import FleetSettings

app = typer.Typer(no_args_is_help=True)


@app.callback()
def fleet() -> None:
    """Emulate a fleet: real speech, real agents, a real broker, a real coordinator."""


def _options() -> list[Option]:
    flags = {"central": ("--central",)}
    return [option_of(setting, *flags.get(setting.name, ())) for setting in declared(FleetSettings)]


@app.command()
@with_options(given=_options())
def run(
    *,
    given: Given,
    out: Path | None = typer.Option(None, help="Folder for the results [runs/<date and time>]."),
    resume: bool = typer.Option(
        False, "--resume", help="Go on with the run in --out, with the settings it began with."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object a round and the summary, nothing else."),
) -> int:
    """Train a shared keyword model on many emulated devices and leave a report."""
    view = View(as_json=as_json)
    if not resume:
        fleet_run = FleetRun(from_mapping(FleetSettings, given, "command line"), out, view=view)
    elif out is None:
        raise SettingsError("--resume needs the folder of the run to go on with: --out runs/NAME.")
    else:
        fleet_run = FleetRun.resume(out, view=view)
    return _conclude(fleet_run.run(), as_json)


def _conclude(result: FleetResult, as_json: bool) -> int:
    if not as_json:
        summary = result.summary
        ceiling = summary.central_accuracy_unseen
        typer.echo(
            f"Plug-in on unseen speakers: {percent(summary.plugin_accuracy_unseen)}"
            + (f" (central ceiling {percent(ceiling)})" if ceiling is not None else "")
            + f"; local models on their own held-out clips: {percent(summary.personal_accuracy)}."
        )
        typer.echo(f"Report: {result.paths.report}")
        if result.interrupted:
            typer.echo(
                f"Interrupted after round {summary.rounds}. Go on with: auricle fleet run --resume --out "
                f"{result.paths.folder}"
            )
    return 130 if result.interrupted else 0
