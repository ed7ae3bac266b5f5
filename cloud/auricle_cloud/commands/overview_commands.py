"""`auricle cloud overview` and `journal`: the fleet now, and what happened."""

from __future__ import annotations

from typing import Annotated

import typer

from auricle_cloud.commands.operator_command import complete_device, operator_command
from auricle_cloud.operations.device_answers import EventPage
from auricle_cloud.operations.operations import Operations, Overview


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    operator_command(app, "overview")(overview)
    operator_command(app, "journal")(journal)


def overview(do: Operations) -> Overview:
    """Show the fleet at a glance."""
    return do.overview()


def journal(
    do: Operations,
    limit: Annotated[int, typer.Option(help="Most rows to show.")] = 50,
    before: Annotated[int | None, typer.Option(help="Continue before this event.")] = None,
    device: Annotated[str | None, typer.Option(help="Only of this device.", autocompletion=complete_device)] = None,
    kind: Annotated[str | None, typer.Option(help="Only of this kind.")] = None,
) -> EventPage:
    """List what happened, the newest first."""
    return do.list_events(limit, before, device, kind)
