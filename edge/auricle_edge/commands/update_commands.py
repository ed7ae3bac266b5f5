"""`auricle edge update` and `rollback`: another pack, or root's part of an update of the agent itself."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from auricle.errors import SettingsError
from auricle.packs.pack import Pack
from auricle.packs.shipped import DEFAULT_PACK
from auricle.packs.signature import read_trusted_key
from auricle_edge.commands.place import AsJson, Config, State, config_file, settings_of, state_folder
from auricle_edge.control.client import SOCKET
from auricle_edge.ota.pack_shelf import PackShelf
from auricle_edge.ota.records import FOLDER, WANTED, UpdateLaterError, Wanted, own_record, read_record
from auricle_edge.settings import read_settings


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(update)
    app.command()(rollback)
    app.command(hidden=True)(upgrade)


WantedFile = Annotated[
    Path | None,
    typer.Option("--wanted", help=f"Of a bundle: what the agent wants, {FOLDER}/{WANTED} of its state [the newest]."),
]
Root = Annotated[
    Path | None,
    typer.Option("--root", help="Of a bundle: everything lies below this folder, and no service is touched [/]."),
]


def update(
    pack: Annotated[
        str | None,
        typer.Argument(help="A folder, a .tar.zst, or the name of a shipped pack; without one, a bundle is fetched."),
    ] = None,
    wanted: WantedFile = None,
    root: Root = None,
    state: State = None,
    config: Config = None,
    as_json: AsJson = False,
) -> int:
    """Make a pack the one that runs, once it has proved itself, or fetch a newer version of everything.

    The running pack is kept for `rollback`. Without PACK it is for root: a signed bundle goes into the other slot and
    is tried. Exit code 75: try again later.
    """
    if pack is None:
        return _fetch_bundle(wanted, root, config, as_json)
    if wanted is not None or root is not None:
        raise SettingsError("--wanted and --root are of a bundle, which is fetched without a PACK: leave one out.")
    return _report_switch(_shelf(state, config).install(pack), state_folder(state, config), as_json)


def rollback(state: State = None, config: Config = None, as_json: AsJson = False) -> int:
    """Go back to the pack before the last update."""
    return _report_switch(_shelf(state, config).roll_back(), state_folder(state, config), as_json)


def upgrade(wanted: WantedFile = None, root: Root = None, config: Config = None, as_json: AsJson = False) -> int:
    """What `update` without a PACK was called; units of installed devices say it until the next version."""
    return _fetch_bundle(wanted, root, config, as_json)


def _shelf(state: Path | None, config: Path | None) -> PackShelf:
    settings = settings_of(config)
    name, key = (DEFAULT_PACK, None) if settings is None else (settings.pack, settings.pack_key)
    return PackShelf(state_folder(state, config), name, read_trusted_key(key))


def _report_switch(pack: Pack, folder: Path, as_json: bool) -> int:
    running = (folder / SOCKET).exists()
    then = "Restart the service: systemctl restart auricle-edge." if running else "The service will start with it."
    told = {"pack": pack.identity, "name": pack.manifest.name, "restart_needed": running}
    typer.echo(json.dumps(told) if as_json else f"{pack.manifest.name} ({pack.identity[:12]}) runs next. {then}")
    return 0


def _fetch_bundle(wanted: Path | None, root: Path | None, config: Path | None, as_json: bool) -> int:
    from auricle_edge.ota.bundle_upgrade import BundleUpgrade  # loads python-tuf

    file = config_file(config)
    if file is None:
        raise SettingsError("Name a PACK; or, for a newer bundle, the device's settings with --config.")
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
