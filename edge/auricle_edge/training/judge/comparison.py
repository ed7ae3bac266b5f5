"""What a model heard in the judge's sound, and whether it does worse than another: an exact sign test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from auricle.process.times import count_in
from auricle_learning.training.learn_settings import LearnSettings

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
    """How many false accepts in how much sound."""
    return count_in(heard.false_accepts, heard.hours * 3_600)


Worse = Literal["false_accepts", "hits"]


def sign_test(worse: int, better: int) -> float:
    """Chance that so many, or more, of the changes are for the worse when each goes either way like a fair coin.

    P(X >= worse), X ~ Binomial(worse + better, 1/2): McNemar's exact test, one-sided. Without a change it is 1.
    """
    changed = worse + better
    return sum(math.comb(changed, k) for k in range(worse, changed + 1)) / (1 << changed)


def accepts_more(before: Heard, after: Heard, settings: LearnSettings) -> bool:
    """Whether `after` has more false accepts than `before`: by more than the margin, and by more than chance.

    Compared second by second of the same negatives, worse being a second with more false accepts than before. Where
    both accept the same seconds, nothing is said; a Poisson comparison of the two totals would take these for noise
    and see less.
    """
    if (after.false_accepts - before.false_accepts) <= settings.more_an_hour * after.hours:
        return False
    return _significant(before.accepts, after.accepts, settings.chance)


def hears_more(before: Heard, after: Heard, settings: LearnSettings) -> bool:
    """Whether `after` hears clearly more of the held-out keywords: by more than the margin, and by more than chance."""
    if int(after.hits.sum()) - int(before.hits.sum()) <= settings.hears_more * len(after.hits):
        return False
    return _significant(before.hits, after.hits, settings.chance)


def hears_fewer(before: Heard, after: Heard, settings: LearnSettings) -> bool:
    """Whether `after` hears fewer of the held-out keywords: by more than the margin, and by more than chance."""
    if int(before.hits.sum()) - int(after.hits.sum()) <= settings.less_accuracy * len(after.hits):
        return False
    return _significant(after.hits, before.hits, settings.chance)


def outgrows(before: Heard, after: Heard, settings: LearnSettings) -> bool:
    """Whether `before` is no standard for `after`: it hears less than half of the keywords, and clearly fewer."""
    return not before.detects(0.5) and hears_more(before, after, settings)


def worse_in(standard: Heard, heard: Heard, settings: LearnSettings) -> Worse | None:
    """In what `heard` is significantly worse than a standard; None where in nothing, or where that one hears nothing.

    A standard that hears less than `detector` of the held-out keywords is no standard.
    """
    if not standard.detects(settings.detector):
        return None
    if accepts_more(standard, heard, settings):
        return "false_accepts"
    return "hits" if hears_fewer(standard, heard, settings) else None


def improves(before: Heard, after: Heard, settings: LearnSettings) -> bool:
    """Whether `after` is better: no worse in either count, or significantly better in one and not worse in the other.

    What is better in one count by chance and worse in the other by chance is not: many such steps could go far.
    """
    if after.false_accepts <= before.false_accepts and int(after.hits.sum()) >= int(before.hits.sum()):
        return True
    if accepts_more(before, after, settings) or hears_fewer(before, after, settings):
        return False
    return accepts_more(after, before, settings) or hears_more(before, after, settings)


def _significant(before: NDArray[np.uint8], after: NDArray[np.uint8], chance: float) -> bool:
    return sign_test(int((after > before).sum()), int((after < before).sum())) < chance
