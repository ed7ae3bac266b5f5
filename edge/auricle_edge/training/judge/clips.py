"""Whether a round made a device's model worse on the clips that are never trained on: paired counts and a sign test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auricle.wire.messages import WORSE
from auricle_edge.training.judge.comparison import sign_test
from auricle_learning.training.learn_settings import LearnSettings

Mask = NDArray[np.bool_]
NEGATIVES = ("_unknown_", "_silence_")
"""Labels of what is not a keyword: other words, denied detections, noise."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model says of the held-out clips."""

    negative: Mask
    """(N,) the clip is not a keyword."""
    accepted: Mask
    """(N,) some keyword's posterior reaches the threshold."""
    right: Mask
    """(N,) the largest posterior is the label's."""

    @property
    def false_accepts(self) -> Mask:
        """(N,) a negative that is taken for a keyword."""
        return self.negative & self.accepted

    def detects(self, share: float) -> bool:
        """Whether at least this share of the keywords is accepted and right; true where no keyword is held out."""
        keywords = int((~self.negative).sum())
        return int((self.accepted & self.right & ~self.negative).sum()) >= share * keywords


def answers(logits: NDArray[np.float32], targets: NDArray[np.int64], labels: Iterable[str], accept: float) -> Answers:
    """Take a model's logits (N, L) for clips with labels (N,) as answers.

    Parameters
    ----------
    labels
        L names; those in `NEGATIVES` are no keywords.
    accept
        Posterior from which a keyword is accepted, inclusive.
    """
    negative = np.array([name in NEGATIVES for name in labels])
    z = logits.astype(np.float64)
    z = np.exp(z - z.max(axis=1, keepdims=True, initial=-np.inf))
    posteriors = z / z.sum(axis=1, keepdims=True)
    keywords = np.where(negative, 0.0, posteriors)
    return Answers(negative[targets], keywords.max(axis=1, initial=0.0) >= accept, posteriors.argmax(axis=1) == targets)


def find_worse(before: Answers, after: Answers, settings: LearnSettings, *, accepts: bool = True) -> str | None:
    """Say what became worse, as a reason for the coordinator; None when nothing did.

    False accepts count only where the model before detected keywords at all: one that says nothing has none.

    Parameters
    ----------
    accepts
        Whether false accepts are judged here; not where the pack's negatives show them better.
    """
    negatives = int(before.negative.sum())
    if (
        accepts
        and before.detects(settings.detector)
        and _worse(before.false_accepts, after.false_accepts, negatives, settings.more_false_accepts, settings.chance)
    ):
        now, then = int(after.false_accepts.sum()), int(before.false_accepts.sum())
        return f"{WORSE}false_accepts: {now} of {negatives} held-out negatives, {then} before"
    if _worse(~before.right, ~after.right, len(before.right), settings.less_accuracy, settings.chance):
        now, then = int(after.right.sum()), int(before.right.sum())
        return f"{WORSE}accuracy: {now} of {len(before.right)} held-out clips right, {then} before"
    return None


def _worse(before: Mask, after: Mask, of: int, margin: float, chance: float) -> bool:
    """Whether so many more clips went wrong that it is more than the margin and no chance (`sign_test`)."""
    worse, better = int((after & ~before).sum()), int((before & ~after).sum())
    return worse - better > margin * of and sign_test(worse, better) < chance
