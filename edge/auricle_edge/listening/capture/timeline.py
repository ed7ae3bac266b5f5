"""Where each block of sound stands among all samples since the listener began."""

from __future__ import annotations

from auricle_edge.listening.capture.frames import Sound
from auricle_edge.listening.sound import RATE


class Timeline:
    """Counts samples of 16 kHz; sound that was lost moves it on by its time."""

    def __init__(self) -> None:
        self.next = 0
        """Number of the next sample."""
        self._expected: int | None = None
        """Number of the next native frame; None before the first of a child."""
        self._heard: float | None = None
        """Monotonic second of the newest sound."""

    def renew(self) -> None:
        """A new child begins."""
        self._expected = None

    def gap(self, frame: Sound) -> float:
        """Seconds that are missing between the last frame and this one; 0 where it follows on."""
        if self._heard is None:
            return 0.0
        if self._expected is None or frame.lost:
            return max(0.0, frame.time - frame.size / frame.rate - self._heard)
        return max(0, frame.first - self._expected) / frame.rate

    def skip(self, seconds: float) -> None:
        """Move on by time that was lost."""
        self.next += round(seconds * RATE)

    def heard(self, frame: Sound) -> None:
        """Take note of a frame."""
        self._expected, self._heard = frame.after, frame.time
