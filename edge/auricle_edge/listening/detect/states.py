"""The states of a detector with wake words: asleep until one is heard, awake for a window of time after it.

    asleep --wake word--> awake --command (heard), or the window is over--> asleep

The wake word again makes the window as long as at the beginning. Without wake words a detector is always open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from auricle.hearing.waking import guard_hops
from auricle_edge.listening.sound import RATE, Detection

State = Literal["open", "asleep", "awake"]


@dataclass(frozen=True)
class Awake:
    """The time after a wake word."""

    wake: Detection
    left: int
    """Hops that are still to come."""
    guard: int
    """Of these, the first in which no command can have been said yet."""

    @property
    def listens(self) -> bool:
        """Whether commands count in the hop that comes now."""
        return self.guard == 0

    def after_hop(self) -> Awake | None:
        """What is left after a hop; None when the window is over."""
        return replace(self, left=self.left - 1, guard=max(0, self.guard - 1)) if self.left > 1 else None


def waken(wake: Detection, window: float, hop: float) -> Awake:
    """The window that a wake word opens.

    Commands count from the first hop whose window of sound ends `SHORTEST` (`auricle.hearing.waking`) or more after the
    wake word: the end of the word by its energy, or where that is not known the end of the window it was heard in.

    Parameters
    ----------
    wake
        The wake word.
    window, hop
        Seconds.
    """
    hops = max(1, round(window / hop))
    return Awake(wake, hops, min(guard_hops((wake.end - wake.word_end) / RATE, hop), hops - 1))
