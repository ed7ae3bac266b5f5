"""Which clips an epoch hears, and in what order: every label equally often, of recordings and of synthetic speech."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.intp]
LAPS = 8
"""A recording is heard at most so often in an epoch where synthetic speech of its word can take its place."""


def balanced_size(targets: NDArray[np.int64]) -> int:
    """Clips in an epoch: each label that there is, as often as a label has clips on average, rounded up."""
    labels = len(np.unique(targets))
    return -(-len(targets) // labels) * labels


def balanced_order(targets: NDArray[np.int64], rng: np.random.Generator) -> Places:
    """Draw an epoch's clips (balanced_size,), each label equally often; no clip twice before all of its label once."""
    labels = np.unique(targets)
    each = -(-len(targets) // len(labels))
    parts = [_draw(np.flatnonzero(targets == label), each, rng) for label in labels]
    return rng.permutation(np.concatenate(parts))


def mixed_size(targets: NDArray[np.int64]) -> int:
    """Clips in an epoch of recordings and synthetic speech: about twice as many as there are recordings."""
    return 2 * len(targets)


def mixed_order(
    targets: NDArray[np.int64],
    spoken: NDArray[np.int64],
    share: float,
    balance: float,
    rng: np.random.Generator,
) -> Places:
    """Draw an epoch's clips, about `mixed_size`, some of them synthetic.

    A label with n recordings is heard in proportion to (n + 5)^(1 - balance): each label equally often with 1, about
    as often as it was recorded with 0. Of its clips the share `share` is synthetic speech, and more where its
    recordings would be heard more than `LAPS` times.

    Parameters
    ----------
    targets
        (N,) labels of the recordings.
    spoken
        (M,) labels of the synthetic speech, which says every label.

    Returns
    -------
    Places
        Places in the recordings (N,) followed by the synthetic speech (M,).
    """
    labels = np.unique(spoken)
    recorded = np.bincount(targets, minlength=labels[-1] + 1)[labels]
    parts, weights = [], (recorded + 5.0) ** (1 - balance)
    for label, count, wanted in zip(labels, recorded, weights / weights.sum() * mixed_size(targets), strict=True):
        synthetic = round(max(share, 1 - LAPS * count / wanted) * wanted)
        parts.append(_draw(np.flatnonzero(targets == label), round(wanted) - synthetic, rng))
        parts.append(_draw(len(targets) + np.flatnonzero(spoken == label), synthetic, rng))
    return rng.permutation(np.concatenate(parts))


def _draw(places: Places, count: int, rng: np.random.Generator) -> Places:
    """Draw so many of these places: no place twice before all of them once."""
    if count <= 0:
        return places[:0]
    return np.concatenate([rng.permutation(places) for _ in range(-(-count // len(places)))])[:count]
