"""The detector's rule over a whole stream of posteriors at once, for many thresholds.

`auricle_edge.listening.detect.decision.Decider` is the rule itself, hop by hop; this gives exactly its detections. What
makes it fast: which keyword has the highest average does not depend on the thresholds, and a keyword's detections
depend on its own threshold only. So each keyword is walked through by itself, over the hops in which it could be heard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError

Posteriors = NDArray[np.float32]
Thresholds = NDArray[np.float64]


@dataclass(frozen=True)
class Rule:
    """When a keyword counts as heard, but for the thresholds."""

    hop: float = 0.1
    """Seconds from one judged window to the next."""
    smoothing: int = 3
    """Windows whose posteriors are averaged."""
    patience: int = 2
    """Windows in a row whose average must reach the threshold."""
    refractory: float = 1.0
    """Seconds after a keyword in which it cannot be heard again."""

    @property
    def rest(self) -> int:
        """The refractory time in hops."""
        return round(self.refractory / self.hop)


def refractory_of(window: float) -> float:
    """The usual refractory time for models that look at so many seconds: a word stays in sight for as long."""
    return max(Rule.refractory, window)


@dataclass(frozen=True, eq=False)
class Detections:
    """What is heard in one stream at each of T thresholds: D detections, by hop."""

    threshold: NDArray[np.int64]
    """(D,) which threshold, 0 to T - 1."""
    hop: NDArray[np.int64]
    """(D,) the hop at whose end it was decided, from 0."""
    label: NDArray[np.int64]
    """(D,) place among the labels."""
    score: NDArray[np.float64]
    """(D,) the average at the decision."""

    def __len__(self) -> int:
        return len(self.hop)

    def only(self, chosen: NDArray[Any]) -> Detections:
        """Some of them: by a mask, or by their places."""
        return Detections(self.threshold[chosen], self.hop[chosen], self.label[chosen], self.score[chosen])


def keyword_mask(labels: Sequence[str]) -> NDArray[np.bool_]:
    """Which labels (L,) are words that can be heard: `_unknown_` and `_silence_` are not."""
    return np.array([not (label.startswith("_") and label.endswith("_")) for label in labels])


def smooth(posteriors: Posteriors, window: int) -> NDArray[np.float64]:
    """The mean (hops, L) over the last `window` rows, of which those before the first are 0.

    Added up in the order of the detector's ring buffer, so that the last bit is the same.
    """
    hops = np.arange(len(posteriors))
    total = np.zeros(posteriors.shape)
    for place in range(window):
        newest = hops - (hops - place) % window
        total += np.where(newest[:, None] >= 0, posteriors[np.maximum(newest, 0)], np.float32(0))
    means: NDArray[np.float64] = total / window
    return means


def hold(averages: NDArray[np.float64], patience: int) -> NDArray[np.float64]:
    """The least of the last `patience` averages (hops, L); -inf where there are fewer yet."""
    if not len(averages):
        return averages
    padded = np.concatenate((np.full((patience - 1, averages.shape[1]), -np.inf), averages))
    least: NDArray[np.float64] = np.lib.stride_tricks.sliding_window_view(padded, patience, axis=0).min(axis=-1)
    return least


def detect(posteriors: Posteriors, labels: Sequence[str], thresholds: Thresholds, rule: Rule) -> Detections:
    """What the detector hears in a stream, at each of T thresholds.

    Parameters
    ----------
    posteriors
        (hops, L); 0 where the gate was closed.
    labels
        L labels, at least one of them a keyword.
    thresholds
        (T,), each the same for all keywords, or (T, L).
    rule
        Smoothing, patience, refractory time and hop.

    Raises
    ------
    DataError
        The shapes do not fit, or no label is a keyword.
    """
    mask = keyword_mask(labels)
    if posteriors.ndim != 2 or posteriors.shape[1] != len(labels) or not mask.any():
        raise DataError(f"Posteriors of shape {posteriors.shape} are not rows of {len(labels)} labels with a keyword.")
    levels = np.broadcast_to(thresholds[:, None] if thresholds.ndim == 1 else thresholds, (len(thresholds), len(mask)))
    averages = smooth(posteriors, rule.smoothing)
    steady = hold(averages, rule.patience)
    best = np.where(mask, averages, -1).argmax(axis=1) if len(averages) else np.zeros(0, np.int64)
    found = [
        _of_label(int(label), averages[:, label], steady[:, label], best == label, levels[:, label], rule.rest)
        for label in np.flatnonzero(mask)
    ]
    joined = Detections(*(np.concatenate([getattr(f, name) for f in found]) for name in Detections.__annotations__))
    return joined.only(np.lexsort((joined.threshold, joined.hop)))


def _of_label(
    label: int,
    averages: NDArray[np.float64],
    steady: NDArray[np.float64],
    highest: NDArray[np.bool_],
    levels: Thresholds,
    rest: int,
) -> Detections:
    """One keyword: its averages (hops,), their least over the patience, and where it is the highest."""
    last = np.full(len(levels), -np.inf)
    free = np.ones(len(levels), np.bool_)
    before = 0
    places: list[NDArray[np.int64]] = []
    hops: list[int] = []
    for hop in np.flatnonzero(highest & (steady >= levels.min(initial=np.inf))).tolist():
        free |= averages[before : hop + 1].min() < levels
        heard = np.flatnonzero((steady[hop] >= levels) & free & (hop - last >= rest))
        free[heard], last[heard] = False, hop
        before = hop + 1
        if len(heard):
            places.append(heard)
            hops.append(hop)
    counts = [len(place) for place in places]
    hop_of = np.repeat(np.array(hops, np.int64), counts)
    joined = np.concatenate(places) if places else np.zeros(0, np.int64)
    return Detections(joined, hop_of, np.full(len(joined), label), averages[hop_of])
