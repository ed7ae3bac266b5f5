"""`auricle cloud rollouts`: install releases on devices, stage by stage."""

from __future__ import annotations

import contextlib
from typing import Annotated

import msgspec
import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from auricle.errors import SettingsError
from auricle.process.table import console
from auricle.process.times import how_many, read_duration, to_json
from auricle_cloud.commands.answer_tables import ROLLOUT, plain, table
from auricle_cloud.commands.answers import say
from auricle_cloud.commands.operator_command import (
    HearingHours,
    Hold,
    MaybeDevice,
    MaybeRollout,
    Reason,
    ReleaseNames,
    Rollout,
    Yes,
    confirm,
    operator_command,
)
from auricle_cloud.commands.target import Place
from auricle_cloud.commands.watching import looks
from auricle_cloud.operations.operations import Operations
from auricle_cloud.operations.rollout_answers import RolloutDetail, RolloutPage, RolloutRow
from auricle_cloud.operations.rollout_operations import ReleaseName
from auricle_cloud.states.rollout import ENDED, DeviceState

app = typer.Typer(no_args_is_help=True, help="Install releases on devices, stage by stage.")

Replace = Annotated[bool, typer.Option("--replace", help="End rollouts that are under way for the same devices.")]
Only = Annotated[DeviceState | None, typer.Option("--only", help="Only devices in this state.")]
After = Annotated[str | None, typer.Option(help="Continue after this device.")]
PAUSED_CODE, OVER_CODE = 3, 4
"""Exit codes."""


@operator_command(app, "start")
def start(
    do: Operations,
    releases: ReleaseNames,
    label: Annotated[str | None, typer.Option(help='Only devices of exactly this label; "" has none [all].')] = None,
    stages: Annotated[str, typer.Option(help="Percentages of the devices that match, rising.")] = "5,25,100",
    errors: Annotated[float, typer.Option(help="Share of a stage's devices that may fail before it pauses.")] = 0.1,
    minimum: Annotated[int, typer.Option(help="Answers before that share counts, while others are to come.")] = 3,
    soak: Annotated[str, typer.Option(help="Time from a decided stage to the next: 45s, 10m, 24h.")] = "10m",
    deadline: Annotated[str, typer.Option(help="Time after which a device that says nothing has failed.")] = "1h",
    hold_on_hearing: Hold = False,
    hearing_hours: HearingHours = 24.0,
    replace: Replace = False,
    yes: Yes = False,
    as_json: bool = False,
) -> RolloutRow:
    """Start a rollout of bundles, one for each board and system, or of one pack."""
    for name in releases:
        _require_name(name)
    if replace:
        confirm("End the rollouts that are under way for the same devices?", yes=yes)
    row = do.start_rollout(
        releases,
        label,
        _percents(stages),
        errors,
        minimum,
        read_duration(soak),
        read_duration(deadline),
        replace,
        hearing_hours if hold_on_hearing else None,
    )
    if not as_json:
        for sentence in do.show_rollout(row.rollout, 1).sentences:
            typer.echo(sentence, err=True)  # on whom it is: a label that nobody has is no mistake
    return row


@operator_command(app, "list")
def list_(
    do: Operations,
    limit: Annotated[int, typer.Option(help="Most rows to show.")] = 20,
    before: Annotated[int | None, typer.Option(help="Continue before this number.")] = None,
) -> RolloutPage:
    """List rollouts, the newest first."""
    return do.list_rollouts(limit, before)


@operator_command(app, "show")
def show(
    do: Operations,
    rollout: Rollout,
    device: MaybeDevice = None,
    limit: Annotated[int, typer.Option(help="Devices at most.")] = 100,
    after: After = None,
    only: Only = None,
) -> RolloutDetail:
    """Show a rollout, and explain what became of each device and why."""
    return do.show_rollout(rollout, limit, after, only, device)


@operator_command(app, "watch")
def watch(place: Place, rollout: MaybeRollout = None, as_json: bool = False) -> int:
    """Watch rollouts live, until interrupted, or until this one is finished (0), paused (3) or ended (4)."""
    return watch_rollouts(place, rollout, as_json=as_json)


