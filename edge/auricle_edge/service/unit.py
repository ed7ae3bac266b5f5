"""The device's systemd unit, for the interpreter that runs."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

FILE = "service/auricle-edge.service"
INSTALLED = Path("/opt/auricle")
"""Where a bundle installs the agent: what the unit names as it is written."""
HOMES = (Path("/home"), Path("/root"))
GUARD = "# Root's own, outside the sandbox"
"""Begins the comment before the line that only a bundle's installation has."""


def unit_text(prefix: Path | None = None, python: Path | None = None) -> str:
    """The unit as it starts this installation.

    Parameters
    ----------
    prefix, python
        The environment and its interpreter; without, those of this process. Where they are a bundle's, the unit is as
        it was written; elsewhere it names this environment's `auricle` and leaves out the guard of versions on trial.
    """
    prefix, python = prefix or Path(sys.prefix), python or Path(sys.executable)
    text = resources.files("auricle_edge").joinpath(FILE).read_text("utf-8")
    if prefix.is_relative_to(INSTALLED):
        return text
    program = python.parent / "auricle"
    start = _word(program) if program.exists() else f"{_word(python)} -m auricle"
    before, _, rest = text.partition(GUARD)
    after = rest[rest.index("ExecStart=") :]
    made = before + after.replace(f"ExecStart={INSTALLED}/bin/auricle", f"ExecStart={start}", 1)
    return made.replace("ProtectHome=yes", "ProtectHome=read-only") if in_a_home(prefix) else made


def in_a_home(prefix: Path) -> bool:
    """Whether an environment lies where the unit's own user can hardly read it."""
    return any(prefix.is_relative_to(home) for home in HOMES)


def _word(path: Path) -> str:
    """A path as systemd reads it in a command."""
    text = str(path).replace("\\", "\\\\").replace("%", "%%").replace('"', '\\"')
    return f'"{text}"' if " " in text else text
