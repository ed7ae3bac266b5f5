"""Half precision (IEEE 754 binary16) by whole arrays of integers: NumPy's own conversion goes number by number.

Normal numbers have the same mantissa at another place and another bias of the exponent; zeros and subnormals are few.
Encoding rounds to the nearest, ties to even, as NumPy does. Not a bit differs from it, whatever a processor does with
subnormals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_EXPONENT = np.int16(0x7C00)
_BIAS = np.int32((127 - 15) << 23)
_KEPT = np.int32(-0x70002000)
"""Sign, exponent and mantissa of a half that was shifted to a float's place: 0x8FFFE000."""
_ROUND = np.uint32((((15 - 127) << 23) + 0xFFF) & 0xFFFFFFFF)
_SUBNORMAL = np.float32(2.0**-14)
"""Smaller ones are subnormal in half precision."""
_LARGEST = np.float32(65520)
"""Rounds to more than the largest half."""
_HALF = np.float32(0.5)
"""The last bit of its mantissa stands for 2^-24, the smallest subnormal."""


def from_float16(block: bytes, out: NDArray[np.float32] | None = None) -> NDArray[np.float32] | None:
    """Numbers of a block of little-endian halves, an array (P,), in `out` if that is given; None: one is not finite."""
    halves = np.frombuffer(block, "<i2")
    numbers = np.empty(halves.size, np.float32) if out is None else out
    if not halves.size:
        return numbers
    exponents = halves & _EXPONENT
    if exponents.max() == _EXPONENT:
        return None
    bits = numbers.view(np.int32)
    bits[:] = halves
    bits <<= np.int32(13)
    bits &= _KEPT
    bits += _BIAS
    if exponents.min() == 0:
        small = np.flatnonzero(exponents == 0)
        numbers[small] = np.frombuffer(block, "<f2")[small]
    return numbers


def to_float16(numbers: NDArray[np.float32]) -> bytes | None:
    """A block of little-endian halves, the nearest to some numbers (P,); None where one is not finite or too large."""
    if not numbers.size:
        return b""
    sizes = np.abs(numbers)
    if not sizes.max() < _LARGEST:  # nor is a NaN
        return None
    bits = sizes.view(np.uint32)
    rounded = bits >> np.uint32(13)
    rounded &= np.uint32(1)
    rounded += bits
    rounded += _ROUND
    rounded >>= np.uint32(13)
    halves = rounded.astype("<u2")
    if sizes.min() < _SUBNORMAL:
        small = np.flatnonzero(sizes < _SUBNORMAL)
        halves[small] = (sizes[small] + _HALF).view(np.uint32) - _HALF.view(np.uint32)
    halves |= (numbers.view(np.uint32) >> np.uint32(16)).astype("<u2") & np.uint16(0x8000)
    block: bytes = halves.tobytes()
    return block
