"""Parameters that are left to `make nightly`, for tests of which the gate has one of a kind (docs/testing.md)."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def nightly_but(values: Iterable[Any], kept: Container[Any]) -> list[Any]:
    """The values of a parameter: `make slow` has those that are kept, `make nightly` the others."""
    return [value if value in kept else pytest.param(value, marks=pytest.mark.nightly) for value in values]
