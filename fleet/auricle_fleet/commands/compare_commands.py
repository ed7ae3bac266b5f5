"""`auricle fleet compare`: runs side by side."""

from __future__ import annotations

from pathlib import Path

import msgspec
import typer

from auricle.process.table import print_grid
from auricle_fleet.results.compare import COLUMNS, each_run, rows
from auricle_fleet.results.compare import compare as side_by_side
from auricle_fleet.results.metrics import write_csv


def compare(
    runs: list[Path] = typer.Argument(help="Folders of runs."),
    csv: Path | None = typer.Option(None, help="Also write a row for each run to this file."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON: an object for each setting."),
) -> int:
    """Compare runs: the settings in which they differ, and their results; seeds as mean and spread."""
    compared = side_by_side(runs)
    if csv is not None:
        write_csv(csv, *each_run(runs))
    if as_json:
        typer.echo(msgspec.json.encode(compared).decode())
    else:
        print_grid(COLUMNS, rows(compared))
    return 0
