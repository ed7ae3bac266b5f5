"""What a run shows while it goes on: a table of rounds in a terminal, a line a round elsewhere, JSON on request."""

from __future__ import annotations

import json
import time

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from auricle.errors import refuse_misfits_of
from auricle.process.bars import TimeLeft
from auricle.speech.sound_faults import findings_table
from auricle_fleet.results.result import RoundRow, Summary
from auricle_fleet.settings.units import duration, false_accepts, percent, size

SHOWN = 14
BAR_CHARACTERS = 8
"""Characters of an accuracy of 1: the table fits 80 columns."""
COLUMNS = ("round", "unseen", "", "personal", "counted", "up", "down", "seconds", "left")
SPARED = ("down", "up", "", "seconds", "counted", "personal", "left")
"""Columns that a narrow terminal goes without, the first one first: no number is cut."""
GAP = 2
SHOW_CURSOR = "\x1b[?25h"


def _verdict_text(row: RoundRow) -> str:
    """What a round's line says of false accepts, refused rounds and whom the rule left out, where anything is known."""
    accepts = false_accepts(row.false_accepts, row.negative_seconds, row.false_accepts_per_hour, "false accept")
    said = [accepts] if row.false_accepts_per_hour is not None else []
    said += [f"refused {len(row.refused)}"] if row.refused else []
    said += [f"left out by the rule {row.left_out_by_rule}"] if row.left_out_by_rule else []
    return "".join(f"{part}  " for part in said)


class Silent:
    """Shows nothing of a run; whoever shows something has these methods."""

    def __enter__(self) -> Silent:
        """Begin to show."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last state."""

    def give_back(self) -> None:
        """Give the terminal back at once: the process ends without `__exit__`."""

    def say(self, text: str) -> None:
        """Print a sentence."""

    def step(self, what: str, done: int, total: int) -> None:
        """Show progress of something before or after the rounds."""

    def round(self, row: RoundRow) -> None:
        """Show a finished round."""

    def result(self, summary: Summary) -> None:
        """Show what the run came to."""


@refuse_misfits_of
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
        self.rows: list[RoundRow] = []
        """Of the rounds that are over."""
        self._steps = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeLeft(),
            console=self._console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._said: dict[str, float] = {}

    def __enter__(self) -> View:
        """Start showing."""
        if not self._json and self._console.is_terminal:
            self._live = Live(self._with_cursor_line(), console=self._console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last state on the screen."""
        if self._live is not None:
            self._live.update(self.rendered())
            self._live.stop()

    def give_back(self) -> None:
        """Show the cursor again, which a live table hides."""
        if self._live is not None:
            print(SHOW_CURSOR, file=self._console.file, flush=True)

    def say(self, text: str) -> None:
        """Print a sentence."""
        if not self._json:
            self._console.print(text, highlight=False, markup=False, soft_wrap=not self._console.is_terminal)

    def step(self, what: str, done: int, total: int) -> None:
        """Show progress of something before or after the rounds."""
        if self._live is not None:
            if what not in self._tasks:
                self._tasks[what] = self._steps.add_task(what, total=total)
            self._steps.update(self._tasks[what], completed=done, total=total)
            if done >= total:
                self._steps.remove_task(self._tasks.pop(what))
            self._live.update(self._with_cursor_line())
        elif not self._json and (done >= total or time.monotonic() - self._said.get(what, 0) > 10):
            self._said[what] = time.monotonic()
            self.say(f"{what}: {done} of {total}")

    def round(self, row: RoundRow) -> None:
        """Show a finished round."""
        self.rows.append(row)
        if self._json:
            _print(row)
        elif self._live is not None:
            self._live.update(self._with_cursor_line())
        else:
            self.say(
                f"round {row.round}/{row.rounds}  unseen {percent(row.plugin_accuracy_unseen)}  "
                f"personal {percent(row.personal_accuracy)}  counted {row.counted}/{row.invited}  "
                f"{_verdict_text(row)}"
                f"up {size(row.bytes_up)}  down {size(row.bytes_down)}  {row.seconds:.1f} s  "
                f"left {duration(row.seconds_left)}"
            )

    def result(self, summary: Summary) -> None:
        """Print the summary as JSON where JSON was asked for, else what was found in files of sound, if anything."""
        if self._json:
            _print(summary)
        elif summary.findings:
            self.say(findings_table(summary.findings))

    def rendered(self) -> Group:
        """What stands in the terminal: the last rounds, and what is under way."""
        return Group(*([self._table()] if self.rows else []), self._steps)

    def _with_cursor_line(self) -> Group:
        """The same above an empty line for the cursor.

        A terminal writes `^C` where the cursor is. Behind the end of a line it would go on into the next one, from
        where the table would be drawn a second time instead of over itself.
        """
        return Group(self.rendered(), Text())

    def _table(self) -> Table:
        columns = dict(zip(COLUMNS, zip(*map(_cells, self.rows[-SHOWN:]), strict=True), strict=True))
        widths = {name: max(map(len, (name, *cells))) for name, cells in columns.items()}
        for spared in SPARED:
            if sum(widths.values()) + GAP * (len(widths) - 1) > self._console.width:
                del columns[spared], widths[spared]
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
        for name in columns:
            table.add_column(name, justify="left" if not name else "right", no_wrap=True)
        for row in zip(*columns.values(), strict=True):
            table.add_row(*row)
        return table


def _cells(row: RoundRow) -> tuple[str, ...]:
    """A round as the columns have it."""
    return (
        f"{row.round}/{row.rounds}",
        percent(row.plugin_accuracy_unseen),
        "█" * round(BAR_CHARACTERS * (row.plugin_accuracy_unseen or 0.0)),
        percent(row.personal_accuracy),
        f"{row.counted}/{row.invited}",
        size(row.bytes_up),
        size(row.bytes_down),
        f"{row.seconds:.1f}",
        duration(row.seconds_left),
    )


def _print(shown: RoundRow | Summary) -> None:
    print(json.dumps(msgspec.to_builtins(shown)), flush=True)
