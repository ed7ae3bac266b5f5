"""Tables on a narrow terminal: nothing that has to be typed is cut, words stay whole, and what hides is named."""

from __future__ import annotations

import io
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from auricle.process.bars import TimeLeft
from auricle.process.table import Column, Grid, moment

ROOT = Path(__file__).parents[2]
LONG = "kitchen-window-left-of-the-door-17"
COLUMNS = (Column("device", 0), Column("seen", 2), Column("extra", 3), Column("why", 1, is_sentence=True))


def grid(times: list[str]) -> Grid:
    why = "does not want to train now: the battery is at 10 %"
    return Grid(COLUMNS, lambda short: [[LONG, times[short], "x" * 12, why], ["a", times[short], "y", "yes"]])


def test_first_times_become_short_then_columns_hide_and_sentences_break_at_spaces() -> None:
    made = grid(["2026-11-23 14:05:12", "14:05"])
    assert len(made.lines(200)) == 3 and "2026-11-23 14:05:12" in made.lines(200)[1]
    for width in (90, 62):
        lines = made.lines(width)
        assert max(map(len, lines)) <= width, lines
        assert lines[1].startswith(LONG) and {"battery", "does", "train"} <= set(" ".join(lines).split())
    short = made.lines(86)[1]
    assert "14:05" in short and "2026" not in short
    assert made.lines(72)[-1] == "Not shown here: extra."


def test_what_cannot_hide_is_longer_than_the_terminal_and_whole() -> None:
    out = io.StringIO()
    Console(file=out, width=20).print(grid(["then", "then"]), crop=False)
    assert LONG in out.getvalue() and grid(["then", "then"]).lines(20)[1] == LONG


def test_characters_of_two_columns_are_counted_so() -> None:
    lines = Grid((Column("a", 0), Column("b", 0)), lambda _: [["音声", "1"], ["xy", "2"]]).lines(80)
    assert lines[1:] == ["音声  1", "xy    2"]


def test_a_short_time_leaves_out_what_everybody_knows() -> None:
    now = time.mktime((2026, 11, 23, 20, 0, 0, 0, 0, -1))
    for at, says in (
        ("2026-11-23 14:05:12", "14:05:12"),
        ("2026-11-03 14:05:12", "3 Nov 14:05"),
        ("2025-12-31 23:59:00", "2025-12-31"),
    ):
        then = time.mktime(time.strptime(at, "%Y-%m-%d %H:%M:%S"))
        assert (moment(then, short=True, now=now), moment(then, short=False)) == (says, at)


def test_a_bar_never_stands_at_no_time_left() -> None:
    words = []
    with Progress(TimeLeft(), console=Console(file=io.StringIO(), force_terminal=True), auto_refresh=False) as bars:
        task = bars.add_task("training", total=4)
        for done in range(5):
            bars.update(task, completed=done)
            words.append(TimeLeft().render(bars.tasks[0]).plain)
        time_of = [word.removeprefix("left ") for word in words]
    assert time_of[0] == "-:--:--" and time_of[-1] == ""
    assert "0:00:00" not in time_of


def test_every_bar_of_the_product_says_its_time_left_by_that_column() -> None:
    parts = ("core", "learning", "edge", "cloud", "export", "fleet")
    files = [path for part in parts for path in (ROOT / part).rglob("*.py")]
    assert [str(path.relative_to(ROOT)) for path in files if "TimeRemainingColumn" in path.read_text()] == [
        "core/auricle/process/bars.py"
    ]
