"""Every `>>>` of the product gives what stands below it."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("core", "learning", "edge", "cloud", "export", "fleet")


def modules() -> list[str]:
    """Modules that have an example."""
    return [
        ".".join(path.relative_to(ROOT / part).with_suffix("").parts).removesuffix(".__init__")
        for part in PARTS
        for path in sorted((ROOT / part).rglob("*.py"))
        if ">>> " in path.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("name", modules())
def test_the_examples_of_a_module_are_true(name: str) -> None:
    with np.printoptions(legacy=False, precision=4, suppress=True):
        found = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.attempted and not found.failed


def test_the_examples_of_the_page_are_true() -> None:
    found = doctest.testfile(str(ROOT / "docs" / "api.md"), module_relative=False)
    assert found.attempted and not found.failed
