"""How many files and connections a process may hold open: as many as the system lets it."""

from __future__ import annotations

import resource

WANTED = 65536
"""Descriptors; systems that allow a billion make programs slow that close all of them."""


def raise_open_files(pid: int = 0) -> int:
    """Lift the soft limit of open files of a process as far as its hard limit goes, and return what it is now.

    Parameters
    ----------
    pid
        0: this process.

    Raises
    ------
    ProcessLookupError
        There is no such process.
    """
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return WANTED if soft == resource.RLIM_INFINITY else soft
    try:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (wanted, hard))
    except PermissionError:  # a filter of system calls; then it stays as it is
        return soft
    return wanted


def open_files_limit() -> int:
    """Descriptors that this process may hold open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return WANTED if soft == resource.RLIM_INFINITY else soft
