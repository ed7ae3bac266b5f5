"""A recording, or a folder of them in alphabetical order, at the pace of a microphone or as fast as it is taken."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import soundfile

from auricle.errors import because
from auricle_edge.listening.capture.piece import Piece, Refusal

_SUFFIXES = (".wav", ".flac")


class Recordings:
    """Wav or FLAC files as one source."""

    def __init__(self, options: dict[str, Any]) -> None:
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
        path = self._files[self._number]
        try:
            self._file = soundfile.SoundFile(path)
        except (soundfile.LibsndfileError, OSError) as error:
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
