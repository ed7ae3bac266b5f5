"""Words that were almost heard, until it is clear what followed: silence, a repetition that was heard, or an answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle_edge.listening.detect.decision import NearMiss
from auricle_edge.listening.sound import RATE, Detection

MOST_NEAR_MISSES = 8
"""Near-misses that wait; of more, the oldest is forgotten."""

Ending = Literal["near", "repeated"]
Standing = Literal["waiting", "confirmed", "denied", "unanswered"]
"""What is known of a detection: no answer yet, that it was the word, that it was not, that nobody answered."""


@dataclass(frozen=True, eq=False)
class Almost:
    """A near-miss with its sound."""

    near: NearMiss
    samples: NDArray[np.int16]
    until: int
    """Sample up to which a repetition counts."""
    again: bool = False
    """The word was almost heard once more after it, or before it: somebody may be trying."""
    heard: str | None = None
    """Id of the detection of the same word that followed."""


class NearMisses:
    """Decides what near-misses are; its caller holds a lock, but for `found`.

    A near-miss that the same word follows within `seconds`, accepted and not denied, was likely that word: `repeated`.
    One that nothing follows was denied by silence: `near`. One that is only almost heard again is neither: somebody may
    have tried and given up. What is part of a detection, or of a clip that an answer was about, is forgotten.

    Parameters
    ----------
    seconds
        After the near-miss.
    audio
        Samples (end - start,) of the detector; DataError where they are not held.
    """

    def __init__(self, seconds: float, audio: Callable[[int, int], NDArray[np.int16]]) -> None:
        self._span, self._audio = round(seconds * RATE), audio
        self._new: deque[NearMiss] = deque(maxlen=MOST_NEAR_MISSES)
        self._waiting: list[Almost] = []

    def found(self, near: NearMiss) -> None:
        """A near-miss, from the thread that listens: only remembered."""
        self._new.append(near)

    @property
    def places(self) -> tuple[NearMiss, ...]:
        """Those that wait."""
        return tuple(each.near for each in self._waiting)

    def collect(self) -> None:
        """Copy the sound of the new ones, while it is still held."""
        while self._new:
            near = self._new.popleft()
            try:
                samples = self._audio(near.start, near.end)
            except DataError:
                continue
            same = [each for each in self._waiting if each.near.word == near.word and near.end <= each.until]
            self._waiting = [replace(each, again=True) if each in same else each for each in self._waiting]
            self._waiting.append(Almost(near, samples, near.end + self._span, again=bool(same)))
        del self._waiting[:-MOST_NEAR_MISSES]

    def accepted(self, detection: Detection) -> None:
        """A detection: what it has in common with a near-miss is not one; a later one of the same word repeats it."""
        self.forget(detection.start, detection.end)
        self._waiting = [
            replace(each, heard=detection.id)
            if each.heard is None and each.near.word == detection.word and each.near.end < detection.end <= each.until
            else each
            for each in self._waiting
        ]

    def forget(self, start: int, end: int) -> None:
        """Drop those of which more than half lies in this sound."""
        self.collect()
        self._waiting = [each for each in self._waiting if not _inside(each.near, start, end)]

    def clear(self) -> None:
        """Drop all."""
        self._new.clear()
        self._waiting = []

    def settled(self, newest: int, standing: Callable[[str], Standing]) -> list[tuple[Almost, Ending]]:
        """Those of which it is clear by now what they were; they wait no more.

        Parameters
        ----------
        newest
            Number of the sample that comes next.
        standing
            What became of a detection.
        """
        self.collect()
        done: list[tuple[Almost, Ending]] = []
        waiting = []
        for each in self._waiting:
            known: Standing = "unanswered" if each.heard is None else standing(each.heard)
            if newest <= each.until or known == "waiting":
                waiting.append(each)
            elif each.heard is not None and known != "denied":
                done.append((each, "repeated"))
            elif not each.again:
                done.append((each, "near"))
        self._waiting = waiting
        return done


def _inside(near: NearMiss, start: int, end: int) -> bool:
    return min(near.end, end) - max(near.start, start) > 0.5 * (near.end - near.start)
