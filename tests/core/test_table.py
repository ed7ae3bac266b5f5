"""Tables on a narrow terminal: nothing that has to be typed is cut, words stay whole, and what hides is named."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from auricle.process.table import Column, Grid, moment

LONG = "kitchen-window-left-of-the-door-17"
COLUMNS = (Column("device", 0), Column("seen", 2), Column("extra", 3), Column("why", 1, is_sentence=True))


def grid(times: list[str]) -> Grid:
    why = "does not want to train now: the battery is at 10 %"
    return Grid(COLUMNS, lambda short: [[LONG, times[short], "x" * 12, why], ["a", times[short], "y", "yes"]])


def test_where_there_is_room_everything_is_on_one_line() -> None:
    lines = grid(["2026-11-23 14:05:12", "14:05"]).lines(200)

    assert [line.split("  ")[0] for line in lines] == ["device", LONG, "a"]
    assert "2026-11-23 14:05:12" in lines[1]
    assert lines[1].endswith("the battery is at 10 %")


def test_first_times_become_short_then_columns_hide_and_sentences_break_at_spaces() -> None:
    times = ["2026-11-23 14:05:12", "14:05"]

    for width in (90, 80, 70, 62):
        lines = grid(times).lines(width)
        assert max(map(len, lines)) <= width, lines
        assert lines[1].startswith(LONG)
        words = " ".join(lines).split()
        assert {"battery", "does", "train"} <= set(words), lines
    short, hidden = grid(times).lines(86), grid(times).lines(72)
    assert "14:05" in short[1]
    assert "2026" not in short[1]
    assert hidden[-1] == "Not shown here: extra."


def test_what_cannot_hide_is_longer_than_the_terminal_and_whole() -> None:
    lines = grid(["then", "then"]).lines(20)

    assert lines[1] == LONG
    assert lines[-3:] == ["Not shown here:", "seen, extra, why."] or "Not" in lines[-2]
    out = io.StringIO()
    Console(file=out, width=20).print(grid(["then", "then"]), crop=False)
    assert LONG in out.getvalue()


def test_characters_of_two_columns_are_counted_so() -> None:
    lines = Grid((Column("a", 0), Column("b", 0)), lambda _: [["音声", "1"], ["xy", "2"]]).lines(80)

    assert lines[1:] == ["音声  1", "xy    2"]


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ((2026, 11, 23, 14, 5, 12), "14:05:12"),
        ((2026, 11, 3, 14, 5, 12), "3 Nov 14:05"),
        ((2025, 12, 31, 23, 59, 0), "2025-12-31"),
    ],
)
def test_a_short_time_leaves_out_what_everybody_knows(at: tuple[int, ...], says: str) -> None:
    now = time.mktime((2026, 11, 23, 20, 0, 0, 0, 0, -1))
    then = time.mktime((*at, 0, 0, -1))

    assert moment(then, short=True, now=now) == says
    assert moment(then, short=False) == time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(then))
