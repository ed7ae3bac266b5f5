"""How many files and connections a process may hold open: as many as the system lets it."""

from __future__ import annotations

import resource
import sys

WANTED_DESCRIPTORS = 65536
"""Descriptors; systems that allow a billion make programs slow that close all of them."""
OF_MACOS = 10240
"""OPEN_MAX: macOS has no hard limit and refuses more than this, or than kern.maxfilesperproc."""


def raise_open_files(pid: int = 0) -> int:
    """Lift the soft limit of open files of a process as far as its hard limit goes, and return what it is now.

    Another process has its limit lifted on Linux only; elsewhere it keeps the one that this process had when it
    started it.

    Parameters
    ----------
    pid
        0: this process.

    Raises
    ------
    ProcessLookupError
        There is no such process.
    """
    if not sys.platform.startswith("linux"):
        return _raise_ours() if pid == 0 else open_files_limit()
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    wanted = _soft_limit(soft, hard)
    if wanted <= soft or soft == resource.RLIM_INFINITY:
        return wanted
    try:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (wanted, hard))
    except PermissionError:  # a filter of system calls; then it stays as it is
        return soft
    return wanted


def open_files_limit() -> int:
    """Descriptors that this process may hold open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return WANTED_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def _soft_limit(soft: int, hard: int) -> int:
    """What the soft limit should be: never less than it is."""
    most = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, WANTED_DESCRIPTORS)
    return WANTED_DESCRIPTORS if soft == resource.RLIM_INFINITY else max(soft, most)


def _raise_ours() -> int:
    """As far as the system lets this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in (WANTED_DESCRIPTORS, OF_MACOS):
        wanted = min(_soft_limit(soft, hard), most)
        if soft == resource.RLIM_INFINITY or wanted <= soft:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            break
        except (OSError, ValueError):  # more than this system allows
            continue
    return open_files_limit()
