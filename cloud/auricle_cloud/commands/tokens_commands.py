"""`auricle cloud tokens`: who may use the API."""

from __future__ import annotations

from typing import Annotated

import typer

from auricle.errors import SettingsError
from auricle.process.times import read_duration
from auricle_cloud.commands.operator_command import Yes, complete_token, confirm, operator_command
from auricle_cloud.operations.operations import Operations, TokenList, TokenMade
from auricle_cloud.operations.types import Done
from auricle_cloud.storage.access_rows import Role

DAY_SECONDS = 86400.0
LONGEST_DAYS = 36_500
"""Days."""

app = typer.Typer(no_args_is_help=True, help="Say who may use the API.")


@operator_command(app, "create")
def create(
    do: Operations,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is.")],
    role: Annotated[Role, typer.Option(help="viewer looks, operator acts, admin does all.")] = "viewer",
    ttl: Annotated[str | None, typer.Option(help="How long it may be used: 30m, 24h, 7d [for ever].")] = None,
) -> TokenMade:
    """Make a token and print it: it is never shown again."""
    days = None if ttl is None else read_duration(ttl) / DAY_SECONDS
    if days is not None and not 0 < days <= LONGEST_DAYS:
        raise SettingsError(f"A token for the API lives more than 0 and at most {LONGEST_DAYS} days.")
    return do.create_token(name, role, days)


@operator_command(app, "revoke")
def revoke(
    do: Operations,
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_token)],
    yes: Yes = False,
) -> Done:
    """Make a token worthless."""
    if name in [row.name for row in do.list_tokens().tokens]:  # nobody is asked about one that is not there
        confirm(f"Revoke the token {name}?", yes=yes)
    return do.revoke_token(name)


@operator_command(app, "list")
def list_(do: Operations) -> TokenList:
    """List names and roles of tokens."""
    return do.list_tokens()
