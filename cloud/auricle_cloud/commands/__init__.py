"""`auricle cloud`: the coordinator, and what operators do with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auricle_cloud.commands import (
    context_commands,
    devices_commands,
    enrol_commands,
    fleet_commands,
    maintenance_commands,
    models_commands,
    release_signing_commands,
    releases_commands,
    rollouts_commands,
    rounds_commands,
    serve_commands,
    tokens_commands,
)
from auricle_cloud.commands.operator_command import operator_command
from auricle_cloud.commands.serve_options import MethodCommand

app = typer.Typer(no_args_is_help=True)


@app.callback()
def cloud(
    state: Annotated[
        Path | None, typer.Option(help="The coordinator's folder on this machine [AURICLE_STATE].")
    ] = None,
    database: Annotated[
        str | None, typer.Option(help="URL of its database, if it is not there [AURICLE_DATABASE].")
    ] = None,
    blobs: Annotated[str | None, typer.Option(help="URL of its object store, if not there [AURICLE_BLOBS].")] = None,
    server: Annotated[
        str | None, typer.Option(help="URL of its API instead; the token is in AURICLE_TOKEN [AURICLE_SERVER].")
    ] = None,
    task: Annotated[str | None, typer.Option(help="The task, on this machine [the only one, or keywords].")] = None,
) -> None:
    """Run the coordinator, and see and steer what it does.

    The options say which coordinator; every command takes them, too. They override the environment, and
    that overrides the context of auricle cloud use.
    """


app.command("use")(context_commands.use)
app.command("serve", cls=MethodCommand)(serve_commands.serve)
app.command("settings")(serve_commands.settings)
release_signing_commands.add_to(releases_commands.app)
for _part in (
    rounds_commands,
    devices_commands,
    models_commands,
    releases_commands,
    rollouts_commands,
    tokens_commands,
    enrol_commands,
    fleet_commands,
):
    app.add_typer(_part.app, name=_part.__name__.rpartition(".")[2].removesuffix("_commands"))
operator_command(app, "why")(rounds_commands.why)
maintenance_commands.add_to(app)
