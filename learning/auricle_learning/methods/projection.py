"""A common space for the features of different architectures: a fixed matrix with orthonormal rows or columns."""

from __future__ import annotations

from functools import cache

import numpy as np

from auricle_learning.aggregation.cohort import Float64Array


@cache
def projection(size: int, width: int) -> Float64Array:
    """P (size, width), drawn from the two numbers alone, so that all devices of an architecture have the same one.

    The identity where they are equal. Else its shorter side is orthonormal: P Pᵀ = 1 where the features are wider, Pᵀ P
    = 1, so that nothing is lost, where they are not.
    """
    if size == width:
        return np.eye(size)
    drawn = np.random.default_rng([size, width]).standard_normal((max(size, width), min(size, width)))
    basis, triangle = np.linalg.qr(drawn)
    basis *= np.where(np.diag(triangle) < 0, -1.0, 1.0)
    return basis.T if size < width else basis


def projected(features: Float64Array, size: int) -> Float64Array:
    """Features (n, d) in the common space (n, size)."""
    common: Float64Array = features @ projection(size, features.shape[1]).T
    return common


def lifted(common: Float64Array, own: Float64Array) -> Float64Array:
    """Points (n, size) of the common space as features (n, d), by what the common space does not show as `own` (n, d).

    P of the result is `common` where the features are wider, and the nearest that features can be where they are not.
    """
    matrix = projection(common.shape[1], own.shape[1])
    features: Float64Array = common @ matrix + own - own @ matrix.T @ matrix
    return features
