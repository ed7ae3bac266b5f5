"""A listener in a thread of its own, as a service has one: what it heard, and what it was told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from auricle_edge.listening.capture.capture import Capture
from auricle_edge.listening.capture.settings import CaptureSettings
from auricle_edge.listening.listening_status import CaptureState
from auricle_edge.listening.sound import RATE, Block

DEADLINE = 20.0


class Listener:
    """Iterates over a capture until it is left; nothing is filtered unless a test wants it."""

    def __init__(self, source: str, work: Callable[[Block], None] | None = None, **settings: object) -> None:
        self.blocks: list[Block] = []
        self.states: list[CaptureState] = []
        self.failed: BaseException | None = None
        self._news = threading.Condition()
        self._work = work
        given = {"high_pass": 0.0, **settings}
        self.capture = Capture(CaptureSettings(source=source, **given), self._told)  # type: ignore[arg-type]
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> Listener:
        self.capture.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.capture.stop()
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()

    def _listen(self) -> None:
        try:
            for block in self.capture.blocks():
                if self._work is not None:
                    self._work(block)
                with self._news:
                    self.blocks.append(block)
                    self._news.notify_all()
        except BaseException as error:  # noqa: BLE001 - judged in the thread of the test
            self.failed = error
        with self._news:
            self._news.notify_all()

    def _told(self, state: CaptureState) -> None:
        with self._news:
            self.states.append(state)
            self._news.notify_all()

    def until(self, condition: Callable[[], object], seconds: float = DEADLINE) -> float:
        """Wait until something is so, looked at with each block and state; how many seconds it took."""
        begun = time.monotonic()
        with self._news:
            assert self._news.wait_for(lambda: condition() or self.failed, seconds), f"in vain; {self.capture.state}"
        assert self.failed is None, self.failed
        return time.monotonic() - begun

    def end(self) -> None:
        """Wait for the end of a recording."""
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()
        assert self.failed is None, self.failed

    def hears(self, seconds: float = 0.5) -> float:
        """Wait for so much more sound that is not zeros; how long the wait for its first block was."""
        begun, known = time.monotonic(), len(self.blocks)

        def fresh() -> list[Block]:
            return [block for block in self.blocks[known:] if block.samples.any()]

        self.until(lambda: sum(len(block.samples) for block in fresh()) >= seconds * RATE)
        return fresh()[0].arrived - begun

    @property
    def sound(self) -> NDArray[np.int16]:
        """All that was heard."""
        return np.concatenate([block.samples for block in self.blocks])

    @property
    def gaps(self) -> list[int]:
        """Samples missing between blocks that follow each other."""
        return [after.start - before.end for before, after in zip(self.blocks, self.blocks[1:], strict=False)]


def likeness(heard: NDArray[np.int16], played: NDArray[np.int16]) -> float:
    """Largest normalised correlation of a piece of what was played, anywhere in what was heard."""
    piece, long = played.astype(np.float64), heard.astype(np.float64)
    size = len(piece) + len(long)
    product = np.fft.irfft(np.fft.rfft(long, size) * np.conj(np.fft.rfft(piece, size)), size)[: len(long) - len(piece)]
    power = np.convolve(long**2, np.ones(len(piece)), "valid")[:-1]
    return float(np.max(product / np.sqrt(np.maximum(power, 1.0) * np.sum(piece**2))))
