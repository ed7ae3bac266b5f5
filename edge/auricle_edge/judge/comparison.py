"""Whether a model does worse than another on the same sound: an exact sign test on what changed."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from auricle_edge.judge.heard import Heard
from auricle_edge.learn_settings import LearnSettings


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


def improves(before: Heard, after: Heard) -> bool:
    """Whether `after` has fewer false accepts, or as few and hears at least as many keywords."""
    return (after.false_accepts, -int(after.hits.sum())) <= (before.false_accepts, -int(before.hits.sum()))


def _significant(before: NDArray[np.uint8], after: NDArray[np.uint8], chance: float) -> bool:
    return sign_test(int((after > before).sum()), int((after < before).sum())) < chance
