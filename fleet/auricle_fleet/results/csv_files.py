"""Runs and rounds as CSV, for a spreadsheet or pandas: a header, then a row each; empty where nothing is known."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from auricle.files import write_durably
from auricle_fleet.results.result import RoundRow

WITHOUT = ("rounds", "personal", "left_out")
"""Of a round, what CSV has not: the run's length, and tables by device, which `metrics.jsonl` has."""


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write rows whole or not at all, numbers unrounded, names of several devices parted by spaces.

    Raises
    ------
    StorageError
        The file cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    write_durably(path, text.getvalue().encode())


def write_rounds(path: Path, rows: Iterable[RoundRow]) -> None:
    """Write the rounds of a run; StorageError where that cannot be."""
    columns = [name for name in RoundRow.__struct_fields__ if name not in WITHOUT]
    write_csv(path, columns, map(msgspec.to_builtins, rows))


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return " ".join(value)
    if isinstance(value, list | tuple | dict):
        return msgspec.json.encode(value).decode()
    return str(value)
