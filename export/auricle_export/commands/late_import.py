"""Modules that need a large library are imported by the command that uses them, and a missing one is a sentence."""

from __future__ import annotations

import importlib
from types import ModuleType

from auricle.errors import AuricleError

EXTRA = 'pip install "auricle[export]"'


def import_for(command: str, module: str, install: str = EXTRA) -> ModuleType:
    """Import `auricle_export.MODULE` for `auricle export COMMAND`.

    Raises
    ------
    AuricleError
        A library that it needs is not installed; `install` says how to get it.
    """
    try:
        return importlib.import_module(f"auricle_export.{module}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0].startswith("auricle"):
            raise
        raise AuricleError(
            f'"auricle export {command}" needs {error.name}, which is not installed: {install}'
        ) from error
