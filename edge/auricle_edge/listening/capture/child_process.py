"""The capture child as the listener sees it: started, waited for, read, ended; its FIFO, and its microphones."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from auricle.errors import DataError, WireError
from auricle_edge.listening.capture.frames import Device, Frame, FrameReader
from auricle_edge.listening.capture.settings import Source

_READ_BYTES = 1 << 16
_END_SECONDS = 3.0
_LOOK_SECONDS = 0.005


_BEGIN = (
    f"import sys; sys.path[:] = sys.argv[1].split({os.pathsep!r}); "
    "from auricle_edge.listening.capture.child import main; main(sys.argv[2:])"
)
"""Without `site` and `runpy`, which would be a tenth of the child: it finds what this process finds."""


def arguments_of(options: Mapping[str, object]) -> list[str]:
    """The child's command line, which `child.options_of` reads: what is None is left out, True is 1 and False 0."""
    told = {name: int(value) if isinstance(value, bool) else value for name, value in options.items()}
    return [f"{name}={value}" for name, value in {**told, "parent": os.getpid()}.items() if value is not None]


class CaptureChild:
    """A child that is running; it dies with this process.

    Parameters
    ----------
    options
        What the child is told (`child_parts.ChildOptions`), without `parent`.
    """

    def __init__(self, options: Mapping[str, object]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", _BEGIN, os.pathsep.join(sys.path), *arguments_of(options)],
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


class Wake:
    """What one thread waits with; any other wakes it."""

    def __init__(self) -> None:
        self._out, self._in = os.pipe()
        os.set_blocking(self._out, False)
        os.set_blocking(self._in, False)

    def set(self) -> None:
        """Wake the thread that waits, or the next wait."""
        with suppress(BlockingIOError):  # it has been told often enough
            os.write(self._in, b".")

    def wait(self, seconds: float | None, pipe: int | None = None) -> bool:
        """Wait so long (None: without end), or until woken, or until this pipe can be read; whether it can."""
        poll = select.poll()
        poll.register(self._out, select.POLLIN)
        if pipe is not None:
            poll.register(pipe, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)}
        if self._out in ready:
            os.read(self._out, 4096)
        return pipe in ready


class FifoKeeper:
    """Holds a FIFO without reading it, while it is open; nothing for other sources."""

    def __init__(self, source: Source) -> None:
        self._path = source.target if source.kind == "fifo" else None
        self._descriptor: int | None = None

    def open(self) -> None:
        """Hold it."""
        if self._path is not None and self._descriptor is None:
            try:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:  # the child, which opens it next, says why
                return

    def close(self) -> None:
        """Let it go; a writer then has no reader."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def devices(within: float = 10.0) -> list[Device]:
    """List the microphones, asked of a fresh child, so that one plugged in a moment ago is there.

    Parameters
    ----------
    within
        Seconds that the sound system may take.

    Raises
    ------
    DataError
        It did not answer.
    """
    child = CaptureChild({"kind": "list"})
    until = time.monotonic() + within
    try:
        while (left := until - time.monotonic()) > 0:
            if not select.select([child], [], [], left)[0]:
                break
            for frame in child.frames():
                if isinstance(frame, list):
                    return frame
                raise DataError(f"The sound system cannot list its devices: {getattr(frame, 'sentence', frame)}")
    except (EOFError, WireError) as error:
        raise DataError("Listing the sound devices failed: try `arecord -L`.") from error
    finally:
        child.close()
    raise DataError(f"The sound system did not list its devices within {within:.0f} s: restart it.")
