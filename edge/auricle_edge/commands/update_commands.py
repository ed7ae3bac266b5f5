"""`auricle edge upgrade`: root's part of an update of the agent itself."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import msgspec
import typer

from auricle.errors import SettingsError
from auricle_edge.commands.place import AsJson, Config, config_file
from auricle_edge.ota.records import FOLDER, WANTED, UpdateLaterError, Wanted, own_record, read_record
from auricle_edge.settings import read_settings


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(upgrade)


def upgrade(
    wanted: Path | None = typer.Option(
        None, help=f"What the agent wants, {FOLDER}/{WANTED} in its state folder; without, the newest that fits."
    ),
    root: Path | None = typer.Option(None, help="Everything lies below this folder, and no service is touched."),
    config: Config = None,
    as_json: AsJson = False,
) -> int:
    """Fetch a signed bundle into the other slot and try it; for root. Exit code 75: try again later."""
    from auricle_edge.ota.bundle_upgrade import BundleUpgrade  # loads python-tuf

    file = config_file(config)
    if file is None:
        raise SettingsError("Name the device's settings with --config.")
    asked = None if wanted is None else read_record(wanted, Wanted)
    if wanted is not None and asked is None:
        _tell("Nothing is wanted.", as_json, state="idle")
        return 0
    os.umask(0o022)
    with contextlib.suppress(OSError):  # its unit has done it, and forbids it
        os.nice(10)
    upgrading = BundleUpgrade(read_settings(file, {}), root, lambda sentence: None if as_json else typer.echo(sentence))
    while True:
        now = asked or Wanted()
        answer = upgrading.run(now)
        newer = None if wanted is None else own_record(wanted, Wanted)
        if newer in (None, now) or answer.state == "staged":
            break
        asked = newer  # another was named meanwhile, and nobody starts this again for it
    _tell(answer.reason or f"The update is {answer.state}.", as_json, **msgspec.to_builtins(answer))
    return {"refused": 2, "later": UpdateLaterError.exit_code}.get(answer.state, 0)


def _tell(sentence: str, as_json: bool, **facts: object) -> None:
    typer.echo(json.dumps(facts) if as_json else sentence)
