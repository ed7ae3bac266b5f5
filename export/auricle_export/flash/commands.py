"""`auricle flash`: put agents on boards. None of it needs PyTorch."""

from __future__ import annotations

import typer

from auricle_export.flash import boards_commands

app = typer.Typer(no_args_is_help=True)
app.add_typer(boards_commands.app, name="boards")


@app.callback()
def flash() -> None:
    """Put agents on boards."""
