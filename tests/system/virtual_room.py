"""A room with a microphone: a FIFO into which sound is written as fast as time passes, noise and what is said."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

RATE = 16_000
BLOCK = 800
HISS = 20.0  # standard deviation of the noise, in steps of int16


class VirtualRoom:
    """Writes sound in a thread from `open` to `close`."""

    def __init__(self, fifo: Path) -> None:
        os.mkfifo(fifo)
        self._fifo, self._rng = fifo, np.random.default_rng(0)
        self._said: deque[NDArray[np.float64]] = deque()
        self._quiet, self._stop = threading.Event(), threading.Event()
        self._quiet.set()
        self._thread = threading.Thread(target=self._write, daemon=True)

    @property
    def source(self) -> str:
        """What the device is told to listen to."""
        return f"fifo:{self._fifo}"

    def open(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def say(self, *clips: NDArray[np.int16], pause: float = 0.6) -> None:
        """Say clips one after the other; returns when the last one and a pause are over."""
        for clip in clips:
            self._said.append(np.concatenate((clip.astype(np.float64), np.zeros(round(pause * RATE)))))
        self._quiet.clear()
        assert self._quiet.wait(120), "nobody reads the FIFO"

    def _write(self) -> None:
        descriptor = os.open(self._fifo, os.O_RDWR)  # not to wait for a reader, nor to end with one
        os.set_blocking(descriptor, False)
        due, now = time.monotonic(), np.zeros(0)
        while not self._stop.is_set():
            if not len(now) and self._said:
                now = self._said.popleft()
            if not len(now) and not self._said:
                self._quiet.set()
            piece, now = now[:BLOCK], now[BLOCK:]
            sound = self._rng.normal(0, HISS, BLOCK)
            sound[: len(piece)] += piece
            with contextlib.suppress(BlockingIOError):  # a microphone does not wait for its listener
                os.write(descriptor, np.clip(sound, -32768, 32767).astype("<i2").tobytes())
            due += BLOCK / RATE
            time.sleep(max(0.0, due - time.monotonic()))
        os.close(descriptor)
