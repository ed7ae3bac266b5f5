"""A service goes on in the same process again: what only read its command line is not held for as long as it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

ours = False
"""Whether this process was started to be a command; not so where a program calls one."""


def become(module: str, settings: bytes, *arguments: str) -> None:
    """Replace what this process runs by `python -m MODULE DESCRIPTOR ARGUMENTS`; its id, files and environment stay.

    Returns where that cannot be, so that the caller goes on as it is.

    Parameters
    ----------
    module
        Reads the settings from the file that the descriptor names.
    settings
        They may hold secrets, and stand neither on the command line nor on a disk.
    """
    if not (ours and sys.platform.startswith("linux")):
        return
    descriptor = os.memfd_create("settings", 0)
    os.set_inheritable(descriptor, True)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(settings)
    os.lseek(descriptor, 0, os.SEEK_SET)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *_flags(), "-m", module, str(descriptor), *arguments])


def given(argument: str) -> bytes:
    """The settings that `become` passed on."""
    with os.fdopen(int(argument), "rb") as file:
        return file.read()


def _flags() -> Sequence[str]:
    """Never import from the working directory, as the command does not; nor from where this interpreter does not."""
    if sys.flags.isolated:
        return ("-I",)
    return ("-P",) if sys.version_info >= (3, 11) else ()
