"""A FIFO kept open over restarts of the child, so that its writer neither ends nor loses what it wrote."""

from __future__ import annotations

import os

from auricle_edge.listening.capture.source_spec import Source


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
