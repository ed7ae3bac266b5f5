"""`auricle edge run --home`: how a device gets into the home of a hub, and stays there."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path

import typer

from auricle.errors import LATER_CODE, AuricleError, DataError, SettingsError
from auricle.wire.join_codes import read_code
from auricle_edge.commands.place import config_file, state_folder
from auricle_edge.fleet.identity_claim import home
from auricle_edge.fleet.identity_claim.claim import Outcome
from auricle_edge.fleet.identity_claim.claim_server import ClaimError, TryLaterError

log = logging.getLogger("auricle.edge")

MOST_PROMPTS = 3
"""Times that a person is asked for the code: the hub takes ten tries."""


def enter_home(state: str | None, config: Path | None, code: str | None, hub: str | None, device: str | None) -> Path:
    """Have a device join, unless it has; its state folder.

    Parameters
    ----------
    state, config
        As of `auricle edge run`; without either the folder is one of this user.
    code, hub, device
        What was typed; a code that is not is asked for.

    Raises
    ------
    AuricleError
        No hub is found, it refuses, or nobody is there to type its code.
    """
    folder = _folder(state, config)
    if home.has_joined(folder):
        try:
            home.keep(folder, time.time(), home.find_hubs if hub is None else lambda: [hub])
        except AuricleError as error:  # it listens without its hub, and learns when that is there again
            log.warning("%s", error)
        return folder
    if home.is_half_way(folder):
        _welcome(home.finish(folder, time.time()), folder)
        return folder
    asks = code is None and sys.stdin.isatty()
    if code is None and not asks:
        raise SettingsError("This device has not joined yet: add --code with the code that the hub shows.")
    servers = home.find_hubs() if hub is None else [hub]
    if not servers:
        raise TryLaterError(
            "No hub is announced in this network: start it with auricle cloud serve --home, or name it with --hub "
            "https://ADDRESS:8443."
        )
    for tries_left in reversed(range(MOST_PROMPTS if asks else 1)):
        try:
            typed = read_code(code if code is not None else typer.prompt("The code that the hub shows", err=True))
            _welcome(home.join(folder, servers, typed, device, time.time()), folder)
            break
        except (ClaimError, DataError) as error:
            if not tries_left or error.exit_code == LATER_CODE:
                raise
            typer.echo(str(error), err=True)
    return folder


def _folder(state: str | None, config: Path | None) -> Path:
    if state is not None or config_file(config) is not None:
        return state_folder(None if state is None else Path(state), config)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "auricle" / "edge"


def _welcome(joined: Outcome, folder: Path) -> None:
    typer.echo(
        f"{joined.device} has joined. What it keeps is in {folder} (AURICLE_EDGE_STATE for other commands).", err=True
    )
