"""Updates as whole numbers of 16 bits, whose sums are exact modulo 2^32."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auricle.errors import WireError
from auricle.wire.secure_sum.sizes import LEVELS, MOST

Words = NDArray[np.uint32]
MASKED = "sum32"
"""The codec of an update whose body is masked words, little-endian, in the pack's order."""


def quantise(update: NDArray[np.floating], bound: float) -> Words:
    """Round to q = round(32767 clip(u, -b, b) / b), as words modulo 2^32.

    Parameters
    ----------
    update
        (P,) w_k - w^t, finite.
    bound
        b, the same for all devices; what is larger is cut to it. A value is off by at most b / 65534 otherwise.

    Raises
    ------
    WireError
        The bound is not above 0, or a value is not finite.
    """
    if not 0 < bound < float("inf") or not np.isfinite(update).all():
        raise WireError("A secure sum takes finite values and a bound above 0.")
    scaled = np.clip(np.asarray(update, np.float64) / bound, -1.0, 1.0) * LEVELS
    return np.rint(scaled).astype(np.int32).view(np.uint32)


def words_of(body: bytes, size: int) -> Words:
    """Read the body of a masked update; WireError: it is not of `size` words."""
    if len(body) != 4 * size:
        raise WireError(f"A masked update has {len(body)} bytes where {4 * size} are due.")
    return np.frombuffer(body, "<u4").astype(np.uint32)


def body_of(words: Words) -> bytes:
    """The body of a masked update."""
    return words.astype("<u4").tobytes()


def sum_of(total: Words, count: int, bound: float) -> NDArray[np.float64]:
    """Read a sum modulo 2^32 of `count` quantised updates: (P,) sums of the updates.

    Raises
    ------
    WireError
        It is of nobody, or of more devices than 32 bits hold; or larger than so many updates can be, as what is left
        under a mask is: somebody revealed another share than it was given.
    """
    if not 1 <= count <= MOST:
        raise WireError(f"A secure sum is of 1 to {MOST} devices, not of {count}.")
    if np.abs(total.view(np.int32).astype(np.int64)).max(initial=0) > count * LEVELS:
        raise WireError(f"What is left without the masks is no sum of {count} updates: a device's shares are wrong.")
    return total.view(np.int32).astype(np.float64) * (bound / LEVELS)
