"""What a model made of the judge's sound: false accepts by the second, and the keywords that it heard."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Heard:
    """Detections of one model, by the detector's own rule."""

    accepts: Counts
    """(S,) false accepts decided in each second of the negatives; a stretch's last second may be a part of one."""
    hits: Counts
    """(K,) 1 where a held-out clip of a keyword was heard as its word, 0 where it was not."""
    hours: float
    """Of negatives."""

    @property
    def false_accepts(self) -> int:
        """In all negatives."""
        return int(self.accepts.sum())

    @property
    def per_hour(self) -> float:
        """False accepts an hour; 0 where there are no negatives."""
        return self.false_accepts / self.hours if self.hours else 0.0

    def detects(self, share: float) -> bool:
        """Whether at least this share of the keywords is heard; true where no keyword is held out."""
        return int(self.hits.sum()) >= share * len(self.hits)

    def fits(self, other: Heard) -> bool:
        """Whether the other one has as many seconds and keywords: whether both can be of the same sound."""
        return self.accepts.shape == other.accepts.shape and self.hits.shape == other.hits.shape


def words_heard(heard: Heard) -> str:
    """How many of the held-out keywords are heard."""
    return f"{int(heard.hits.sum())} of {len(heard.hits)} words heard"


def in_words(heard: Heard) -> str:
    """False accepts an hour, and how many they are in how much sound."""
    return f"{heard.per_hour:.0f}/h ({heard.false_accepts} in {heard.hours * 60:.1f} min)"
