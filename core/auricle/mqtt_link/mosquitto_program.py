"""Where mosquitto is on this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_PLACES = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin")
"""Debian puts it where a user's PATH does not look."""


def find_mosquitto() -> Path | None:
    """Return the program, or None if it is not installed."""
    found = shutil.which("mosquitto") or shutil.which("mosquitto", path=os.pathsep.join(_PLACES))
    return None if found is None else Path(found)


def mosquitto_command(config: Path) -> str:
    """The command that starts it with a configuration, as a shell of this machine finds it."""
    found = find_mosquitto()
    return f"{found if found and shutil.which('mosquitto') is None else 'mosquitto'} -c {config}"
