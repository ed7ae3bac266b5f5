"""What a run leaves for programs: a line a round in `metrics.jsonl`, `summary.json`, and CSV for a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from auricle.errors import StorageError
from auricle.files import describe, read_kept, write_durably
from auricle_fleet.results.result import RoundRow

WITHOUT = ("rounds", "personal", "scores", "held_out", "left_out")
"""Of a round, what CSV has not: the run's length, and tables by device, which `metrics.jsonl` has."""


class Metrics:
    """The rounds of one run, in memory and on disk.

    Parameters
    ----------
    folder
        The run's folder; earlier lines in it are read.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "metrics.jsonl"
        self.rounds: list[dict[str, object]] = []
        self._torn = False
        if self._path.exists():
            self._read()

    def _read(self) -> None:
        """Take over the lines of an earlier run; what a crash left of a line is dropped."""
        for text in read_kept(self._path).splitlines(keepends=True):
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                line = None
            if isinstance(line, dict) and "round" in line and text.endswith(b"\n"):
                self.rounds.append(line)
            else:
                self._torn = True

    def add(self, line: Mapping[str, object]) -> None:
        """Append a round; a repeated one (after a restart) replaces its line. StorageError when the disk is full."""
        repeated = any(r["round"] == line["round"] for r in self.rounds)
        self.rounds = [r for r in self.rounds if r["round"] != line["round"]] + [dict(line)]
        whole = repeated or self._torn
        text = "".join(json.dumps(r) + "\n" for r in (self.rounds if whole else self.rounds[-1:]))
        if whole:
            write_durably(self._path, text.encode())
            self._torn = False
            return
        try:
            with self._path.open("a") as file:
                file.write(text)
                file.flush()
        except OSError as error:
            self._torn = True
            raise StorageError(describe(error, self._path)) from error


def write_summary(folder: Path, summary: Mapping[str, object]) -> None:
    """Write `summary.json` whole or not at all."""
    write_durably(folder / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write a header and rows as CSV, whole or not at all: empty where nothing is known, numbers unrounded.

    Names of several devices are separated by spaces.

    Raises
    ------
    StorageError
        The file cannot be written, or is a folder: a link to one would be replaced.
    """
    if path.is_dir():
        raise StorageError(f"{path} is a folder: name a file for the table.")
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
