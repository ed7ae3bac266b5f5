"""A thread that waits for a pipe and can be woken by others."""

from __future__ import annotations

import os
import select
from contextlib import suppress


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
