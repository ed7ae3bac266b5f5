"""Tables on a terminal: what has to be typed again is never cut, words are not broken, and less important columns hide.

A table that does not fit first writes its times short, then hides its least important columns, and says which. Long
sentences are put on several lines at their spaces, or below their row.
"""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

UNSEEN_WIDTH = 200
"""Columns of a table that goes to a file or a pipe."""
GAP_SPACES = 2
"""Spaces between two columns."""
NARROW_COLUMNS = 20
"""Columns that a sentence gets at least, where it is put on several lines."""


INDENT_SPACES = 4
"""Spaces before a sentence that stands below its row."""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    head: str
    rank: int = 1
    """0: never hidden; of the others the highest are hidden first."""
    is_sentence: bool = False
    """Put on several lines where it is too long, and below its row where even that does not fit."""


def moment(at: float, *, short: bool, now: float | None = None) -> str:
    """A time of this machine's clock: `2026-11-23 14:05:12`; short `14:05:12`, `20 Nov 14:05` or `2025-11-23`."""
    then, today = time.localtime(at), time.localtime(now)
    if not short:
        return time.strftime("%Y-%m-%d %H:%M:%S", then)
    if (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday):
        return time.strftime("%H:%M:%S", then)
    if then.tm_year != today.tm_year:
        return time.strftime("%Y-%m-%d", then)
    return f"{then.tm_mday} {time.strftime('%b', then)} {time.strftime('%H:%M', then)}"


class Grid:
    """A table that fits the terminal it is printed on.

    Parameters
    ----------
    columns
        From left to right.
    write
        Given whether to write times short, returns the rows: a text for each column.
    """

    def __init__(self, columns: Sequence[Column], write: Callable[[bool], Sequence[Sequence[str]]]) -> None:
        self._columns, self._write = list(columns), write

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Its lines; the first one is bold."""
        for i, line in enumerate(self.lines(options.max_width)):
            style = "bold" if i == 0 and any(column.head for column in self._columns) else ""
            yield Text(line, style=style, no_wrap=True, overflow="ignore")

    def lines(self, width: int) -> list[str]:
        """The table's lines for so many columns of a terminal; longer where what cannot hide is."""
        rows = [list(row) for row in self._write(False)]
        if self._least(range(len(self._columns)), rows) > width:
            rows = [list(row) for row in self._write(True)]
        shown = self._choose_columns(rows, width)
        lines = self._laid_out(shown, rows, width)
        hidden = [column.head for i, column in enumerate(self._columns) if i not in shown and not column.is_sentence]
        return [*lines, *_fill(f"Not shown here: {', '.join(hidden)}.", width)] if hidden else lines

    def _natural(self, i: int, rows: Sequence[Sequence[str]]) -> int:
        return max(cell_len(text) for text in (self._columns[i].head, *(row[i] for row in rows)))

    def _narrowest(self, i: int, rows: Sequence[Sequence[str]]) -> int:
        """Columns of a terminal in which a sentence breaks no word."""
        words = " ".join([self._columns[i].head, *(row[i] for row in rows)]).split()
        return max(NARROW_COLUMNS, *map(cell_len, words)) if words else NARROW_COLUMNS

    def _least(self, shown: Sequence[int] | range, rows: Sequence[Sequence[str]]) -> int:
        """Columns of a terminal that these columns of the table need at least."""
        widths = [self._natural(i, rows) for i in shown]
        for at, i in enumerate(shown):
            if self._columns[i].is_sentence:
                widths[at] = min(widths[at], self._narrowest(i, rows))
        return sum(widths) + GAP_SPACES * (len(widths) - 1)

    def _choose_columns(self, rows: Sequence[Sequence[str]], width: int) -> list[int]:
        shown = list(range(len(self._columns)))
        while self._least(shown, rows) > width and any(self._columns[i].rank for i in shown):
            shown.remove(max(shown, key=lambda i: (self._columns[i].rank, i)))
        return shown

    def _laid_out(self, shown: Sequence[int], rows: Sequence[Sequence[str]], width: int) -> list[str]:
        widths = {i: self._natural(i, rows) for i in shown}
        sentences = [i for i in shown if self._columns[i].is_sentence]
        over = sum(widths.values()) + GAP_SPACES * (len(shown) - 1) - width
        for i in sorted(sentences, key=lambda i: -widths[i]):  # the longest gives room first
            given = max(0, min(over, widths[i] - self._narrowest(i, rows)))
            widths[i], over = widths[i] - given, over - given
        below = [i for i, column in enumerate(self._columns) if column.is_sentence and i not in shown]
        heads = [] if not any(column.head for column in self._columns) else [[self._columns[i].head for i in shown]]
        lines = []
        for row, full in [*((head, None) for head in heads), *(([row[i] for i in shown], row) for row in rows)]:
            parts = [_fill(text, widths[i]) if i in sentences else [text] for i, text in zip(shown, row, strict=True)]
            for at in range(max(len(part) for part in parts)):
                texts = [part[at] if at < len(part) else "" for part in parts]
                cells = (text + " " * (widths[i] - cell_len(text)) for i, text in zip(shown, texts, strict=True))
                lines.append((" " * GAP_SPACES).join(cells).rstrip())
            if full is not None:
                lines += [
                    " " * INDENT_SPACES + line
                    for i in below
                    if full[i] != "-"
                    for line in _fill(full[i], width - INDENT_SPACES)
                ]
        return lines


def _fill(text: str, width: int) -> list[str]:
    """A text on lines of at most this width, broken at its spaces alone."""
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def console(*, stderr: bool = False) -> Console:
    """Where tables go: as wide as the terminal, and wide where nobody looks."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else UNSEEN_WIDTH
    return Console(markup=False, highlight=False, stderr=stderr, width=width)


def progress_bars(*columns: str | ProgressColumn, hidden: bool = False) -> Progress:
    """Bars on standard error that show how far something is; none where nobody looks, or with `hidden`.

    What is printed on their console is seen all the same.
    """
    from rich.progress import Progress

    shown = Console(stderr=True)
    return Progress(*columns, console=shown, disable=hidden or not shown.is_terminal, transient=True)


def print_grid(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, stderr: bool = False) -> None:
    """Print a table without times."""
    console(stderr=stderr).print(Grid(columns, lambda _short: rows), crop=False)
