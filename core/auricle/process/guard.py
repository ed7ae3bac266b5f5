"""A child process that ends with this one."""

from __future__ import annotations

import subprocess

_SCRIPT = 'cat >/dev/null; kill "$1" 2>/dev/null'


def guard_child(pid: int) -> subprocess.Popen[bytes]:
    """Start a shell that ends a child when the other end of its pipe closes: when this process dies, even by SIGKILL.

    Kill it before the child has been waited for, whose number may be another process's after that.
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", _SCRIPT, "broker-guard", str(pid)], stdin=subprocess.PIPE, start_new_session=True
    )
