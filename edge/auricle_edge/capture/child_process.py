"""The capture child as the listener sees it: started, read, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from auricle_edge.capture.frames import Frame, FrameReader

_READ_BYTES = 1 << 16
_END_SECONDS = 3.0


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
            [sys.executable, "-m", "auricle_edge.capture.child", command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "PYTHONSAFEPATH": "1"},
        )  # fmt: skip
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
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)

    def close(self) -> None:
        """End it and give its pipe back."""
        self.end()
        self._pipe.close()
