"""Dictionaries of anything, each with its reason; and the list of what is long."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools import large

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
UNTYPED = re.compile(r"\b(?:dict|Mapping)\[str, Any\]")
MOST = 20
"""Mentions in all: fewer is better."""


def mentions() -> dict[str, int]:
    found = {}
    for part in ("core", "learning", "edge", "cloud", "export", "fleet"):
        for path in sorted((ROOT / part).rglob("*.py")):
            count = len(UNTYPED.findall(path.read_text(encoding="utf-8")))
            if count:
                found[str(path.relative_to(ROOT))] = count
    return found


def test_what_stays_untyped_has_its_reason() -> None:
    reasons = tomllib.loads((ROOT / "tools" / "untyped.toml").read_text(encoding="utf-8"))["files"]
    assert sorted(mentions()) == sorted(reasons)
    assert sum(mentions().values()) <= MOST


def test_long_files_and_functions_are_named_with_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "edge").mkdir()
    (tmp_path / "edge" / "long.py").write_text("def short():\n    pass\n\n\ndef wide():\n    a = 1\n    return a\n")
    (tmp_path / "edge" / "short.py").write_text("def own():\n    pass\n")
    monkeypatch.setattr(large, "ROOT", tmp_path)
    assert list(large.large(["edge"], 6, 2)) == [(7, "edge/long.py"), (3, "edge/long.py:5 wide")]
    assert list(large.large(["edge"], 7, 3)) == []
