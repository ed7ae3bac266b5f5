"""What a run shows: where nobody watches, on a terminal, and for a program."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from auricle_fleet.live import BAR, SHOWN, View, duration, percent, size


def line(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "round": number,
        "rounds": 20,
        "plugin_accuracy_unseen": 0.4567,
        "personal_accuracy": None,
        "counted": 18,
        "invited": 20,
        "bytes_up": 1_234_567,
        "bytes_down": 3_456_789_012,
        "seconds": 12.34,
        "seconds_left": 3723.0,
        "left_out": {"conv": ["dev-[red]a[/red]"]},
        **changes,
    }


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "100"), ("LINES", "40"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)


def test_numbers_for_people() -> None:
    assert [percent(v) for v in (None, 0.0, 0.4567, 1.0)] == ["-", "0.0 %", "45.7 %", "100.0 %"]
    assert [size(v) for v in (0, 999, 1000, 1_500_000, 2.5e9)] == ["0 B", "999 B", "1.0 kB", "1.5 MB", "2.50 GB"]
    assert [duration(v) for v in (None, 0, 59.9, 60, 3723)] == ["-", "0:00", "0:59", "1:00", "62:03"]


def test_where_nobody_watches_a_round_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with View(as_json=False) as view:
        view.say("data from /a/[folder]/[/with] brackets that is long enough to be wrapped by a terminal of 80 columns")
        view.round(line(1))
        view.round(line(2, plugin_accuracy_unseen=None))
        view.result({"rounds": 2})

    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("data from /a/[folder]/[/with] brackets")
    assert out[1] == (
        "round 1/20  unseen 45.7 %  personal -  counted 18/20  up 1.2 MB  down 3.46 GB  12.3 s  left 62:03"
    )
    assert out[2].startswith("round 2/20  unseen -  ")
    assert len(out) == 3


def test_where_nobody_watches_progress_is_said_at_first_and_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with View(as_json=False) as view:
        for done in range(1, 101):
            view.step("reading clips", done, 100)

    assert capsys.readouterr().out.splitlines()[-1] == "reading clips: 100 of 100"


def test_as_json_there_is_json_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    with View(as_json=True) as view:
        view.say("broker: mosquitto")
        view.step("reading clips", 1, 1)
        view.round(line(1))
        view.result({"rounds": 1})

    captured = capsys.readouterr()
    assert [json.loads(text) for text in captured.out.splitlines()] == [line(1), {"rounds": 1}]
    assert captured.err == ""


@pytest.mark.usefixtures("terminal")
def test_a_terminal_keeps_the_newest_rounds_in_sight(capsys: pytest.CaptureFixture[str]) -> None:
    with View(as_json=False) as view:
        view.step("reading clips", 1, 2)
        view.step("reading clips", 2, 2)
        for number in range(1, SHOWN + 4):
            view.round(line(number, plugin_accuracy_unseen=None if number == 1 else 0.5))

    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().out).rsplit("unseen", 1)[1]
    assert f"{SHOWN + 3}/20" in shown
    assert " 3/20" not in shown
    assert "█" * (BAR // 2) in shown
    assert "█" * (BAR // 2 + 1) not in shown  # half of the speakers are recognised


@pytest.mark.usefixtures("terminal")
def test_a_view_that_ends_by_an_error_gives_the_terminal_back(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="broken"), View(as_json=False) as view:
        view.round(line(1))
        raise ValueError("broken")

    assert capsys.readouterr().out.rstrip().endswith("\x1b[?25h")
