"""Tests that are `async def`."""

from __future__ import annotations

from tests.system.conftest import pytest_pyfunc_call as pytest_pyfunc_call
