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
        if self._path.exists():
            self.rounds = [json.loads(line) for line in self._path.read_text().splitlines() if line.endswith("}")]

    def add(self, line: Mapping[str, Any]) -> None:
        """Append a round; a repeated one (after a restart) replaces its line. StorageError when the disk is full."""
        repeated = any(r["round"] == line["round"] for r in self.rounds)
        self.rounds = [r for r in self.rounds if r["round"] != line["round"]] + [dict(line)]
        text = "".join(json.dumps(r) + "\n" for r in (self.rounds if repeated else self.rounds[-1:]))
        if repeated:
            write_durably(self._path, text.encode())
            return
        try:
            with self._path.open("a") as file:
                file.write(text)
                file.flush()
        except OSError as error:
            raise StorageError(describe(error, self._path)) from error

    @property
    def last(self) -> dict[str, Any] | None:
        """The newest round."""
        return self.rounds[-1] if self.rounds else None


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write `summary.json` whole or not at all."""
    write_durably(folder / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())
