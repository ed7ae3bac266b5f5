"""`auricle flash`: put agents on boards. None of it needs PyTorch."""

from __future__ import annotations

import typer

from auricle_export.flash import boards_commands, bundle_commands, image_commands, push_commands, write_commands

app = typer.Typer(no_args_is_help=True)
app.add_typer(boards_commands.app, name="boards")
bundle_commands.add_to(app)
image_commands.add_to(app)
push_commands.add_to(app)
write_commands.add_to(app)


@app.callback()
def flash() -> None:
    """Put agents on boards."""
