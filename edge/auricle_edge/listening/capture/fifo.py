"""Raw int16 sound from a FIFO, at the writer's pace; it goes on when the writer ends and another one comes."""

from __future__ import annotations

import os
import select
from typing import Any

from auricle_edge.listening.capture.piece import Piece, Refusal

DEFAULT_RATE = 16_000
_PAUSE = 0.2
"""Seconds without sound that make what follows a new beginning."""


class Fifo:
    """An open FIFO."""

    waits = True

    def __init__(self, options: dict[str, Any]) -> None:
        self.device = options["target"]
        self.rate = options["rate"] or DEFAULT_RATE
        self.channels = options["channels"] or 1
        self._step = 2 * self.channels
        self._size = max(1, round(self.rate * options["block"])) * self._step
        self._data = b""
        self._paused = False
        try:  # for reading and writing: then the end of a writer is no end of the sound
            self._descriptor = os.open(self.device, os.O_RDWR | os.O_NONBLOCK)
        except OSError as error:
            raise Refusal("no-device", f"{self.device} cannot be opened ({error.strerror}).") from error

    def read(self) -> Piece:
        """Wait for the next block, or what there is of it when the writer pauses."""
        while len(self._data) < self._size:
            if select.select([self._descriptor], [], [], None if self._paused else _PAUSE)[0]:
                self._data += os.read(self._descriptor, self._size - len(self._data))
                if self._paused:
                    break
                continue
            whole = len(self._data) // self._step * self._step
            data, self._data, self._paused = self._data[:whole], b"", True
            if data:
                return Piece(data)
        lost, self._paused = self._paused, False
        whole = len(self._data) // self._step * self._step
        data, self._data = self._data[:whole], self._data[whole:]
        return Piece(data, lost)
