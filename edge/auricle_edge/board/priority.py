"""A thread that trains steps back for the one that listens."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

NICENESS = 10
SWITCH_SECONDS = 0.001
"""Seconds after which a thread that runs Python lets another one run that waits; Python's own value is 0.005."""


def yield_to_detection() -> None:
    """Lower the calling thread's priority; `ThreadPoolExecutor(1, "train", initializer=yield_to_detection)`.

    On Linux a thread has a niceness of its own, and what it computes in batches (SCHED_BATCH) does not preempt who
    wakes up. Elsewhere, and where a sandbox forbids it, only Python's switching is quickened.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    if not sys.platform.startswith("linux"):
        return
    thread = threading.get_native_id()
    with contextlib.suppress(OSError):
        os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, thread, max(NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))
