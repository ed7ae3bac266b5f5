"""`auricle cloud use`: name a coordinator once, and let all commands act on it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from auricle.errors import SettingsError
from auricle.process.table import Column, print_grid
from auricle_cloud.api.remote import TOKEN
from auricle_cloud.commands.answers import say
from auricle_cloud.commands.contexts import (
    Context,
    Contexts,
    read_contexts,
    settings_file,
    write_contexts,
)
from auricle_cloud.commands.target import Place


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("use")(use)


def use(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The context to use; without one, list them.")
    ] = None,
    state: Annotated[Path | None, typer.Option("--state", help="The coordinator's folder on this machine.")] = None,
    database: Annotated[str | None, typer.Option(help="URL of its database, if it is not there.")] = None,
    blobs: Annotated[str | None, typer.Option(help="URL of its object store, if it is not there.")] = None,
    server: Annotated[str | None, typer.Option(help=f"URL of its API; the token of {TOKEN} is kept with it.")] = None,
    task: Annotated[str | None, typer.Option(help="The task [the only one, or keywords].")] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Remove the context.")] = False,
) -> int:
    """Use a context: the coordinator that all commands act on where neither an option nor the environment names one.

    With options it is made or changed; without a name all are listed. They are kept in ~/.config/auricle/cloud.toml,
    which only you may read.
    """
    contexts = read_contexts()
    given = {
        "state": None if state is None else str(state.absolute()),
        "database": database,
        "blobs": blobs,
        "server": server,
        "task": task,
    }
    options = {option: value for option, value in given.items() if value is not None}
    if name is None:
        if options or forget:
            raise SettingsError("Name the context: auricle cloud use NAME --server URL.")
        return _list(contexts)
    if not _is_name(name):
        raise SettingsError(f'"{name}" is not a valid name of a context: take letters, digits, ".", "_" and "-".')
    if forget:
        contexts.named(name)
        left = {known: context for known, context in contexts.context.items() if known != name}
        current = None if contexts.current == name else contexts.current
        write_contexts(Contexts(current=current, context=left))
        say(f"The context {name} is forgotten.")
        return 0
    if state is not None and not state.is_dir():
        warning = f"There is no folder {state} yet: auricle cloud fleet new or serve makes it. Check the name."
        typer.echo(f"auricle: {warning}", err=True)
    if state is not None:
        _refuse_folder_of_fleet(name, state)
    if options:
        Place(state=state, database=database, blobs=blobs, server=server, task=task)  # refuses what names two places
        made = _change(contexts.context.get(name, Context()), options)
        if made.server is None and made.state is None and made.database is None:
            raise SettingsError(f"The context {name} names no coordinator yet: add --state, --database or --server.")
        contexts = Contexts(current=name, context={**contexts.context, name: made})
    else:
        contexts.named(name)
        contexts = Contexts(current=name, context=contexts.context)
    write_contexts(contexts)
    chosen = contexts.in_use
    where = chosen.server or chosen.database or chosen.state
    lacks = chosen.server is not None and chosen.token is None
    say(
        f"Commands act on {name} now: {where}."
        + (f" Set {TOKEN} and type this again to keep its token." if lacks else "")
    )
    return 0


def _refuse_folder_of_fleet(name: str, folder: Path) -> None:
    from auricle_cloud.storage.store import FILE

    if not (folder / FILE).is_file() and (folder / "state" / FILE).is_file():
        right = f"auricle cloud use {name} --state {folder / 'state'}"
        raise SettingsError(f"{folder} is the folder of a fleet, and its state is in it: {right}")


def _change(before: Context, options: Mapping[str, str]) -> Context:
    """A context with what the options say: another place takes the one before away, and the token with its server."""
    told = msgspec.structs.asdict(before)
    if "server" in options:
        token = os.environ.get(TOKEN) or (before.token if options["server"] == before.server else None)
        told = {"task": before.task, "token": token}
    elif options.keys() & {"state", "database", "blobs"}:
        told |= {"server": None, "token": None}
    return Context(**{**told, **options})


def _is_name(name: str) -> bool:
    return name[:1].isalnum() and len(name) <= 64 and all(c.isascii() and (c.isalnum() or c in "._-") for c in name)


def _list(contexts: Contexts) -> int:
    if not contexts.context:
        say(f"There is no context yet ({settings_file()}): auricle cloud use home --state FOLDER, or --server URL.")
        return 0
    columns = (Column("", 0), Column("name", 0), Column("where", 0), Column("task"), Column("token"))
    rows = []
    for name, one in sorted(contexts.context.items()):
        where = one.server or one.database or one.state or "-"
        rows.append(
            ("*" if name == contexts.current else "", name, where, one.task or "-", "kept" if one.token else "-")
        )
    print_grid(columns, rows)
    return 0
