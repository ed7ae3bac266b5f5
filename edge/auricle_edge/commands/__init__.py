"""`auricle edge`: the agent of one device, and everything that is asked of it."""

from __future__ import annotations

import typer

from auricle_edge.commands import (
    answer_commands,
    calibrate_commands,
    claim_commands,
    clip_commands,
    evaluate_commands,
    run_commands,
    update_commands,
    upkeep_commands,
)

app = typer.Typer(no_args_is_help=True)


@app.callback()
def edge() -> None:
    """Listen on this device, learn from what it hears, and look after it."""


run_commands.add_to(app)
answer_commands.add_to(app)
upkeep_commands.add_to(app)
calibrate_commands.add_to(app)
evaluate_commands.add_to(app)
claim_commands.add_to(app)
update_commands.add_to(app)
app.add_typer(clip_commands.app, name="clips", help="The clips that this device keeps.")
