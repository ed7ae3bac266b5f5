"""Sound from a recording, a folder of them in alphabetical order, or a FIFO that another program writes to."""

from __future__ import annotations

import os
import select
import time

from auricle_edge.listening.capture.child_parts import Piece, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:  # a FIFO does without what recordings need
    from pathlib import Path
    from typing import Any

    from auricle_edge.listening.capture.child_parts import Options

_SUFFIXES = (".wav", ".flac")


class Recordings:
    """Wav or FLAC files as one source."""

    def __init__(self, options: Options) -> None:
        from pathlib import Path

        self.device: str = options["target"]
        self.waits: bool = options["fast"]
        self.rate, self.channels = 0, 0
        self._block: float = options["block"]
        self._loop: bool = options["loop"]
        self._files = files(options["kind"], Path(self.device))
        self._number = 0
        self._file: Any = None
        self._open_next()
        self._skip(options["first"])
        self._due = time.monotonic()

    def read(self) -> Piece | None:
        """The next block when it is due; None after the last."""
        size = max(1, round(self.rate * self._block))
        while not (data := bytes(self._file.buffer_read(min(size, self._left()), dtype="int16"))):
            if not self._open_next():
                return None
            size = max(1, round(self.rate * self._block))
        if not self.waits:
            self._due += len(data) / (2 * self.channels * self.rate)
            time.sleep(max(0.0, self._due - time.monotonic()))
        return Piece(data)

    def _left(self) -> int:
        return int(self._file.frames - self._file.tell())

    def _open_next(self) -> bool:
        """Open the next file; False after the last, which a loop does not have."""
        if self._number == len(self._files):
            if not self._loop:
                return False
            self._number = 0
        import soundfile  # here: a FIFO does without

        path = self._files[self._number]
        try:
            self._file = soundfile.SoundFile(path)
        except (soundfile.LibsndfileError, OSError) as error:
            from auricle.errors import because

            raise Refusal("unreadable", f"{path} cannot be read as sound: {because(error)}.") from error
        self._number += 1
        self.rate, self.channels = self._file.samplerate, self._file.channels
        return True

    def _skip(self, frames: int) -> None:
        """Go on where the child before this one ended."""
        skipped = 0
        while frames - skipped >= self._left():
            skipped += self._left()
            if not self._open_next() or (self._number == 1 and skipped == 0):
                self._file.seek(0, 2)
                return
        self._file.seek(frames - skipped)


def files(kind: str, path: Path) -> list[Path]:
    """The files of a source, in order; Refusal when a folder has none."""
    if kind == "file":
        return [path]
    found = sorted(entry for entry in path.rglob("*") if entry.suffix.lower() in _SUFFIXES)
    if not found:
        raise Refusal("unreadable", f"{path} has no wav or FLAC file.")
    return found


DEFAULT_RATE = 16_000
_PAUSE = 0.2
"""Seconds without sound that make what follows a new beginning."""


class Fifo:
    """An open FIFO."""

    waits = True

    def __init__(self, options: Options) -> None:
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
