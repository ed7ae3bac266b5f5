"""The bench of many clips measures what it says, on a few."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.many_clips import main


@pytest.mark.slow
@pytest.mark.nightly
def test_both_ways_read_every_clip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--clips", "800", "--folder", str(tmp_path), "--json"])
    memory, file = json.loads(capsys.readouterr().out)
    assert (memory["way"], file["way"]) == ("memory", "file")
    assert memory["clips"] == file["clips"] == 800
    assert min(memory["anonymous_mb"], file["anonymous_mb"]) > 10
    assert list(tmp_path.iterdir()) == []