@operator_command(app, "pause")
def pause(do: Operations, rollout: Rollout, reason: Reason = "") -> RolloutRow:
    """Ask no more devices, until it is resumed."""
    return do.pause_rollout(rollout, reason)


@operator_command(app, "resume")
def resume(
    do: Operations,
    rollout: Rollout,
    retry: Annotated[bool, typer.Option("--retry", help="Ask the devices that failed again.")] = False,
) -> RolloutRow:
    """Go on with a paused rollout; the errors so far are forgiven, or their devices asked again."""
    return do.resume_rollout(rollout, retry)


@operator_command(app, "abort")
def abort(do: Operations, rollout: Rollout, reason: Reason = "", yes: Yes = False) -> RolloutRow:
    """End a rollout: nobody is asked any more; devices that have begun continue on their own."""
    do.show_rollout(rollout)  # nobody is asked about one that is not there
    confirm(f"End the rollout {rollout} for good?", yes=yes)
    return do.abort_rollout(rollout, reason)


def _require_name(release: str) -> None:
    try:
        msgspec.convert(release, ReleaseName)
    except msgspec.ValidationError as error:
        raise SettingsError(
            f'"{release}" is not a release: name its path, or at least 4 digits of its identity; see auricle cloud '
            "releases list."
        ) from error


def _percents(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise SettingsError(f'The stages "{text}" are not percentages: write for example 5,25,100.') from error


def sentence(row: RolloutRow) -> str:
    """A rollout in one sentence."""
    errors = how_many(row.failed + row.refused + row.silent, "error")
    why = f" {row.reason[0].upper()}{row.reason[1:].removesuffix('.')}." if row.reason else ""
    return (
        f"{row.rollout} is {row.state}, stage {row.stage} of {len(row.stages)}: {row.updated} updated, "
        f"{row.asked} asked, {row.waiting} waiting, {errors}.{why}"
    )


def waited_for(do: Operations, rows: list[RolloutRow]) -> list[str]:
    """What each rollout that is running waits for."""
    running = [row.rollout for row in rows if row.state == "running"]
    return [f"{name}: {do.show_rollout(name, 1).sentences[-1]}" for name in running]


def watch_rollouts(place: Place, rollout: str | None, *, as_json: bool) -> int:
    """Show rollouts until interrupted, or one until there is nothing more to see; the exit code."""
    with place.operations() as do, looks(place.remote()) as ticks:
        known: dict[str, RolloutRow] = {}
        out = console()
        is_live = out.is_terminal and not as_json
        with Live(console=out, auto_refresh=False) if is_live else contextlib.nullcontext() as live:
            for _ in ticks:
                rows = do.list_rollouts(10).rollouts if rollout is None else [do.show_rollout(rollout, 1).row]
                if live is not None:
                    live.update(_view(do, rows, rollout), refresh=True)
                else:
                    _tell_changes(rows, known, as_json=as_json)
                if rollout is not None and rows[0].state != "running":
                    return 0 if rows[0].state == "finished" else OVER_CODE if rows[0].state in ENDED else PAUSED_CODE
    return 0


def _tell_changes(rows: list[RolloutRow], known: dict[str, RolloutRow], *, as_json: bool) -> None:
    for row in reversed(rows):
        if known.get(row.rollout) != row:
            known[row.rollout] = row
            typer.echo(to_json(row)) if as_json else say(sentence(row))


def _view(do: Operations, rows: list[RolloutRow], rollout: str | None) -> Group:
    if rollout is None:
        below = [Text(plain(text)) for text in waited_for(do, rows)]
        return Group(table(rows, ROLLOUT) if rows else Text("Nothing to list."), *below)
    seen: RolloutDetail = do.show_rollout(rollout, 30)
    said = [*seen.sentences, "", *(device.sentences[0] for device in seen.devices)]
    return Group(table(rows, ROLLOUT), Text(""), *(Text(plain(text)) for text in said))
