"""The page of threats names tests that there are, and a test for every threat."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "threats.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@cache
def names_in(file: str) -> set[str]:
    tree = ast.parse((CHECKOUT / file).read_text())
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name[:5] == "test_"
    }


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_a_test_that_is_named_exists(file: str, name: str) -> None:
    assert name in names_in(file)


def test_every_threat_has_one_and_stands_there_once() -> None:
    after = PAGE.partition("## Transport and identity")[2]
    rows = [line for line in after.splitlines() if line.startswith("| ") and not line.startswith("| threat |")]
    assert len(rows) > 40
    assert [row for row in rows if "::test_" not in row] == []

    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "::test_" in line]
    tests = [tuple(sorted(re.findall(r"`(tests/[^`]+)`", row))) for row in rows]
    assert [row for row in rows if rows.count(row) > 1] == []
    assert [named for named in tests if tests.count(named) > 1] == []
