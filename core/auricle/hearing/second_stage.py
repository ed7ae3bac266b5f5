"""A larger model that judges what the plug-in proposes, over a whole stream of posteriors at once.

A device does this hop by hop (`auricle_edge.listening.detect`: `Cascade` and `Decider.proposes`): a window in which the
plug-in proposes a keyword that counts now has the mean of both models' posteriors, every other window those of the
plug-in alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.hearing.proposal import PROPOSAL_SHARE
from auricle.hearing.rule import Posteriors, keyword_mask, smooth

Levels = NDArray[np.float64]
"""(L,) thresholds by label; infinite for what does not count."""


def levels_of(labels: Sequence[str], thresholds: Mapping[str, float]) -> Levels:
    """Thresholds by label (L,); infinite for labels that are no keyword or have none."""
    words = keyword_mask(labels)
    return np.array(
        [thresholds.get(label, np.inf) if word else np.inf for label, word in zip(labels, words, strict=True)]
    )


def proposals(
    first: Posteriors, second: Posteriors, levels: Levels, smoothing: int, share: float = PROPOSAL_SHARE
) -> NDArray[np.bool_]:
    """Which windows (hops,) reach the second stage.

    Those in which the first stage's posterior of a keyword, or the average over the last `smoothing` windows with it,
    reaches `share` of the keyword's threshold. The windows before count in that average with what they came to: the
    mean of both stages where they were proposed themselves.

    Parameters
    ----------
    first, second
        (hops, L) posteriors of every window; 0 where the gate was closed.
    levels
        (L,) thresholds; infinite for labels that do not count.

    Raises
    ------
    DataError
        The shapes do not fit.
    """
    return _walk(first, second, levels, smoothing, share)[1]


def cascade(
    first: Posteriors, second: Posteriors, levels: Levels, smoothing: int, share: float = PROPOSAL_SHARE
) -> Posteriors:
    """Posteriors (hops, L) as a detector with two stages comes to them.

    A window that was proposed (`proposals`, which says what the parameters are) counts with the mean of both stages;
    every other one with the first stage's posteriors.
    """
    return _walk(first, second, levels, smoothing, share)[0]


def _walk(
    first: Posteriors, second: Posteriors, levels: Levels, smoothing: int, share: float
) -> tuple[Posteriors, NDArray[np.bool_]]:
    if first.shape != second.shape or first.shape[1:] != levels.shape:
        raise DataError(f"Posteriors {first.shape} and {second.shape}, thresholds {levels.shape}: they do not fit.")
    rows: Posteriors = first.copy()
    asked = np.zeros(len(first), np.bool_)
    mean = ((first + second) / 2).astype(np.float32)
    active = np.isfinite(levels)
    wanted = share * levels[active]
    most = smooth(np.maximum(first, mean), smoothing)[:, active]
    # A bound, so that few windows are walked through; the slack is for sums that were added in another order.
    possible = (np.maximum(most + 1e-9, first[:, active]) >= wanted).any(axis=1) & first.any(axis=1)
    for hop in np.flatnonzero(possible).tolist():
        # The ring buffer of the decider, so that the sum has the same last bit.
        ring, newest = np.zeros((smoothing, len(wanted))), first[hop, active]
        for before in range(max(0, hop - smoothing), hop):
            ring[before % smoothing] = rows[before, active]
        averages = (ring.sum(axis=0) - ring[hop % smoothing] + newest) / smoothing
        if (np.maximum(averages, newest) >= wanted).any():
            rows[hop], asked[hop] = mean[hop], True
    return rows, asked
