"""docs/runtimes.md says which operators each runtime has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from auricle.checks.layout_shapes import RULES
from auricle_learning.native.planner import HANDLERS

PAGE = Path(__file__).parents[2] / "docs" / "runtimes.md"


def rows() -> Iterator[str]:
    """The table: operators that the same runtimes have, `step` all that a pack may hold."""
    translated = pytest.importorskip("auricle_export.tflite.pack").OPERATORS
    runtimes = [
        ("`step`, `native`, `tflite`", HANDLERS.keys() & translated.keys()),
        ("`step`, `native`", HANDLERS.keys() - translated.keys()),
        ("`step`, `tflite`", translated.keys() - HANDLERS.keys()),
        ("`step`", RULES.keys() - HANDLERS.keys() - translated.keys()),
    ]
    for runtime, operators in runtimes:
        yield f"| {runtime} | {', '.join(sorted(operators))} |"


def test_the_table_of_operators_is_that_of_the_code() -> None:
    assert HANDLERS.keys() <= RULES.keys()
    page = PAGE.read_text()
    assert [row for row in rows() if row not in page] == []
