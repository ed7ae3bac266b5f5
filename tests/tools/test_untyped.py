"""Dictionaries of anything, each with its reason."""

from __future__ import annotations

import re
from pathlib import Path

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
