"""What all operators' commands have in common: where they act, how they answer, and what they ask before."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
import typer

from auricle.errors import AuricleError, SettingsError
from auricle.process.options import sign
from auricle_cloud.commands.answers import show
from auricle_cloud.commands.contexts import read_contexts
from auricle_cloud.commands.target import Place
from auricle_cloud.operations.operations import Operations

State = Annotated[
    Path | None,
    typer.Option("--state", envvar="AURICLE_STATE", help="The coordinator's folder on this machine.", hidden=True),
]
Database = Annotated[
    str | None,
    typer.Option("--database", envvar="AURICLE_DATABASE", help="URL of its database, if it is not there.", hidden=True),
]
Blobs = Annotated[
    str | None,
    typer.Option("--blobs", envvar="AURICLE_BLOBS", help="URL of its object store, if it is not there.", hidden=True),
]
Server = Annotated[
    str | None,
    typer.Option(
        "--server", envvar="AURICLE_SERVER", help="URL of its API; the token is in AURICLE_TOKEN.", hidden=True
    ),
]
Task = Annotated[
    str | None, typer.Option("--task", help="The task, on this machine [the only one, or keywords].", hidden=True)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Reason = Annotated[str, typer.Option(help="Why, for the events.")]

WHERE = "Which coordinator: auricle cloud --help has the options. Name it once: auricle cloud use NAME --server URL."

PLACE = {"state": State, "database": Database, "blobs": Blobs, "server": Server, "task": Task}
COMMON = {**{name: (kind, None) for name, kind in PLACE.items()}, "as_json": (AsJson, False)}

Hold = Annotated[
    bool, typer.Option("--hold-on-hearing", help="Not while devices report that they hear worse, see --hearing-hours.")
]
HearingHours = Annotated[
    float, typer.Option(help="With --hold-on-hearing: hours of reports that are needed on both sides.")
]

Command = Callable[..., Any]


def operator_command(app: typer.Typer, name: str) -> Callable[[Command], Command]:
    """Register a command whose first parameter is what it acts on; the options that say where are added.

    The function's first parameter is annotated `Operations` or `Place`. It may take `as_json`; what it returns is
    printed if it is an answer, and is the exit code if it is a number.
    """

    def register(function: Command) -> Command:
        hints = get_type_hints(function, include_extras=True)
        first, *own = inspect.signature(function).parameters.values()
        takes_json = "as_json" in hints

        def command(ctx: typer.Context, **given: Any) -> int:  # noqa: ANN401 - Typer gives what the signature below says
            as_json = given.pop("as_json")
            given = {name: value for name, value in given.items() if name not in PLACE}
            place = place_of(ctx)
            more = {"as_json": as_json} if takes_json else {}
            if hints[first.name] is Place:
                return _exit_code(function(place, **given, **more), as_json)
            with place.operations() as operations:
                return _exit_code(function(operations, **given, **more), as_json)

        parameters = [p.replace(annotation=hints[p.name]) for p in own if p.name != "as_json"]
        parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters]
        for option, (kind, default) in COMMON.items():
            parameters.append(
                inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            )
        context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        command.__doc__ = function.__doc__
        app.command(name, epilog=WHERE)(sign(command, [context, *parameters]))
        return function

    return register


def place_of(ctx: typer.Context) -> Place:
    """Where a command acts: what its options or those of `auricle cloud` say, the environment, or the context."""
    flags: dict[str, Any] = {}
    around: dict[str, Any] = {}
    level: Any = ctx
    while level is not None:
        for name in PLACE:
            source = level.get_parameter_source(name) if level.params.get(name) is not None else None
            if source is not None:
                {"COMMANDLINE": flags, "ENVIRONMENT": around}.get(source.name, {}).setdefault(name, level.params[name])
        level = level.parent
    if "server" in flags:
        around = {name: value for name, value in around.items() if name == "task"}
    elif flags.keys() & {"state", "database"}:
        around.pop("server", None)
    given = {**around, **flags}
    if not given.keys() & {"state", "database", "server"}:
        kept = {
            name: value for name, value in msgspec.structs.asdict(read_contexts().in_use).items() if value is not None
        }
        given = {**kept, **given}
    if given.get("state") is not None:
        given["state"] = Path(given["state"])
    return Place(**given)


def _exit_code(result: object, as_json: bool) -> int:
    if isinstance(result, msgspec.Struct):
        show(result, as_json=as_json)
        return 0
    return result if isinstance(result, int) else 0


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is done that cannot be undone.

    Raises
    ------
    SettingsError
        Nobody is there to answer.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise SettingsError(f"{question} Nobody can be asked here: add --yes.")
    if not typer.confirm(question, err=True):
        typer.echo("Nothing was done.", err=True)
        raise typer.Exit(1)


# -- completion


def _completion(names: Callable[[Operations], list[str]]) -> Callable[[typer.Context, str], list[str]]:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            with place_of(ctx).operations() as operations:
                return [name for name in names(operations) if name.startswith(incomplete)]
        except AuricleError:
            return []

    return complete


complete_round = _completion(lambda do: [str(row.round) for row in do.list_rounds(limit=100).rounds])
complete_device = _completion(lambda do: [row.device for row in do.list_devices(limit=1000).devices])
complete_version = _completion(lambda do: [str(row.version) for row in do.list_models(limit=100).models])
complete_token = _completion(lambda do: [row.name for row in do.list_tokens().tokens])
complete_schedule = _completion(lambda do: [row.name for row in do.list_schedules().schedules])
complete_release = _completion(lambda do: [row.path for row in do.list_releases().releases])
complete_rollout = _completion(lambda do: [row.rollout for row in do.list_rollouts(limit=100).rollouts])

Round = Annotated[int, typer.Argument(metavar="ROUND", help="Its number.", autocompletion=complete_round)]
MaybeRound = Annotated[
    int | None, typer.Argument(metavar="[ROUND]", help="Its number [the one under way].", autocompletion=complete_round)
]
Device = Annotated[str, typer.Argument(metavar="DEVICE", help="Its name.", autocompletion=complete_device)]
MaybeDevice = Annotated[
    str | None, typer.Argument(metavar="[DEVICE]", help="Only this device.", autocompletion=complete_device)
]
Devices = Annotated[list[str], typer.Argument(metavar="DEVICE...", help="Their names.", autocompletion=complete_device)]
Version = Annotated[int, typer.Argument(metavar="VERSION", help="Its number.", autocompletion=complete_version)]
ReleaseName = Annotated[
    str, typer.Argument(metavar="RELEASE", help="Path or identity.", autocompletion=complete_release)
]
ReleaseNames = Annotated[
    list[str], typer.Argument(metavar="RELEASE...", help="Paths or identities.", autocompletion=complete_release)
]
Rollout = Annotated[str, typer.Argument(metavar="ROLLOUT", help="Its name.", autocompletion=complete_rollout)]
MaybeRollout = Annotated[
    str | None, typer.Argument(metavar="[ROLLOUT]", help="Only this one.", autocompletion=complete_rollout)
]
"""Arguments, with their completion."""
