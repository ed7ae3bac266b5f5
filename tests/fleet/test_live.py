"""What a run shows: where nobody watches, on a terminal, and for a program."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from tests.fleet.ended_run import SUMMARY, line

from auricle_fleet.results.live import BAR_CHARACTERS, SHOWN, View
from auricle_fleet.results.result import RoundRow
from auricle_fleet.settings.units import duration, false_accepts, percent, size


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "100"), ("LINES", "40"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)


def test_numbers_for_people() -> None:
    assert [percent(v) for v in (None, 0.0, 0.4567, 1.0)] == ["-", "0.0 %", "45.7 %", "100.0 %"]
    assert [size(v) for v in (0, 999, 1000, 1_500_000, 2.5e9)] == ["0 B", "999 B", "1.0 kB", "1.5 MB", "2.50 GB"]
    assert false_accepts(3, 240.0, 45.0, "false accept") == "3 false accepts in 4 min"
    assert [false_accepts(*v) for v in ((0, 5400.0, 0.0), (None, None, 45.2), (None, None, None))] == [
        *("0 in 1.5 h (0.0/h)", "45/h", "-"),
    ]
    assert [duration(v) for v in (None, 0, 59.9, 60, 3723)] == ["-", "0:00", "0:59", "1:00", "62:03"]


def row(number: int, **changes: Any) -> RoundRow:
    told = {"rounds": 20, "plugin_accuracy_unseen": 0.4567, "personal_accuracy": None, "counted": 18, "invited": 20}
    told |= {"bytes_up": 1_234_567, "bytes_down": 3_456_789_012, "seconds": 12.34, "seconds_left": 3723.0}
    return line(number, **{**told, "left_out": {"conv": ("dev-[red]a[/red]",)}, **changes})


def test_where_nobody_watches_a_round_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with View(as_json=False) as view:
        view.say("data from /a/[folder]/[/with] brackets that is long enough to be wrapped by a terminal of 80 columns")
        view.round(row(1, false_accepts=1, negative_seconds=240.0, false_accepts_per_hour=15.0))
        view.result(SUMMARY)
        for done in range(1, 101):
            view.step("reading clips", done, 100)
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("data from /a/[folder]/[/with] brackets")
    assert all(
        each in out[1]
        for each in ("1/20", "45.7 %", "18/20", "1.2 MB", "3.46 GB", "12.3 s", "62:03", "1 false accept in 4 min")
    )
    assert out[-1] == "reading clips: 100 of 100"


def test_as_json_there_is_json_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    with View(as_json=True) as view:
        view.say("broker: mosquitto")
        view.step("reading clips", 1, 1)
        view.round(row(1))
        view.result(SUMMARY)
    captured = capsys.readouterr()
    said = [json.loads(msgspec.json.encode(each)) for each in (row(1), SUMMARY)]
    assert [json.loads(text) for text in captured.out.splitlines()] == said
    assert captured.err == ""


@pytest.mark.usefixtures("terminal")
def test_a_terminal_keeps_the_newest_rounds_in_sight(capsys: pytest.CaptureFixture[str]) -> None:
    with View(as_json=False) as view:
        view.step("reading clips", 1, 2)
        view.step("reading clips", 2, 2)
        for number in range(1, SHOWN + 4):
            view.round(row(number, plugin_accuracy_unseen=None if number == 1 else 0.5))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().out).rsplit("unseen", 1)[1]
    assert f"{SHOWN + 3}/20" in shown
    assert " 3/20" not in shown
    assert "█" * (BAR_CHARACTERS // 2) in shown
    assert "█" * (BAR_CHARACTERS // 2 + 1) not in shown  # half of the speakers are recognised


@pytest.mark.usefixtures("terminal")
def test_a_view_that_ends_by_an_error_or_is_given_back_shows_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="broken"), View(as_json=False) as view:
        view.round(row(1))
        raise ValueError("broken")
    assert capsys.readouterr().out.rstrip().endswith("\x1b[?25h")
    with View(as_json=False) as view:
        capsys.readouterr()
        view.give_back()
        assert "\x1b[?25h" in capsys.readouterr().out


def drawn(text: str, columns: int) -> list[str]:
    """Lines of a terminal of `columns` after `text`; it may move up and back, delete a line, and break long lines."""
    lines, at, column, bare = [""], 0, 0, False
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x1b]", text):
        if part == "\r":
            column, bare = 0, False
        elif part == "\n":
            at, column, bare = at + 1, 0, False
        elif part == "\x1b[2K":
            lines[at] = ""
        elif re.fullmatch(r"\x1b\[\d*A", part):
            at = max(0, at - int(part[2:-1] or 1))
        elif not part.startswith("\x1b"):
            if bare:
                at, column = at + 1, 0
            lines += [""] * (at + 1 - len(lines))
            lines[at] = lines[at].ljust(column)[:column] + part + lines[at][column + 1 :]
            column += 1
            bare = column == columns
            column = min(column, columns)
        lines += [""] * (at + 1 - len(lines))
    return [line.rstrip() for line in lines]


def test_a_terminal_that_writes_what_is_typed_has_the_table_once(
    monkeypatch: pytest.MonkeyPatch, terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with View(as_json=False) as view:
        view.round(row(1))
    width = max(map(len, drawn(capsys.readouterr().out, 100)))
    monkeypatch.setenv("COLUMNS", str(width))  # each line ends at the terminal's edge
    with View(as_json=False) as view:
        view.round(row(1))
        assert view._live is not None
        view._live.refresh()
        print("^C", end="", flush=True, file=view._console.file)  # past the table's own stream: as a terminal does
        view.say("ends")
    shown = drawn(capsys.readouterr().out, width)
    assert sum(line.startswith("round") for line in shown) == 1
    assert sum(line.lstrip().startswith("1/20") for line in shown) == 1


@pytest.mark.parametrize("columns", [100, 80, 60, 17])
def test_a_narrow_terminal_hides_columns_and_cuts_no_number(
    monkeypatch: pytest.MonkeyPatch, terminal: None, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    with View(as_json=False) as view:
        view.round(row(1))
    shown = [line for line in drawn(capsys.readouterr().out, columns) if line]
    assert len(shown) == 2
    assert shown[1].split()[:3] == ["1/20", "45.7", "%"]
    assert max(map(len, shown)) <= columns
    assert "…" not in "".join(shown)
    assert ("3.46 GB" in shown[1]) == (columns >= 80)
