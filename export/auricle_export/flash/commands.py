"""`auricle flash`: put agents on boards. None of it needs PyTorch."""

from __future__ import annotations

import typer

from auricle.process.command_groups import command_group

COMMANDS = command_group(
    "flash",
    "auricle_export.flash",
    {
        "bundle_commands": {
            "bundle": "Write a bundle: agent, wheels, pack, settings and units, which installs on a board without "
            "network.",
            "verify": "Check a bundle's files against its manifest, and that against its signature; exit code 2 "
            "if one differs.",
        },
        "image_commands": {
            "image": "Make a card image for every device: it sets itself up at its first boot.",
        },
        "push_commands": {
            "push": "Install a bundle over SSH.",
        },
        "write_commands": {
            "write": "Write an image to a card or disk and read it back.",
            "disks": "List the disks and cards of this machine, and why some are not written to.",
        },
        "boards_commands:app": {
            "boards": "Profiles of boards: list, show, validate, new.",
        },
    },
)

app = typer.Typer(cls=COMMANDS, no_args_is_help=True)


@app.callback()
def flash() -> None:
    """Put agents on boards."""
