"""How long label files take: a few labels."""

from __future__ import annotations

from pathlib import Path

from bench.label_files import measure, report


def test_every_round_is_measured(tmp_path: Path) -> None:
    row = measure(50, 2, tmp_path)
    assert (len(row["reading"]), len(row["matching"])) == (2, 2)
    assert "50" in report({"rounds": 2, "load": 1.0, "rows": [row]})
