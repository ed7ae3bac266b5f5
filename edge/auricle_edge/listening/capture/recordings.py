"""Sound from a recording, a folder of them in alphabetical order, or a FIFO that another program writes to."""

from __future__ import annotations

import os
import select
import time

from auricle_edge.listening.capture.child_parts import Piece, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:  # a FIFO does without what recordings need
    from collections.abc import Callable
    from pathlib import Path

    from auricle.speech.sound_faults import Finding
    from auricle.speech.sound_reader import OpenSound
    from auricle_edge.listening.capture.child_parts import ChildOptions

_MOST_SKIPPED = 1 << 16
"""Frames that are decoded at once on the way to where an earlier child ended."""


class Recordings:
    """Files of sound as one source; of a folder, a file that cannot be used is passed over.

    Parameters
    ----------
    options
        Which files.
    tell
        Called with what is wrong with a file, once each.
    """

    def __init__(self, options: ChildOptions, tell: Callable[[Finding], None]) -> None:
        from pathlib import Path

        self.device: str = options["target"]
        self.waits: bool = options["fast"]
        self.rate, self.channels = 0, 0
        self._block: float = options["block"]
        self._loop: bool = options["loop"]
        self._is_folder = options["kind"] == "folder"
        self._files = files(options["kind"], Path(self.device))
        self._number = 0
        self._tell, self._sentences = tell, set[str]()
        self._sound: OpenSound | None = None
        self._ended = False
        self._scale = 1.0
        self._open_next()
        self._skip(options["first"])
        self._due = time.monotonic()

    def read(self) -> Piece | None:
        """The next block when it is due; None after the last."""
        if self._ended:
            return None
        while not (data := self._decode(max(1, round(self.rate * self._block)))):
            if not self._open_next():
                return None
        if not self.waits:
            self._due += len(data) / (2 * self.channels * self.rate)
            time.sleep(max(0.0, self._due - time.monotonic()))
        return Piece(data)

    def _decode(self, frames: int) -> bytes:
        """Up to so many frames of interleaved int16; empty at the end of a file, also where it is damaged."""
        import numpy as np  # here: a FIFO does without

        from auricle.speech.sound_faults import SoundError

        if self._sound is None:
            return b""
        try:
            piece = self._sound.read(frames)
        except SoundError as error:
            self._note(error.finding)
            return b""
        piece = np.nan_to_num(piece * np.float32(self._scale), posinf=0.0, neginf=0.0)
        data: bytes = np.rint(np.clip(piece * 32_768, -32_768, 32_767)).astype("<i2").tobytes()
        return data

    def _open_next(self) -> bool:
        """Open the next file that can be used; False after the last, which a loop does not have.

        Refusal when there is no such file in a whole pass.
        """
        from auricle.speech.audio import open_stream
        from auricle.speech.sound_faults import SoundError, nothing_usable

        findings: list[Finding] = []
        while len(findings) < len(self._files):
            if self._number == len(self._files):
                if not self._loop:
                    break
                self._number = 0
            path = self._files[self._number]
            self._number += 1
            try:
                opened, scale, used = open_stream(path)
            except SoundError as error:
                if not self._is_folder:
                    raise Refusal("unreadable", str(error)) from error
                findings.append(error.finding)
                self._note(error.finding)
                continue
            for finding in used:
                self._note(finding)
            if self._sound is not None:
                self._sound.close()
            self._sound, self._scale = opened, scale
            self.rate, self.channels = opened.rate, opened.channels
            return True
        if self._sound is None or len(findings) == len(self._files):
            raise Refusal("unreadable", nothing_usable(self.device, findings))
        self._sound.close()
        self._sound, self._ended = None, True
        return False

    def _note(self, finding: Finding) -> None:
        if finding.sentence not in self._sentences:  # a loop comes to it again
            self._sentences.add(finding.sentence)
            self._tell(finding)

    def _skip(self, frames: int) -> None:
        """Go on where the child before this one ended."""
        left, whole = frames, 0
        while left:
            data = self._decode(min(left, _MOST_SKIPPED))
            got = len(data) // (2 * self.channels)
            left, whole = left - got, whole + got
            if not got:
                was_last = self._number == len(self._files)
                if not self._open_next():
                    return
                if was_last and whole:  # of a loop, whole passes need no decoding
                    left, whole = left % whole, 0


def files(kind: str, path: Path) -> list[Path]:
    """The files of a source, in order; Refusal when a folder has none."""
    if kind == "file":
        return [path]
    from auricle.errors import DataError
    from auricle.speech.sound_files import sound_files

    try:
        found = sound_files(path, deep=True)
    except DataError as error:
        raise Refusal("unreadable", str(error)) from error
    if not found:
        raise Refusal("unreadable", f"The folder {path} has no file of sound: name a folder of recordings.")
    return found


DEFAULT_RATE = 16_000
_PAUSE = 0.2
"""Seconds without sound that make what follows a new beginning."""


class Fifo:
    """An open FIFO."""

    waits = True

    def __init__(self, options: ChildOptions) -> None:
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
