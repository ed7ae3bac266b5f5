"""Quantiles as NumPy interpolates them, without `numpy.ma`, which `np.quantile` loads: a MB of a device's memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def quantile(values: NDArray[Any], share: float) -> float:
    """What the share of the values (n,) lies below, n >= 1, interpolated."""
    return float(quantiles(values, share))


def quantiles(values: NDArray[Any], share: float) -> NDArray[Any]:
    """As `quantile`, of each column (...) of the values (n, ...)."""
    kind = values.dtype.type if values.dtype.kind == "f" else np.float64
    ordered = np.sort(values, axis=0)
    place = (len(ordered) - 1) * kind(share)
    before = int(place)
    low, high = ordered[before], ordered[min(before + 1, len(ordered) - 1)]
    part, apart = place - kind(before), high - low
    between: NDArray[Any] = low + apart * part if part < 0.5 else high - apart * (kind(1) - part)
    return between
