"""What a run shows while it goes on: a table of rounds in a terminal, a line a round elsewhere, JSON on request."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

SHOWN = 14
BAR = 8
"""Characters of an accuracy of 1: the table fits 80 columns."""
COLUMNS = ("round", "unseen", "", "personal", "counted", "up", "down", "seconds", "left")


def percent(value: float | None) -> str:
    """A share as a percentage, a dash when it is not known."""
    return "-" if value is None else f"{100 * value:.1f} %"


def size(count: float) -> str:
    """Bytes with a unit."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def duration(seconds: float | None) -> str:
    """Seconds as m:ss."""
    return "-" if seconds is None else f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _judged(line: Mapping[str, Any]) -> str:
    """What a round's line says of false accepts and of refused rounds, where anything is known."""
    accepts, refused = line.get("false_accepts_per_hour"), line.get("refused")
    said = [f"false accepts {accepts:.0f}/h"] if accepts is not None else []
    said += [f"refused {len(refused)}"] if refused else []
    return "".join(f"{part}  " for part in said)


class Silent:
    """Shows nothing of a run; whoever shows something has these methods."""

    def __enter__(self) -> Silent:
        """Begin to show."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last state."""

    def say(self, text: str) -> None:
        """Print a sentence."""

    def step(self, what: str, done: int, total: int) -> None:
        """Show progress of something before or after the rounds."""

    def round(self, line: Mapping[str, Any]) -> None:
        """Show a finished round."""

    def result(self, summary: Mapping[str, Any]) -> None:
        """Show what the run came to."""


class View(Silent):
    """Show what `auricle fleet run` shows; `with` it, it has the terminal until it ends.

    Parameters
    ----------
    as_json
        Print one JSON object a line and nothing else.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self._json = as_json
        self._console = Console(stderr=as_json, quiet=as_json)
        self._live: Live | None = None
        self.rows: list[Mapping[str, Any]] = []
        """Of the rounds that are over."""
        self._steps = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._tasks: dict[str, Any] = {}
        self._said: dict[str, float] = {}

    def __enter__(self) -> View:
        """Start showing."""
        if not self._json and self._console.is_terminal:
            self._live = Live(self.rendered(), console=self._console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last state on the screen."""
        if self._live is not None:
            self._live.update(self.rendered())
            self._live.stop()

    def say(self, text: str) -> None:
        """Print a sentence."""
        if not self._json:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def step(self, what: str, done: int, total: int) -> None:
        """Show progress of something before or after the rounds."""
        if self._live is not None:
            if what not in self._tasks:
                self._tasks[what] = self._steps.add_task(what, total=total)
            self._steps.update(self._tasks[what], completed=done, total=total)
            if done >= total:
                self._steps.remove_task(self._tasks.pop(what))
            self._live.update(self.rendered())
        elif not self._json and (done >= total or time.monotonic() - self._said.get(what, 0) > 10):
            self._said[what] = time.monotonic()
            self.say(f"{what}: {done} of {total}")

    def round(self, line: Mapping[str, Any]) -> None:
        """Show a finished round."""
        self.rows.append(line)
        if self._json:
            print(json.dumps(dict(line)), flush=True)
        elif self._live is not None:
            self._live.update(self.rendered())
        else:
            self.say(
                f"round {line['round']}/{line['rounds']}  unseen {percent(line['plugin_accuracy_unseen'])}  "
                f"personal {percent(line['personal_accuracy'])}  counted {line['counted']}/{line['invited']}  "
                f"{_judged(line)}"
                f"up {size(line['bytes_up'])}  down {size(line['bytes_down'])}  {line['seconds']:.1f} s  "
                f"left {duration(line['seconds_left'])}"
            )

    def result(self, summary: Mapping[str, Any]) -> None:
        """Print the summary as JSON where JSON was asked for."""
        if self._json:
            print(json.dumps(dict(summary)), flush=True)

    def rendered(self) -> Group:
        """What stands in the terminal: the last rounds, and what is under way."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in COLUMNS:
            table.add_column(name, justify="left" if not name else "right", no_wrap=True)
        for line in self.rows[-SHOWN:]:
            accuracy = line["plugin_accuracy_unseen"] or 0.0
            table.add_row(
                f"{line['round']}/{line['rounds']}",
                percent(line["plugin_accuracy_unseen"]),
                "█" * round(BAR * accuracy),
                percent(line["personal_accuracy"]),
                f"{line['counted']}/{line['invited']}",
                size(line["bytes_up"]),
                size(line["bytes_down"]),
                f"{line['seconds']:.1f}",
                duration(line["seconds_left"]),
            )
        shown = [table] if self.rows else []
        return Group(*shown, self._steps)
