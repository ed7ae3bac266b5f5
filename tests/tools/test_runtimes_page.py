"""docs/runtimes.md says which operators each runtime has."""

from __future__ import annotations

import pytest
from tools import api_page

from auricle.checks.layout_shapes import RULES
from auricle_learning.native.planner import HANDLERS


def test_the_table_of_operators_is_that_of_the_code() -> None:
    pytest.importorskip("auricle_export.tflite.pack")
    page = api_page.RUNTIMES.read_text(encoding="utf-8")
    assert HANDLERS.keys() <= RULES.keys()
    assert api_page.filled_runtimes(page) == page
