"""`auricle fleet run` and `plan`: their options are the settings of a run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer

from auricle.errors import SettingsError
from auricle.process.ending import fit_to_terminal
from auricle.process.options import Given, Option, in_panel, optional, with_options
from auricle.settings import from_mapping, list_settings, read_toml
from auricle_cloud.commands.serve_options import (
    METHOD_OPTIONS,
    MethodCommand,
    method_options,
)
from auricle_cloud.settings import Privacy, SecureSum
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.partition import Partition
from auricle_fleet.settings.units import percent

if TYPE_CHECKING:
    from auricle_fleet.results.result import FleetResult


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(cls=MethodCommand)(run)
    app.command(cls=MethodCommand)(plan)


TABLES = ("method_options", "buffer", "detection", "limits", "privacy", "secure_sum", "groups", "partition")
"""Settings that are tables of a file."""
_SUM = {"on": "--secure-sum/--no-secure-sum"}
_TABLE_OPTIONS = {
    "privacy": [optional(setting, f"--dp-{setting.name}") for setting in list_settings(Privacy)],
    "secure_sum": [
        optional(setting, _SUM.get(setting.name, f"--secure-sum-{setting.name}"))
        for setting in list_settings(SecureSum)
    ],
    "partition": [optional(setting, "--partition") for setting in list_settings(Partition) if setting.name == "kind"],
}
"""Tables whose settings are options as well."""
RESULTS = "Results"
PANELS = {
    "Fleet and devices": "devices rounds participation kind local min_clips mode quorum deadline over_selection",
    "Speech": "data words pack unseen validation takes white_noise label_errors labelled labelled_share",
    "Method and training": "method method_options preset start pretrain epochs rate local_rate augment learning "
    "server_optimizer server_rate seed carried detect judge judge_minutes judge_share central central_epochs "
    "pictures",
    "Engine and machine": "engine processes ray runtime round_every step_seconds durable",
    "Network": "codec broker port",
    "Privacy": "clip noise budget delta view on bound wait bucket",
}
"""Options of a run by their subjects, as help shows them: most used first."""
_FLAGS = {name: (f"--{name}",) for name in ("central", "detect", "durable", "pictures", "validation")}


def _options() -> list[Option]:
    """An option for every setting that is not a table, in the order of `PANELS`; None where it is not given."""
    plain = (setting for setting in list_settings(FleetSettings) if setting.name not in TABLES)
    tables = (option for options in _TABLE_OPTIONS.values() for option in options)
    every = [*(optional(setting, *_FLAGS.get(setting.name, ())) for setting in plain), METHOD_OPTIONS, *tables]
    left = {option.name: option for option in every}
    shown = [in_panel(left.pop(name), panel) for panel, names in PANELS.items() for name in names.split()]
    return [*shown, *left.values()]


def _read(config: Path) -> dict[str, object]:
    """The settings of a TOML file, or those that a run left in its `settings.json`."""
    if config.is_dir():
        raise SettingsError(f"{config} is a folder: name a file, such as {config / 'settings.json'} of a run.")
    if config.suffix != ".json":
        return read_toml(config)
    plain: dict[str, object] = msgspec.to_builtins(FleetSettings.read(config))
    return plain


def read_settings(config: Path | None, given: Given) -> FleetSettings:
    """Settings of a file, where one is named, with those of the command line over them.

    Raises
    ------
    SettingsError
        A name that does not exist, or a value that is not allowed, and where.
    """
    where = "command line" if config is None else str(config)
    values: dict[str, object] = {} if config is None else {**_read(config)}
    over = {name: value for name, value in given.items() if value is not None}
    for table, known in _TABLE_OPTIONS.items():
        named = {each.name: over.pop(each.name) for each in known if each.name in over}
        if named:
            before = values.get(table)
            values[table] = {**(before if isinstance(before, dict) else {}), **named}
    if over.get("method", values.get("method")) != values.get("method"):
        values.pop("method_options", None)  # those of another method
    told = method_options(msgspec.convert(over.pop("method_options", []), list[str]))
    if told:
        before = values.get("method_options")
        values["method_options"] = {**(before if isinstance(before, dict) else {}), **told}
    try:
        return from_mapping(FleetSettings, {**values, **over}, where)
    except SettingsError as error:
        raise SettingsError(_with_options_names(str(error)) if config is None else str(error)) from error


def _with_options_names(sentence: str) -> str:
    """Settings of tables by the options that give them: `--dp-noise` for `privacy.noise`."""
    for table, known in _TABLE_OPTIONS.items():
        for each in known:
            sentence = sentence.replace(f"{table}.{each.name} takes", f"{_flag(each)} takes")
    return sentence


def _flag(option: Option) -> str:
    """An option as it is written."""
    written = getattr(option.said, "param_decls", None) or (f"--{option.name.replace('_', '-')}",)
    return str(written[0]).partition("/")[0]


def rounds_alone(config: Path | None, given: Given) -> int | None:
    """`--rounds` beside `--resume`; None where it is not given. SettingsError where anything else is given."""
    named = {name for name, value in given.items() if value not in (None, []) and name != "rounds"}
    others = [_flag(option) for option in _options() if option.name in named]
    others += ["--config"] * (config is not None)
    if others:
        raise SettingsError(
            f"--resume goes on with the settings that the run began with, and only --rounds can change: leave out "
            f"{', '.join(others)}."
        )
    rounds = given.get("rounds")
    return rounds if isinstance(rounds, int) else None


@with_options(given=_options())
def run(
    *,
    config: Path | None = typer.Option(
        None,
        help="Settings in TOML, with groups (docs/emulation.md), or a run's settings.json; options override it.",
    ),
    given: Given,
    out: Path | None = typer.Option(
        None, help="Folder for the results [runs/<date and time>].", rich_help_panel=RESULTS
    ),
    resume: bool = typer.Option(
        False,
        "--resume",
        help="Go on with the run in --out [the newest in runs/], with the settings it began with; a larger --rounds "
        "prolongs it.",
        rich_help_panel=RESULTS,
    ),
    track: str | None = typer.Option(
        None,
        help="Also send each round to tensorboard, mlflow or wandb; its package has to be installed.",
        rich_help_panel=RESULTS,
    ),
    as_json: bool = typer.Option(
        False, "--json", help="Print a JSON object a round and the summary, nothing else.", rich_help_panel=RESULTS
    ),
) -> int:
    """Train a shared keyword model on many emulated devices and leave a report."""
    from auricle_fleet.results.live import View
    from auricle_fleet.results.run_folder import newest_run
    from auricle_fleet.results.trackers import Tracking
    from auricle_fleet.run import FleetRun

    view = View(as_json=as_json)
    tracking = None if track is None else Tracking(track, view.say)
    on_round = None if tracking is None else tracking.round
    if resume:
        rounds = rounds_alone(config, given)
        folder = newest_run(Path("runs")) if out is None else out
        fleet_run = FleetRun.resume(folder, rounds=rounds, on_round=on_round, view=view)
        view.say(f"goes on with {fleet_run.out}")
    else:
        fleet_run = FleetRun(read_settings(config, given), out, on_round=on_round, view=view)
    if tracking is None:
        return _conclude(fleet_run.run(), as_json)
    tracking.of(fleet_run.out, fleet_run.settings)
    try:
        return _conclude(fleet_run.run(), as_json)
    finally:
        tracking.end()


@with_options(given=_options())
def plan(
    file: Path | None = typer.Argument(None, metavar="[FLEET.toml]", help="Settings, as --config of `fleet run`."),
    *,
    config: Path | None = typer.Option(None, help="The same as FLEET.toml."),
    given: Given,
    out: Path = typer.Option(Path("runs"), help="Where the run's folder would be.", rich_help_panel=RESULTS),
    measure: bool = typer.Option(
        False,
        "--measure",
        help="Measure this machine again, and remember what it says.",
        rich_help_panel="Engine and machine",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the forecast as JSON.", rich_help_panel=RESULTS),
) -> int:
    """Say what a run will take before it starts: time, memory, bytes, open files, disk, with each engine.

    Ends with 2 where the run cannot fit this machine.
    """
    from auricle_fleet.results.live import View
    from auricle_fleet.results.planned import forecast, show

    if file is not None and config is not None:
        raise SettingsError("FLEET.toml and --config are the same: name one of them.")
    settings = read_settings(file or config, given)
    found = forecast(settings, out, again=measure, say=View(as_json=as_json).say)
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return 0 if found.refused is None else SettingsError.exit_code
    show(found, typer.echo)
    if found.refused is not None:
        raise SettingsError(found.refused)
    return 0


def _conclude(result: FleetResult, as_json: bool) -> int:
    if not as_json:
        summary = result.summary
        ceiling = summary.central_accuracy_unseen
        sentence = (
            f"Plug-in on unseen speakers: {percent(summary.plugin_accuracy_unseen)}"
            + (f" (central ceiling {percent(ceiling)})" if ceiling is not None else "")
            + f"; local models on their own held-out clips: {percent(summary.personal_accuracy)}."
        )
        typer.echo(fit_to_terminal(sentence))
        typer.echo(f"Report: {result.paths.report}")
        if result.interrupted:
            typer.echo(f"Interrupted after round {summary.rounds}. Go on with:")
            typer.echo(f"  auricle fleet run --resume --out {shlex.quote(str(result.paths.folder))}")
    return 130 if result.interrupted else 0
