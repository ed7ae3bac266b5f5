"""`auricle edge claim` and `renew`: how this device gets its certificate and keeps one."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from auricle.errors import SettingsError
from auricle.process.times import to_json
from auricle.wire.claims import read_token_file
from auricle_edge.commands.place import AsJson, Config, State, state_folder
from auricle_edge.fleet.identity_claim import claim as steps


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(claim)
    app.command()(renew)


def claim(
    token_file: Path = typer.Option(..., help="File with the claim token; it is erased."),
    server: str | None = typer.Option(None, help="The coordinator's API, https://host:port [the token file's]."),
    ca_pin: str | None = typer.Option(
        None, help="SHA-256 of the authority's certificate, as enrol token prints it [the token file's]."
    ),
    state: State = None,
    config: Config = None,
    as_json: AsJson = False,
) -> int:
    """Exchange a one-time token for this device's certificate, and learn its fleet. Exit code 75: try again later.

    Afterwards auricle edge run --state FOLDER needs nothing else.
    """
    if server is None or ca_pin is None:
        told = read_token_file(token_file)
        server, ca_pin = server or told.server, ca_pin or told.ca_pin
        if server is None or ca_pin is None:
            raise SettingsError(f"{token_file} does not say where to claim: name --server and --ca-pin.")
    _tell(steps.claim(state_folder(state, config), server, ca_pin, token_file, time.time()), as_json)
    return 0


def renew(
    state: State = None,
    config: Config = None,
    as_json: AsJson = False,
) -> int:
    """Renew this device's certificate when it is due; run it every day. Exit code 75: try again later."""
    _tell(steps.renew(state_folder(state, config), time.time()), as_json)
    return 0


def _tell(outcome: steps.Outcome, as_json: bool) -> None:
    if as_json:
        typer.echo(to_json(outcome))
        return
    until = time.strftime("%Y-%m-%d", time.gmtime(outcome.expires))
    typer.echo(f"{outcome.device}: {outcome.done}; the certificate holds until {until}.")
    if not outcome.token_erased:
        typer.echo("The token's file cannot be removed; it was used and is worth nothing any more.", err=True)
