"""A device's sound into blocks at their place among all samples, over restarts of the child; and is it sound?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from auricle_edge.listening.capture.conversion import Conversion
from auricle_edge.listening.capture.echo import EchoCanceller
from auricle_edge.listening.capture.frames import Sound
from auricle_edge.listening.capture.settings import CaptureSettings
from auricle_edge.listening.sound import RATE, Block


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


class Blocks:
    """Converts frame after frame; where sound is missing, or comes at another rate, the conversion begins again.

    Parameters
    ----------
    settings
        Which channel, which reference, and what is filtered out.
    live
        Whether missing sound took its time; that of a recording read as fast as it goes did not.
    """

    def __init__(self, settings: CaptureSettings, *, live: bool) -> None:
        self._settings, self._live = settings, live
        self._timeline = Timeline()
        self._conversion: Conversion | None = None
        number = settings.reference
        self._reference = None if number is None else (number, EchoCanceller())
        self.position = 0
        """Number of the next sample frame of the source: where a new child goes on in a recording."""

    def renew(self) -> None:
        """A new child begins."""
        self._timeline.renew()

    def note(self, device: str) -> str | None:
        """What to know of the channels of a device of this name: of its reference, or as `Downmix.note`."""
        conversion = self._conversion
        if conversion is None:
            return None
        if self._reference is not None and self._reference[0] >= conversion.channels:
            return (
                f"{device} has no channel {self._reference[0]}, but {conversion.channels} from 0 on: the echo of what "
                "it plays is not taken out. Write as reference in [capture] the channel that gives it back."
            )
        return conversion.downmix.note(device)

    def gap(self, frame: Sound) -> float:
        """Seconds that are missing before a frame."""
        return self._timeline.gap(frame) if self._live else 0.0

    def take(self, frame: Sound, gap: float) -> Iterator[Block]:
        """Blocks of a frame that comes after a gap of so many seconds; first what the conversion before still holds."""
        conversion = self._conversion
        if gap or conversion is None or (conversion.rate, conversion.channels) != (frame.rate, frame.channels):
            yield from self.tail(frame.time)
            self._timeline.skip(gap)
            chosen = self._settings
            conversion = Conversion(frame.rate, frame.channels, chosen.microphone, chosen.high_pass, self._reference)
        self._conversion = conversion
        self._timeline.heard(frame)
        self.position = frame.after
        yield from self._place(conversion.take(frame.data), frame.time)

    def tail(self, arrived: float) -> Iterator[Block]:
        """What the resampler still holds."""
        conversion, self._conversion = self._conversion, None
        if conversion is not None:
            yield from self._place(conversion.rest(), arrived)

    def _place(self, samples: NDArray[np.int16], arrived: float) -> Iterator[Block]:
        start = self._timeline.next
        self._timeline.next += len(samples)
        if len(samples):
            yield Block(samples, start, arrived)


_KEY_FRAMES = 32
"""Sample frames by which a repetition is found."""
_HISTORY_SECONDS = 1.0
"""Longest period of a repetition: the ring of a driver has less."""
_FORGIVENESS = 10
"""How many seconds of zeros or repetition a second of sound makes up for: an overrun breaks a repetition, too."""
_CREDIT_SECONDS = 1.0
"""Sound that comes late and at once, as a driver gives it, counts in full up to this."""
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
    live
        The sound takes its time: what comes faster than time passes counts for no more than the time.
    """

    def __init__(self, patience: float, *, live: bool = False) -> None:
        self._first_patience, self._live = patience, live
        self._credit, self._last = 0.0, 0.0
        """Seconds that have passed and were not counted, and the time of the last frame."""
        self._patience = {"zeros": patience, "frozen": patience}
        self._seconds = {"zeros": 0.0, "frozen": 0.0}
        self._history = b""

    def renew(self) -> None:
        """A new child was started: what the last one gave is no evidence against it."""
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        self._history = b""
        self._credit = self._last = 0.0

    def fault(self, frame: Sound) -> str | None:
        """Judge a frame: `zeros` or `frozen` when the device is to be restarted."""
        if self._first_patience == 0:
            return None
        if frame.lost:  # a repetition is broken here
            self._history = b""
        zeros = not any(frame.data)
        frozen = not zeros and self._repeats(frame)
        seconds = self._elapsed(frame)
        for reason, found in (("zeros", zeros), ("frozen", frozen)):
            self._seconds[reason] = max(0.0, self._seconds[reason] + (seconds if found else -_FORGIVENESS * seconds))
            if self._seconds[reason] >= self._patience[reason] - seconds / 2:
                self._patience[reason] = min(2 * self._patience[reason], max(_LONGEST_PATIENCE, self._first_patience))
                return reason
        if not any(self._seconds.values()):
            self._patience = dict.fromkeys(self._patience, self._first_patience)
        return None

    def _elapsed(self, frame: Sound) -> float:
        """Seconds that a frame counts for."""
        seconds = frame.size / frame.rate
        if not self._live:
            return seconds
        passed = frame.time - self._last if self._last else seconds
        self._credit, self._last = min(_CREDIT_SECONDS, self._credit + passed), frame.time
        counted = min(seconds, self._credit)
        self._credit -= counted
        return counted

    def _repeats(self, frame: Sound) -> bool:
        """Whether the frame is what came one period earlier, for some period."""
        step = 2 * frame.channels
        key = frame.data[: _KEY_FRAMES * step]
        joined = self._history + frame.data
        at = joined.rfind(key, 0, len(self._history) + len(key) - step)
        self._history = joined[-round(_HISTORY_SECONDS * frame.rate) * step :]
        return at >= 0 and joined[at : at + len(frame.data)] == frame.data
