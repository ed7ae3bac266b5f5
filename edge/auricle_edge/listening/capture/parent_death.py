"""A child that never outlives its parent, so that nobody holds a microphone for nobody."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
LOOK_SECONDS = 0.5


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, also while it is stopped (prctl(2), PR_SET_PDEATHSIG).

    Only Linux does that: elsewhere a thread looks twice a second, until the process runs another program.

    Parameters
    ----------
    parent
        Its process id; when it has ended already, this process ends here.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_end_after, args=(parent,), name="parent", daemon=True).start()
    if os.getppid() != parent:
        sys.exit(0)


def _end_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(0)
