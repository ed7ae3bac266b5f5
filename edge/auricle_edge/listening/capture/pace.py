"""Whether as much sound comes as its rate and channels say: a source that is told the wrong ones comes too fast."""

from __future__ import annotations

from collections import deque

from auricle_edge.listening.capture.child_parts import RATES
from auricle_edge.listening.capture.frames import Sound

WINDOW_SECONDS = 1.0
"""Seconds over which the pace is measured."""
WINDOWS = 3
"""In a row that must agree."""
SPREAD_FACTOR = 1.3
"""How many times the slowest the fastest of them may be."""
SLOW, FAST = 0.75, 1.3
"""Paces that fit lie between: 22,050 Hz that are taken for 16,000 come 1.38 times as fast."""
_NEAR = 0.08
_COUNTS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


class Pace:
    """Measures how many times as much sound comes as its rate and channels say."""

    def __init__(self) -> None:
        self._found: deque[float] = deque(maxlen=WINDOWS)
        self._begun: float | None = None
        self._seconds = 0.0
        self._late = True
        """The first window has what the writer held back until somebody read."""

    def renew(self) -> None:
        """Begin again: sound was lost, or another child gives it."""
        self._found.clear()
        self._begun, self._seconds = None, 0.0
        self._late = True

    def take(self, frame: Sound) -> None:
        """Count a frame in; where the writer paused, the measurement begins again."""
        if self._begun is None or frame.lost:
            self.renew()
            self._begun = frame.time
            return
        self._seconds += frame.size / frame.rate
        passed = frame.time - self._begun
        if passed >= WINDOW_SECONDS:
            if not self._late:
                self._found.append(self._seconds / passed)
            self._late = False
            self._begun, self._seconds = frame.time, 0.0

    @property
    def times(self) -> float | None:
        """How many times as much sound comes; None while it fits, or is not steady, or is not known yet."""
        if len(self._found) < WINDOWS or max(self._found) > SPREAD_FACTOR * min(self._found):
            return None
        mean = sum(self._found) / WINDOWS
        return None if SLOW < mean < FAST else mean


def sentence(times: float, device: str, rate: int, channels: int) -> str:
    """What to do about a source that gives so many times the sound of its rate (Hz) and number of channels."""
    said = f"as {rate:,} Hz {_in_channels(channels)} has: set rate and channels in [capture]"
    like = likely(times * rate * channels)
    hint = "" if like is None else f", such as rate = {like[0]}, channels = {like[1]}"
    return f"{device}: {_multiple(times)} times as much sound comes {said}{hint}."


def likely(samples: float) -> tuple[int, int] | None:
    """A usual rate (Hz) and number of channels with about so many samples a second; None where none has."""
    pairs = [(rate, count) for rate in RATES for count in (1, 2)]
    nearest = min(pairs, key=lambda pair: abs(pair[0] * pair[1] / samples - 1))
    return nearest if abs(nearest[0] * nearest[1] / samples - 1) < _NEAR else None


def _multiple(times: float) -> str:
    whole = round(times)
    if abs(times - whole) < _NEAR * times and 2 <= whole < 2 + len(_COUNTS):
        return _COUNTS[whole - 2]
    return f"{times:.1f}" if times >= 1 else f"{times:.2f}"


def _in_channels(channels: int) -> str:
    return {1: "mono", 2: "stereo"}.get(channels, f"with {channels} channels")
