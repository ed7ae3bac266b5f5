"""`auricle fleet`: emulate a fleet."""

from __future__ import annotations

from pathlib import Path

import typer

from auricle.process.options import Given, Option, with_options
from auricle.settings import declared, from_mapping, read_toml
from auricle_cloud.commands.serve_commands import rule_options
from auricle_fleet.broker import command as broker_command
from auricle_fleet.live import View, percent
from auricle_fleet.results.result import FleetResult
from auricle_fleet.results.run_folder import newest_run
from auricle_fleet.run import FleetRun
from auricle_fleet.settings import FleetSettings

app = typer.Typer(no_args_is_help=True)


@app.callback()
def fleet() -> None:
    """Emulate a fleet: real speech, real agents, a real broker, a real coordinator."""


TABLES = ("rule_options", "buffer", "detection", "limits", "groups")
"""Settings that are tables of a file."""
_FLAGS = {"central": ("--central",), "detect": ("--detect",)}


def _options() -> list[Option]:
    """An option for every setting that is no table; None where it is not given."""
    found = []
    for setting in declared(FleetSettings):
        if setting.name not in TABLES:
            text = setting.description + ("" if setting.default in (None, False) else f"  [{setting.default}]")
            said = typer.Option(None, *_FLAGS.get(setting.name, ()), help=text, show_default=False)
            found.append(Option(setting.name, setting.kind | None, said))
    return found


def read_settings(config: Path | None, given: Given, options: list[str]) -> FleetSettings:
    """Settings of a file, where one is named, with those of the command line over them.

    Raises
    ------
    SettingsError
        A name that does not exist, or a value that is not allowed, and where.
    """
    values = {} if config is None else read_toml(config)
    over = {name: value for name, value in given.items() if value is not None}
    if over.get("rule", values.get("rule")) != values.get("rule"):
        values.pop("rule_options", None)  # those of another rule
    named = rule_options(options)
    if named:
        before = values.get("rule_options")
        values["rule_options"] = {**(before if isinstance(before, dict) else {}), **named}
    return from_mapping(FleetSettings, {**values, **over}, "command line" if config is None else str(config))


@app.command()
@with_options(given=_options())
def run(
    *,
    config: Path | None = typer.Option(
        None, help="A TOML file of settings, with groups of devices (docs/emulation.md); options count above it."
    ),
    given: Given,
    options: list[str] = typer.Option([], "--rule-option", help="NAME=VALUE of the rule; may be given more than once."),
    out: Path | None = typer.Option(None, help="Folder for the results [runs/<date and time>]."),
    resume: bool = typer.Option(
        False, "--resume", help="Go on with the run in --out [the newest in runs/], with the settings it began with."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object a round and the summary, nothing else."),
) -> int:
    """Train a shared keyword model on many emulated devices and leave a report."""
    view = View(as_json=as_json)
    if not resume:
        fleet_run = FleetRun(read_settings(config, given, options), out, view=view)
    else:
        fleet_run = FleetRun.resume(newest_run(Path("runs")) if out is None else out, view=view)
        view.say(f"goes on with {fleet_run.out}")
    return _conclude(fleet_run.run(), as_json)


app.command("broker")(broker_command.broker)


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
