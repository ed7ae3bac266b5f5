"""The device's sound for somebody else, from any sample that is still in memory, without a gap."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle_edge.listening.listening_thread import AudioBroadcast
from auricle_edge.listening.sound import RATE, Block, Detection

CHUNK_SAMPLES = 1_600
"""Samples of a message at most: 0.1 s."""
PAUSE_SAMPLES = RATE // 10
"""Samples of quiet by which a word is known to be over."""


def first_sample(wake: Detection, pre_roll: float) -> int:
    """The sample from which on sound is sent after a wake word, so that nothing of the command is missed.

    Where nobody has announcer since the word, that is its end. Where somebody speaks on, no energy says where the word
    ended: then so many seconds before the decision, which comes 0.1 to 0.4 s after it (`bench/assist.py`).
    """
    if wake.word_end <= wake.end - PAUSE_SAMPLES:
        return wake.word_end
    return wake.end - round(pre_roll * RATE)


class Recent(Protocol):
    """The newest sound, as the detector keeps it."""

    @property
    def newest(self) -> int:
        """Number of the sample that comes next."""

    @property
    def oldest(self) -> int:
        """Number of the first sample that is held."""

    def audio(self, start: int, end: int) -> NDArray[np.int16]:
        """The samples (end - start,); DataError when they are not all there."""


class SoundStream:
    """Gives sound on as it comes, beginning in the past; all methods are for the event loop's thread.

    Parameters
    ----------
    taps
        Gives every new block.
    recent
        Has those before.
    """

    def __init__(self, taps: AudioBroadcast, recent: Recent) -> None:
        self._taps, self._recent = taps, recent
        self._send: Callable[[bytes], None] | None = None
        self._next = 0
        self._over = contextlib.ExitStack()

    @property
    def runs(self) -> bool:
        """Whether it gives sound on."""
        return self._send is not None

    @property
    def newest(self) -> int:
        """Number of the sample that comes next."""
        return self._recent.newest

    def start(self, first: int, send: Callable[[bytes], None]) -> None:
        """Begin.

        Parameters
        ----------
        first
            The sample to begin with; where it is not held any more, the oldest.
        send
            Called with 16-bit little-endian samples, at most `CHUNK_SAMPLES` at a time.
        """
        self.stop()
        loop, self._send, self._next = asyncio.get_running_loop(), send, max(first, self._recent.oldest)

        def pass_on(block: Block) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._take, block, send)

        self._over.enter_context(self._taps.follow(pass_on))
        self._fill(self._recent.newest)

    def stop(self) -> None:
        """Give on no more."""
        self._send = None
        self._over.close()

    def _take(self, block: Block, send: Callable[[bytes], None]) -> None:
        if self._send is not send:
            return
        self._fill(block.start)
        if block.end > self._next:
            self._pass(block.samples[max(0, self._next - block.start) :])
            self._next = block.end

    def _fill(self, end: int) -> None:
        """What lies between the last sample and this one; of a gap in the sound the silence that stands for it."""
        if end <= self._next:
            return
        with contextlib.suppress(DataError):  # longer ago than the ring
            self._pass(self._recent.audio(self._next, end))
        self._next = end

    def _pass(self, samples: NDArray[np.int16]) -> None:
        for at in range(0, len(samples), CHUNK_SAMPLES):
            if self._send is not None:
                self._send(samples[at : at + CHUNK_SAMPLES].astype("<i2").tobytes())
