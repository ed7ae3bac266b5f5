"""One update of the mean updates of buckets of devices: a norm bound, where no single update is seen.

Means of random buckets in place of updates: Karimireddy et al. 2022 (https://arxiv.org/abs/2006.09365); of buckets that
are secure sums: Velicheti et al. 2021 (SHARE, https://arxiv.org/abs/2104.13014). Clipping to a median norm: Xie et al.
2020 and RoFL (Lycklama et al. 2023, https://arxiv.org/abs/2107.03311), where it is proved of single updates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from auricle.errors import AuricleError
from auricle_learning.aggregation.cohort import Float64Array

FAR_RATIO = 4.0
"""Of the middle norm: a mean that is longer is left out. Nearly all of honest devices are within 3."""
CLIP_RATIO = 0.5
"""Of the middle norm: longer means are cut to it, also honest ones. With 1, one of ten devices that knows all updates
moves a model 5 times as far as an honest one does, with 0.5 at most 3 times (`bench/secure_liar.py`)."""


class Combined(NamedTuple):
    """One update of the means of G buckets."""

    update: Float64Array
    """(P,)."""
    norms: Float64Array
    """(G,) Euclidean."""
    scales: Float64Array
    """(G,) by what each mean was multiplied: 1, less where it was cut to the clip, 0 where it was left out."""
    clip: float
    """The norm to which longer means were cut."""


def combine_buckets(means: Float64Array) -> Combined:
    """Average the means that are not far too long, each cut to a norm bound; every bucket weighs the same.

    With n_g = ||m_g|| and the lower median M of the norms, buckets with n_g > 4 M are left out where there are at least
    three, which M is not one of; c = M' / 2, M' the lower median of the others, and the update is the mean over them of
    m_g min(1, c / n_g). So a bucket moves it by at most c / G, whatever a device in it sends.

    Parameters
    ----------
    means
        (G, P) mean updates, G at least 2.

    Raises
    ------
    AuricleError
        There are fewer than two, or a value is not finite.

    Examples
    --------
    >>> combine_buckets(np.array([[3.0, 4.0], [5.0, 0.0], [0.0, -900.0]])).update.round(2).tolist()
    [2.0, 1.0]
    """
    if len(means) < 2 or not np.isfinite(means).all():
        raise AuricleError(f"{len(means)} means of buckets cannot be compared: at least two are needed, all finite.")
    norms = np.linalg.norm(means, axis=1)
    kept = norms <= FAR_RATIO * _lower_median(norms) if len(means) > 2 else np.ones(len(means), np.bool_)
    clip = CLIP_RATIO * _lower_median(norms[kept])
    longer = np.maximum(norms, clip)
    scales = np.where(kept, np.divide(clip, longer, out=np.ones(len(norms)), where=longer > 0), 0.0)
    return Combined(scales @ means / kept.sum(), norms, scales, clip)


def _lower_median(norms: Float64Array) -> float:
    return float(np.sort(norms)[(len(norms) - 1) // 2])
