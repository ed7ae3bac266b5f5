"""docs/fleet.md has every file that a run leaves."""

from __future__ import annotations

import re
from pathlib import Path

from auricle_fleet.results.run_folder import RunFolder

PAGE = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text(encoding="utf-8")


def first_column(heading: str) -> set[str]:
    """What stands between backticks in the first column of the tables below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_every_file_that_a_run_leaves_is_told() -> None:
    run = RunFolder(Path("run"))
    left = {getattr(run, name) for name, kind in vars(RunFolder).items() if isinstance(kind, property)}
    names = {f"{path.name}/" if not path.suffix else path.name for path in left if path.parent == run.folder}
    assert first_column("What a run leaves") == names | {"state/"}
