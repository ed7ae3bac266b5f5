"""A wall clock that is wrong, for a whole process."""

from __future__ import annotations

import time


class ShiftedClock:
    """Puts `time.time` and `time.time_ns` off by `seconds`, which may be changed while it is in use."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def install(self) -> None:
        """From now on the process reads this clock."""
        right, right_ns = time.time, time.time_ns
        time.time = lambda: right() + self.seconds
        time.time_ns = lambda: right_ns() + int(self.seconds * 1e9)
