"""The table of boards on a terminal of 80 columns: names are whole, since one has to type them."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from auricle_export.flash.boards import board_names
from auricle_export.flash.commands import app


def test_names_of_boards_are_whole_and_lines_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auricle.process.table.UNSEEN_WIDTH", 80)

    listed = CliRunner().invoke(app, ["boards", "list"]).output.splitlines()
    shown = CliRunner().invoke(app, ["boards", "show", "pi5"]).output.splitlines()

    assert {line.split()[0] for line in listed if not line.startswith((" ", "Not"))} == {"board", *board_names()}
    assert max(map(len, listed)) <= 80
    assert max(map(len, shown)) <= 80
