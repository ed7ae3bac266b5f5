"""The attack that detection is tested with: one client makes the average whatever it likes (FedVSA, eq. 10-11)."""

from __future__ import annotations

import numpy as np

from auricle_learning.aggregation.cohort import Float64Array, FloatArray


def replacement(
    start: FloatArray,
    wanted: FloatArray,
    share: float,
    benign: FloatArray | None = None,
    benign_share: Float64Array | None = None,
) -> FloatArray:
    """Return the upload w^t + u_m with u_m = (1/p_m) [(w_p - w^t) - Σ_benign p_k (w_k - w^t)] (eq. 10, A52).

    `start` is w^t and `wanted` w_p, which the aggregate becomes if the others' uploads are known; `share` is p_m.
    """
    assert 0 < share <= 1
    base = start.astype(np.float64)
    update = wanted - base
    if benign is not None and benign_share is not None:
        update = update - benign_share @ (benign.astype(np.float64) - base)
    return (base + update / share).astype(start.dtype)


def flipped(targets: np.ndarray, labels: int) -> np.ndarray:
    """Labels y -> C-1-y; with odd C the middle one, which would stay, goes to y+1."""
    wrong = labels - 1 - targets
    return np.where(wrong == targets, targets + 1, wrong)
