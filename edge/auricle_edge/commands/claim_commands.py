"""`auricle edge claim` and `renew`: how this device gets its certificate and keeps one."""

from __future__ import annotations

import os
import time
from pathlib import Path

import typer

from auricle.errors import SettingsError
from auricle.process.times import to_json
from auricle.wire.claims import read_token_file
from auricle_edge.board.lasting import why_not_lasting
from auricle_edge.commands.place import AsJson, Config, State, state_folder
from auricle_edge.fleet.identity_claim import claim as steps
from auricle_edge.fleet.identity_claim import home

IN_MEMORY_VARIABLE = "AURICLE_EDGE_IN_MEMORY"


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
    in_memory: bool = typer.Option(
        False,
        "--in-memory",
        envvar=IN_MEMORY_VARIABLE,
        help="Claim also where the folder is lost at the next start; the token works once.",
    ),
    state: State = None,
    config: Config = None,
    as_json: AsJson = False,
) -> int:
    """Exchange a one-time token for this device's certificate, and learn its fleet. Exit code 75: try again later.

    Afterwards auricle edge run --state FOLDER needs nothing else.
    """
    folder = state_folder(state, config)
    if not in_memory and (why := why_not_lasting(folder)) is not None:
        raise SettingsError(
            f"{folder} is lost at the next start: {why}. The token works once, and was not used: mount a disk for the "
            "state folder, or claim with --in-memory."
        )
    if server is None or ca_pin is None:
        told_server, told_pin = _server_and_pin(token_file, folder)
        server, ca_pin = server or told_server, ca_pin or told_pin
        if server is None or ca_pin is None:
            raise SettingsError(f"{token_file} does not say where to claim: name --server and --ca-pin.")
    outcome = steps.claim(folder, server, ca_pin, token_file, time.time())
    _tell(outcome, as_json)
    if not (outcome.token_erased or as_json or _is_credential(token_file)):
        typer.echo("The token's file cannot be removed; it was used and is worth nothing any more.", err=True)
    return 0


def _is_credential(token_file: Path) -> bool:
    """Whether it is systemd's own copy, which nobody can remove: the unit has the token itself erased."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    return bool(folder) and token_file.parent == Path(folder or "")


def _server_and_pin(token_file: Path, folder: Path) -> tuple[str | None, str | None]:
    """Server and pin by the token's file; where a claim has removed it, by what that claim left."""
    if not token_file.exists() and (before := steps.read_claim(folder)) is not None:
        return before.server, before.pin
    told = read_token_file(token_file)
    return told.server, told.ca_pin


def renew(
    state: State = None,
    config: Config = None,
    as_json: AsJson = False,
) -> int:
    """Renew this device's certificate when it is due; run it every day. Exit code 75: try again later.

    A device that joined by a code also finds its hub where that has moved.
    """
    _tell(home.keep(state_folder(state, config), time.time()), as_json)
    return 0


def _tell(outcome: steps.Outcome, as_json: bool) -> None:
    if as_json:
        typer.echo(to_json(outcome))
        return
    until = time.strftime("%Y-%m-%d", time.gmtime(outcome.expires))
    typer.echo(f"{outcome.device}: {outcome.done}; the certificate holds until {until}.")
