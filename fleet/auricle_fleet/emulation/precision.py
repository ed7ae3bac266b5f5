"""Precision of keywords at given recalls, of the plug-in on clips."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.packs.manifest import SPECIAL_LABELS

RECALLS = tuple(n / 20 for n in range(1, 21))
"""0.05 to 1, at which precision is told."""


def keyword_precision(
    logits: NDArray[np.float32], targets: NDArray[np.int64], labels: Sequence[str]
) -> tuple[float | None, ...] | None:
    """Precision at each of `RECALLS`, as FedRPO draws precision over recall.

    A clip's score is the largest posterior among the keywords, the labels other than `_unknown_` and `_silence_`; at a
    threshold those clips are accepted whose score is at least as large. An accepted clip is right where this keyword is
    its label. Precision = right / accepted; recall = right / all clips of keywords. Told is the highest threshold with
    which the recall is reached: clips of the same score are accepted together.

    Parameters
    ----------
    logits
        (N, L) of the plug-in.
    targets
        (N,) labels of the clips.
    labels
        (L,) their names.

    Returns
    -------
    tuple
        By recall; None where it is never reached, as keywords are taken for each other. None in place of all of them
        where no clip is of a keyword.
    """
    keywords = np.array([i for i, label in enumerate(labels) if label not in SPECIAL_LABELS], np.int64)
    spoken = int(np.isin(targets, keywords).sum())
    if not spoken:
        return None
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    posteriors = (np.exp(wide) / np.exp(wide).sum(axis=1, keepdims=True))[:, keywords]
    scores, taken = posteriors.max(axis=1), keywords[posteriors.argmax(axis=1)]
    order = np.argsort(-scores, kind="stable")
    right = np.cumsum((taken == targets)[order])
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # the last clip of each score
    precision, recall = right[last] / (last + 1), right[last] / spoken
    places = np.searchsorted(recall, np.array(RECALLS) - 1e-9)
    return tuple(float(precision[place]) if place < len(last) else None for place in places.tolist())
