"""`auricle flash bundle` and `verify`: everything that a board needs, in one file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from auricle.errors import SettingsError
from auricle.packs.signature import public_key, require_key
from auricle.process.table import progress_bars
from auricle.wire.bundle import Manifest
from auricle_export.flash.boards import board_names, load_board
from auricle_export.flash.bundle.build import Built, build_bundle
from auricle_export.flash.bundle.verify import verify_bundle
from auricle_export.flash.fleet_file import load_fleet

AS_JSON = typer.Option(False, "--json", help="Print a JSON object, nothing else.")


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(bundle)
    app.command()(verify)


def bundle(
    board: str = typer.Option(..., help="Name of a board, or a profile's file.", autocompletion=board_names),
    fleet: Path = typer.Option(..., help="The fleet.toml."),
    out: Path = typer.Option(..., help="Folder that the bundle goes to."),
    os: str | None = typer.Option(None, help="One of the board's systems, by id [the first]."),
    key: Path | None = typer.Option(None, help="File of the private key that signs it, 32 bytes."),
    new_key: bool = typer.Option(False, "--new-key", help="Draw a new key and keep it in the file of --key."),
    wheels: Path | None = typer.Option(
        None, help="Folder of wheels, which are fetched into it once [the user's cache]."
    ),
    without_updates: bool = typer.Option(
        False, "--without-updates", help="Also where fleet.toml names no update_root: such a board is never updated."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Write a bundle: agent, wheels, pack, settings and units, which installs on a board without network.

    The same parameters give the same bytes. Wheels are fetched once, by hash.
    """
    profile, read = load_board(board), load_fleet(fleet)
    if read.update_root is None and not without_updates:
        raise SettingsError(
            f"{fleet} names no update_root, so boards with this bundle could never be updated: auricle cloud fleet new "
            "(or releases init) makes one; or add --without-updates."
        )
    if key is not None:
        require_key(key, new=new_key)
    elif new_key:
        raise SettingsError("A new key needs a file: name it with --key.")
    with _bar(as_json) as bar:
        built = build_bundle(profile, read, out, os=os, key=key, wheels=wheels, progress=_shown(bar))
    if as_json:
        facts = {"path": str(built.path), "bytes": built.size, "signed_by": built.signed_by}
        typer.echo(json.dumps({**facts, "identity": built.identity, **_facts(built.manifest)}))
        return
    _tell(built)


def verify(
    bundle: Path = typer.Argument(..., help="A bundle's tar, or the folder it was unpacked into."),
    key: str | None = typer.Option(None, help="Public key, 64 hexadecimal digits, that must have signed it."),
    as_json: bool = AS_JSON,
) -> None:
    """Check a bundle's files against its manifest, and that against its signature; exit code 2 if one differs."""
    found = verify_bundle(bundle, None if key is None else public_key(key).hex())
    if as_json:
        facts = {"ok": True, "identity": found.identity, "signed_by": found.signed_by}
        typer.echo(json.dumps({**facts, **_facts(found.manifest)}))
        return
    for name, value in _facts(found.manifest).items():
        typer.echo(f"{name:<14}{value}")
    typer.echo(f"{'identity':<14}{found.identity}")
    typer.echo(f"{'signed by':<14}{found.signed_by or 'nobody'}")


def _facts(manifest: Manifest) -> dict[str, object]:
    return {
        "version": manifest.version,
        "board": manifest.board,
        "os": manifest.os,
        "base": manifest.base,
        "python": manifest.python,
        "architecture": manifest.architecture,
        "fleet": manifest.fleet,
        "pack": manifest.pack,
        "files": len(manifest.files),
    }


def _tell(built: Built) -> None:
    signed = "not signed" if built.signed_by is None else f"signed by {built.signed_by}"
    typer.echo(f"{built.path}: {built.size / 1e6:.1f} MB, {signed}")
    typer.echo(f"On the board: mkdir bundle && tar xf {built.path.name} -C bundle && sudo sh bundle/install")
    typer.echo(
        "Before its first bundle it gets its token: sudo install -D -m 600 DEVICE.token /etc/auricle/claim.token"
    )


def _shown(bar: Progress) -> Callable[[str, int, int], None]:
    task = bar.add_task("", total=None)
    return lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


def _bar(as_json: bool) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return progress_bars(*columns, hidden=as_json)
