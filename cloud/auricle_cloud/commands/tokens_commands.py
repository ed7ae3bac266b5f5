"""`auricle cloud tokens`: who may use the API."""

from __future__ import annotations

from typing import Annotated

import typer

from auricle_cloud.commands.operator_command import Yes, complete_token, confirm, operator_command
from auricle_cloud.operations.access_answers import TokenList, TokenMade
from auricle_cloud.operations.answer import Done
from auricle_cloud.operations.operations import Operations
from auricle_cloud.storage.access_rows import Role

app = typer.Typer(no_args_is_help=True, help="Say who may use the API.")


@operator_command(app, "create")
def create(
    do: Operations,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is.")],
    role: Annotated[Role, typer.Option(help="viewer looks, operator acts, admin does all.")] = "viewer",
    days: Annotated[float | None, typer.Option(help="Days until it expires [never].")] = None,
) -> TokenMade:
    """Make a token and print it: it is never shown again."""
    return do.create_token(name, role, days)


@operator_command(app, "revoke")
def revoke(
    do: Operations,
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_token)],
    yes: Yes = False,
) -> Done:
    """Make a token worthless."""
    confirm(f"Revoke the token {name}?", yes=yes)
    return do.revoke_token(name)


@operator_command(app, "list")
def list_(do: Operations) -> TokenList:
    """List names and roles of tokens."""
    return do.list_tokens()
