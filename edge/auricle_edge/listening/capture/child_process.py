"""The capture child as the listener sees it: started, read, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from auricle_edge.listening.capture.frames import Frame, FrameReader

_READ_BYTES = 1 << 16
_END_SECONDS = 3.0
_LOOK_SECONDS = 0.005


class CaptureChild:
    """A child that is running; it dies with this process.

    Parameters
    ----------
    options
        What `child.main` takes, without `parent`.
    """

    def __init__(self, options: Mapping[str, object]) -> None:
        command = msgspec.json.encode({**options, "parent": os.getpid()}).decode()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "auricle_edge.listening.capture.child", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "PYTHONSAFEPATH": "1"},
        )
        assert self._process.stdout is not None
        self._pipe = self._process.stdout
        self._reader = FrameReader()
        self.unwanted = False
        """It was ended on purpose."""
        os.set_blocking(self._pipe.fileno(), False)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def fileno(self) -> int:
        """The pipe, for poll."""
        return self._pipe.fileno()

    def frames(self) -> list[Frame]:
        """What has come; EOFError when the child has ended and everything was read, WireError as `FrameReader.feed`."""
        try:
            data = os.read(self._pipe.fileno(), _READ_BYTES)
        except BlockingIOError:
            return []
        if not data:
            raise EOFError
        return self._reader.feed(data)

    @property
    def ending(self) -> str:
        """How it ended, once its pipe has."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        code = self._process.returncode
        if code is None:
            return "it does not end"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def end(self) -> None:
        """Kill it with all it has started and wait for that, so that the device is closed; twice is once.

        What a driver keeps in the kernel for longer than `_END_SECONDS` is left to be collected later.
        """
        self.unwanted = True
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        until = time.monotonic() + _END_SECONDS
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        while _any_left(self._process.pid) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        """End it and give its pipe back."""
        self.end()
        self._pipe.close()


def _any_left(group: int) -> bool:
    """Whether a process of this group still runs: an arecord outlives the child that started it for a moment."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return any(_runs_in(group, path) for path in Path("/proc").glob("[0-9]*/stat"))


def _runs_in(group: int, stat: Path) -> bool:
    try:
        state, _, process_group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
    except (OSError, ValueError):  # it has ended while we looked
        return False
    return int(process_group) == group and state not in "ZX"
