"""A line a round in `metrics.jsonl`, and what the whole run came to in `summary.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from auricle.errors import StorageError
from auricle.files import describe, write_durably


class Metrics:
    """The rounds of one run, in memory and on disk.

    Parameters
    ----------
    folder
        The run's folder; earlier lines in it are read.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "metrics.jsonl"
        self.rounds: list[dict[str, Any]] = []
        self._torn = False
        if self._path.exists():
            self._read()

    def _read(self) -> None:
        """Take over the lines of an earlier run; what a crash left of a line is dropped."""
        for text in self._path.read_bytes().splitlines(keepends=True):
            try:
                line = json.loads(text)
            except ValueError:
                line = None
            if isinstance(line, dict) and "round" in line and text.endswith(b"\n"):
                self.rounds.append(line)
            else:
                self._torn = True

    def add(self, line: Mapping[str, Any]) -> None:
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

    @property
    def last(self) -> dict[str, Any] | None:
        """The newest round."""
        return self.rounds[-1] if self.rounds else None


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write `summary.json` whole or not at all."""
    write_durably(folder / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())
