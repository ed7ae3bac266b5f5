"""The thread that listens: sound in, events out, copies for others. It writes nothing and waits for nobody."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from auricle.errors import AuricleError
from auricle_edge.listening.capture.capture import Capture
from auricle_edge.listening.detect import Detector
from auricle_edge.listening.sound import Block, Event

WAITING_BLOCKS = 64
"""Blocks that may wait for one who listens along."""


class AudioBroadcast:
    """Hands every block to all who have a tap open."""

    def __init__(self) -> None:
        self._open: tuple[queue.Queue[Block | None], ...] = ()
        self._followers: tuple[Callable[[Block], None], ...] = ()
        self._lock = threading.Lock()

    def push(self, block: Block) -> None:
        """Pass a block on; who is behind misses it, which shows as a gap in `Block.start`."""
        for tap in self._open:
            try:
                tap.put_nowait(block)
            except queue.Full:
                continue
        for follower in self._followers:
            follower(block)

    def close(self) -> None:
        """End every tap."""
        with self._lock:
            for tap in self._open:
                with tap.mutex:
                    tap.queue.clear()
                tap.put_nowait(None)
            self._open = ()

    @contextmanager
    def follow(self, take: Callable[[Block], None]) -> Iterator[None]:
        """Have every block from now on taken by a function, in the listening thread: it must not block."""
        with self._lock:
            self._followers = (*self._followers, take)
        try:
            yield
        finally:
            with self._lock:
                self._followers = tuple(other for other in self._followers if other is not take)

    @contextmanager
    def listening(self, patience: float = 10.0) -> Iterator[Iterator[Block]]:
        """Blocks from now on, until the service ends.

        Raises
        ------
        AuricleError
            No sound came for `patience` seconds: the microphone is muted or gone.
        """
        tap: queue.Queue[Block | None] = queue.Queue(WAITING_BLOCKS)
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


log = logging.getLogger("auricle.edge")

MOST_FAILURES = 20
"""Blocks in a row that may fail before the listening is given up, loudly."""


class ListeningThread:
    """Runs a detector over a capture.

    Parameters
    ----------
    capture
        Gives blocks; ends when it is stopped, or its recording is over.
    detector
        Finds keywords.
    heard
        Called with each event, in this thread: it must not block.
    taps
        Those who listen along.
    ended
        Called once when the listening has ended, with what ended it: None when the sound did.
    """

    def __init__(
        self,
        capture: Capture,
        detector: Detector,
        heard: Callable[[Event], None],
        taps: AudioBroadcast,
        ended: Callable[[AuricleError | None], None],
    ) -> None:
        self._capture, self._detector, self._heard, self._taps, self._ended = capture, detector, heard, taps, ended
        self._thread = threading.Thread(target=self._run, name="listen", daemon=True)
        self._failed = 0
        self.failures = 0
        """Blocks that could not be judged."""

    def start(self) -> None:
        """Begin; the capture has been started."""
        self._thread.start()

    def join(self, seconds: float = 5.0) -> None:
        """Wait for the thread, once its capture was stopped; one that never began is over."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        end: AuricleError | None = None
        try:
            for block in self._capture.blocks():
                self._taps.push(block)
                self._judge(block)
        except AuricleError as error:
            end = error
        except Exception as error:
            log.exception("The listening failed in an unforeseen way")
            end = AuricleError(f"The listening failed in an unforeseen way ({error!r}): see the log.")
        closed = self._detector.sleep()
        if closed is not None:
            self._heard(closed)
        self._taps.close()
        self._ended(end)

    def _judge(self, block: Block) -> None:
        try:
            for event in self._detector.listen(block):
                self._heard(event)
        except Exception as error:
            self.failures += 1
            self._failed += 1
            log.exception("A block of sound could not be judged")
            if self._failed >= MOST_FAILURES:
                raise AuricleError(f"{self._failed} blocks of sound in a row could not be judged: {error!r}") from error
        else:
            self._failed = 0
