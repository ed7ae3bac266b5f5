"""`auricle cloud`: the coordinator, and what operators do with it."""

from __future__ import annotations

import typer

from auricle_cloud.commands import (
    devices_commands,
    enrol_commands,
    maintenance_commands,
    models_commands,
    releases_commands,
    rollouts_commands,
    rounds_commands,
    serve_commands,
    tokens_commands,
)
from auricle_cloud.commands.operator_command import operator_command

app = typer.Typer(no_args_is_help=True)


@app.callback()
def cloud() -> None:
    """Run the coordinator, and see and steer what it does."""


app.command("serve")(serve_commands.serve)
app.command("settings")(serve_commands.settings)
for _part in (
    rounds_commands,
    devices_commands,
    models_commands,
    releases_commands,
    rollouts_commands,
    tokens_commands,
    enrol_commands,
):
    app.add_typer(_part.app, name=_part.__name__.rpartition(".")[2].removesuffix("_commands"))
operator_command(app, "why")(rounds_commands.why)
maintenance_commands.add_to(app)
