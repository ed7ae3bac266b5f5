"""The targets, by where what they decode comes from."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Import every file of targets; each enters its own."""
    for found in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{found.name}")
