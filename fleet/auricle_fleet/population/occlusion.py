"""Where a model looks: what its posterior loses where a part of a clip is hidden (Zeiler and Fergus, 2014)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

PATCHES = 10, 5
"""Parts of a clip in time and in frequency, of which one at a time is hidden."""
MOST_CLIPS = 20
"""Of each label."""


def occlusion(
    posteriors: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    features: NDArray[np.float32],
    targets: NDArray[np.int64],
    labels: int,
) -> NDArray[np.float64]:
    """How much a label's posterior falls where a part of its clips is hidden.

    A part has the mean of its clip in place of itself. Class activation maps, which MuPFL's figure 4 shows, need a
    mean over places before the classifier, which recurrent models do not have.

    Parameters
    ----------
    posteriors
        (N, L) of features.
    features, targets
        (N, T, mels) and (N,); of each label the first `MOST_CLIPS` count.
    labels
        L.

    Returns
    -------
    NDArray[np.float64]
        (L, A, B) the mean fall by label, place in time and in frequency; NaN for a label without clips.
    """
    chosen = np.concatenate([np.flatnonzero(targets == label)[:MOST_CLIPS] for label in range(labels)])
    clips, of = features[chosen], targets[chosen]
    found = np.full((labels, *PATCHES), np.nan)
    if not len(clips):
        return found
    rows = np.arange(len(clips))
    whole = posteriors(clips)[rows, of].astype(np.float64)
    frames, mels = (
        np.array_split(np.arange(size), parts) for size, parts in zip(clips.shape[1:], PATCHES, strict=True)
    )
    for a, b in np.ndindex(*PATCHES):
        hidden = clips.copy()
        hidden[:, frames[a][:, None], mels[b]] = clips.mean(axis=(1, 2))[:, None, None]
        fall = whole - posteriors(hidden)[rows, of]
        for label in np.unique(of):
            found[label, a, b] = fall[of == label].mean()
    return found
