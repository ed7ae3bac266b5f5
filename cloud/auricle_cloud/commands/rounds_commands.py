"""`auricle cloud rounds`: start, watch and explain rounds."""

from __future__ import annotations

from typing import Annotated

import typer

from auricle.errors import SettingsError
from auricle_cloud.commands.answers import say
from auricle_cloud.commands.operator_command import (
    MaybeDevice,
    MaybeRound,
    Reason,
    Round,
    Yes,
    complete_round,
    complete_schedule,
    confirm,
    operator_command,
)
from auricle_cloud.commands.target import Place
from auricle_cloud.commands.watching import newest, seconds_to_wait, wait_for, watch_rounds
from auricle_cloud.operations.operations import Operations
from auricle_cloud.operations.round_answers import (
    OutcomeFilter,
    RoundDetail,
    RoundPage,
    RoundRow,
    RoundWhy,
    ScheduleList,
    Started,
)
from auricle_cloud.operations.round_answers import ScheduleRow as Schedule
from auricle_cloud.operations.types import Done, Mode

app = typer.Typer(no_args_is_help=True, help="Start, watch and explain rounds.")
schedule = typer.Typer(no_args_is_help=True, help="Let rounds start automatically.")
app.add_typer(schedule, name="schedule")


def add_to(app: typer.Typer) -> None:
    """Register what is a command beside the group."""
    operator_command(app, "why")(why)


Limit = Annotated[int, typer.Option(help="Most rows to show.")]
Before = Annotated[int | None, typer.Option(help="Continue before this one.")]
After = Annotated[str | None, typer.Option(help="Continue after this device.")]
Outcome = Annotated[
    OutcomeFilter | None,
    typer.Option(help="Only devices with this outcome; pruned: left out in some layer."),
]
Timeout = Annotated[str | None, typer.Option(help="How long to wait at most: 90s, 10m, 2h [for ever].")]
RoundOrDevice = Annotated[
    str | None,
    typer.Argument(
        metavar="[ROUND]",
        help="Its number [the one under way]; a device's name stands for that device in this one.",
        autocompletion=complete_round,
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_schedule)]


@operator_command(app, "start")
def start(
    do: Operations,
    rounds: Annotated[int, typer.Option(help="How many.")] = 1,
    mode: Annotated[Mode, typer.Option(help="sync or async.")] = "sync",
    wait_: Annotated[
        bool, typer.Option("--wait", help="Wait until the last of them is finished; exit codes as of rounds wait.")
    ] = False,
    timeout: Timeout = None,
    as_json: bool = False,
) -> Started | int:
    """Plan rounds: the coordinator runs them one after the other."""
    seconds = seconds_to_wait(timeout)
    started = do.start_rounds(rounds, mode)
    if not wait_:
        return started
    if not as_json:
        say(f"Planned: round {', '.join(map(str, started.rounds))}.")
    return wait_for(do, started.rounds[-1], seconds, as_json=as_json)


@operator_command(app, "list")
def list_(do: Operations, limit: Limit = 20, before: Before = None) -> RoundPage:
    """List rounds, the newest first."""
    return do.list_rounds(limit, before)


@operator_command(app, "show")
def show(
    do: Operations, number: Round, limit: Limit = 100, after: After = None, outcome: Outcome = None
) -> RoundDetail:
    """Show a round and its cohort."""
    return do.show_round(number, limit, after, outcome)


@operator_command(app, "why")
def why(
    do: Operations,
    number: RoundOrDevice = None,
    device: MaybeDevice = None,
    limit: Limit = 1000,
    after: After = None,
    outcome: Outcome = None,
) -> RoundWhy:
    """Explain a round: why it does not start or what it waits for; who counted, who was pruned or refused, and why."""
    if number is not None and not number.isdecimal():
        if device is not None:
            right = f"{device} {number}" if device.isdecimal() else f"3 {device}"
            raise SettingsError(f'"{number}" is not the number of a round: auricle cloud rounds why {right}')
        number, device = None, number
    return do.why_round(newest(do) if number is None else int(number), device, limit, after, outcome)


@operator_command(app, "abort")
def abort(do: Operations, number: Round, reason: Reason = "", yes: Yes = False) -> RoundRow:
    """Abort a round that is not finished; what was counted in it is lost."""
    do.show_round(number)  # nobody is asked about one that is not there
    confirm(f"Abort round {number}?", yes=yes)
    return do.abort_round(number, reason)


@operator_command(app, "resume")
def resume(do: Operations, number: Round, reason: Reason = "") -> RoundRow:
    """Withdraw what was asked of a round, as long as the coordinator has not acted on it."""
    return do.resume_round(number, reason)


@operator_command(app, "watch")
def watch(place: Place, number: MaybeRound = None, as_json: bool = False) -> int:
    """Watch rounds live, until interrupted, or until this one is finished."""
    return watch_rounds(place, number, as_json=as_json)


@operator_command(app, "wait")
def wait(
    do: Operations,
    number: MaybeRound = None,
    timeout: Timeout = None,
    as_json: bool = False,
) -> int:
    """Wait until a round is finished: exit code 0 when it is published, 3 aborted, 4 out of time."""
    return wait_for(do, number, seconds_to_wait(timeout), as_json=as_json)


@operator_command(schedule, "set")
def set_(
    do: Operations,
    name: Name,
    at: Annotated[str, typer.Option(help="HH:MM every day on the coordinator's clock, or always.")],
    idle: Annotated[int, typer.Option(help="Devices that must be ready.")] = 1,
    rounds: Annotated[int, typer.Option(help="Rounds each time.")] = 1,
) -> Schedule:
    """Enter or change a schedule."""
    return do.set_schedule(name, at, idle, rounds)


@operator_command(schedule, "list")
def list_schedules(do: Operations) -> ScheduleList:
    """List schedules."""
    return do.list_schedules()


@operator_command(schedule, "remove")
def remove(do: Operations, name: Name) -> Done:
    """Forget a schedule."""
    return do.remove_schedule(name)
