"""Whether what a device gives is still sound: not zeros, not the same memory over and over."""

from __future__ import annotations

from auricle_edge.listening.capture.frames import Sound

_KEY_FRAMES = 32
"""Sample frames by which a repetition is found."""
_HISTORY_SECONDS = 1.0
"""Longest period of a repetition: the ring of a driver has less."""
_FORGIVENESS = 10
"""How many seconds of zeros or repetition a second of sound makes up for: an overrun breaks a repetition, too."""
_LONGEST_PATIENCE = 60.0
"""Seconds: how far the patience grows when restarts do not help."""


class Heartbeat:
    """Judges frame after frame, over restarts of the child.

    A device that gave `patience` seconds of zeros, or of sound that repeats bit for bit with any period up to a second,
    is to be restarted. When it goes on after that, restarting does not help: the patience doubles, up to a minute, and
    is back at the first sound.

    Parameters
    ----------
    patience
        Seconds; 0 never asks for a restart.
    """

    def __init__(self, patience: float) -> None:
        self._first_patience = patience
        self._patience = {"zeros": patience, "frozen": patience}
        self._seconds = {"zeros": 0.0, "frozen": 0.0}
        self._history = b""

    def renew(self) -> None:
        """A new child was started: what the last one gave is no evidence against it."""
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        self._history = b""

    def fault(self, frame: Sound) -> str | None:
        """Judge a frame: `zeros` or `frozen` when the device is to be restarted."""
        if self._first_patience == 0:
            return None
        if frame.lost:  # a repetition is broken here
            self._history = b""
        zeros = not any(frame.data)
        frozen = not zeros and self._repeats(frame)
        seconds = frame.size / frame.rate
        for reason, found in (("zeros", zeros), ("frozen", frozen)):
            self._seconds[reason] = max(0.0, self._seconds[reason] + (seconds if found else -_FORGIVENESS * seconds))
            if self._seconds[reason] >= self._patience[reason] - seconds / 2:
                self._patience[reason] = min(2 * self._patience[reason], max(_LONGEST_PATIENCE, self._first_patience))
                return reason
        if not any(self._seconds.values()):
            self._patience = dict.fromkeys(self._patience, self._first_patience)
        return None

    def _repeats(self, frame: Sound) -> bool:
        """Whether the frame is what came one period earlier, for some period."""
        step = 2 * frame.channels
        key = frame.data[: _KEY_FRAMES * step]
        joined = self._history + frame.data
        at = joined.rfind(key, 0, len(self._history) + len(key) - step)
        self._history = joined[-round(_HISTORY_SECONDS * frame.rate) * step :]
        return at >= 0 and joined[at : at + len(frame.data)] == frame.data
