"""The list of what is long: which places it names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import large


def test_long_files_and_functions_are_named_with_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "edge").mkdir()
    (tmp_path / "edge" / "long.py").write_text("def short():\n    pass\n\n\ndef wide():\n    a = 1\n    return a\n")
    (tmp_path / "edge" / "short.py").write_text("def own():\n    pass\n")
    monkeypatch.setattr(large, "ROOT", tmp_path)

    assert list(large.large(["edge"], 6, 2)) == [(7, "edge/long.py"), (3, "edge/long.py:5 wide")]
    assert list(large.large(["edge"], 7, 3)) == []
