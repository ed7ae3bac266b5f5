"""`auricle cloud rollouts`: install releases on devices, stage by stage."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from auricle.errors import SettingsError
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
from auricle_cloud.commands.rollout_watching import watch_rollouts
from auricle_cloud.commands.target import Place
from auricle_cloud.identity.broker_folder import read_duration
from auricle_cloud.operations.operations import Operations
from auricle_cloud.operations.rollout_answers import RolloutDetail, RolloutPage, RolloutRow
from auricle_cloud.operations.rollout_operations import ReleaseName
from auricle_cloud.states.rollout import DeviceState

app = typer.Typer(no_args_is_help=True, help="Install releases on devices, stage by stage.")

Replace = Annotated[bool, typer.Option("--replace", help="End rollouts that are under way for the same devices.")]
Only = Annotated[DeviceState | None, typer.Option("--only", help="Only devices in this state.")]
After = Annotated[str | None, typer.Option(help="Go on after this device.")]


@operator_command(app, "start")
def start(
    do: Operations,
    releases: ReleaseNames,
    label: Annotated[str | None, typer.Option(help='Only devices of exactly this label; "" has none [all].')] = None,
    stages: Annotated[str, typer.Option(help="Percentages of the devices that match, rising.")] = "5,25,100",
    errors: Annotated[float, typer.Option(help="Share of a stage's devices that may fail before it pauses.")] = 0.1,
    minimum: Annotated[int, typer.Option(help="Answers before that share counts, while others are to come.")] = 3,
    soak: Annotated[str, typer.Option(help="Time between a stage that is decided and the next: 10m, 24h.")] = "10m",
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
    limit: Annotated[int, typer.Option(help="Rows at most.")] = 20,
    before: Annotated[int | None, typer.Option(help="Go on before this number.")] = None,
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
    retry: Annotated[bool, typer.Option("--retry", help="Ask the devices that failed once more.")] = False,
) -> RolloutRow:
    """Go on with a paused rollout; the errors so far are forgiven, or their devices asked once more."""
    return do.resume_rollout(rollout, retry)


@operator_command(app, "abort")
def abort(do: Operations, rollout: Rollout, reason: Reason = "", yes: Yes = False) -> RolloutRow:
    """End a rollout: nobody is asked any more; devices that have begun go on by themselves."""
    confirm(f"End the rollout {rollout} for good?", yes=yes)
    return do.abort_rollout(rollout, reason)


def _require_name(release: str) -> None:
    try:
        msgspec.convert(release, ReleaseName)
    except msgspec.ValidationError as error:
        raise SettingsError(
            f'"{release}" is no release: name its path, or at least 4 digits of its identity; see auricle cloud '
            "releases list."
        ) from error


def _percents(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise SettingsError(f'The stages "{text}" are no percentages: write for example 5,25,100.') from error
