"""Copies of the sound for those who listen along: a live meter, an enrolment. They never hold up the listening."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from auricle.errors import AuricleError
from auricle_edge.listening.sound import Block

WAITING = 64
"""Blocks that may wait for one who listens along."""


class AudioBroadcast:
    """Hands every block to all who have a tap open."""

    def __init__(self) -> None:
        self._open: tuple[queue.Queue[Block | None], ...] = ()
        self._lock = threading.Lock()

    def push(self, block: Block) -> None:
        """Pass a block on; who is behind misses it, which shows as a gap in `Block.start`."""
        for tap in self._open:
            try:
                tap.put_nowait(block)
            except queue.Full:
                continue

    def close(self) -> None:
        """End every tap."""
        with self._lock:
            for tap in self._open:
                with tap.mutex:
                    tap.queue.clear()
                tap.put_nowait(None)
            self._open = ()

    @contextmanager
    def listening(self, patience: float = 10.0) -> Iterator[Iterator[Block]]:
        """Blocks from now on, until the service ends.

        Raises
        ------
        AuricleError
            No sound came for `patience` seconds: the microphone is muted or gone.
        """
        tap: queue.Queue[Block | None] = queue.Queue(WAITING)
        with self._lock:
            self._open = (*self._open, tap)
        try:
            yield _blocks(tap, patience)
        finally:
            with self._lock:
                self._open = tuple(other for other in self._open if other is not tap)


def _blocks(tap: queue.Queue[Block | None], patience: float) -> Iterator[Block]:
    while True:
        try:
            block = tap.get(timeout=patience)
        except queue.Empty:
            raise AuricleError(f"No sound came for {patience:.0f} s: the microphone is muted or gone.") from None
        if block is None:
            return
        yield block
