"""docs/fleet.md has every option of a run, every field of its results and every file that it leaves."""

from __future__ import annotations

import re
from pathlib import Path

import typer

from auricle.process.cli import build_app
from auricle_fleet.results.result import RoundRow, Summary
from auricle_fleet.results.run_folder import RunFolder

PAGE = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text(encoding="utf-8")


def first_column(heading: str) -> set[str]:
    """What stands between backticks in the first column of the tables below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_every_option_of_a_run_is_named() -> None:
    group = typer.main.get_command(build_app("fleet"))
    command = group.commands["fleet"].commands["run"]
    named = set(re.findall(r"`(--[a-z-]+)", PAGE))
    shown = (option for option in command.params if not option.hidden)
    assert {flag for option in shown for flag in option.opts} <= named


def test_every_field_of_a_round_and_a_run_is_told_and_no_other() -> None:
    assert first_column("Fields") == {*RoundRow.__struct_fields__, *Summary.__struct_fields__}


def test_every_file_that_a_run_leaves_is_told() -> None:
    run = RunFolder(Path("run"))
    left = {getattr(run, name) for name, kind in vars(RunFolder).items() if isinstance(kind, property)}
    names = {f"{path.name}/" if not path.suffix else path.name for path in left if path.parent == run.folder}
    assert first_column("What a run leaves") == names | {"state/"}
