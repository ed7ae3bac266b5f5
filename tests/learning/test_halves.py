"""Half precision read by the C library: NumPy's numbers, whatever the level of the processor and the length."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from auricle.errors import AuricleError
from auricle.wire.float16 import from_float16
from auricle_learning.native.compiling import LEVELS
from auricle_learning.native.halves import HalfReader, half_reader
from auricle_learning.native.library import Library, found_library, library

EVERY = np.arange(1 << 16).astype("<u2")
FINITE = EVERY[EVERY & 0x7C00 != 0x7C00]


@pytest.fixture(scope="module")
def built() -> Library:
    try:
        return library()
    except AuricleError as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("size", [0, 1, 7, 15, 16, 17, 40, FINITE.size])
def test_numbers_are_those_of_numpy_with_their_largest_and_how_far_they_moved(
    built: Library, level: str, size: int
) -> None:
    halves = np.random.default_rng(size).permutation(FINITE)[:size]
    base, out = np.linspace(-1, 1, size, dtype=np.float32), np.full(size + 1, 7, np.float32)
    found = HalfReader(built, level).read(halves.tobytes(), out[:size], base)

    numbers = halves.view("<f2").astype(np.float32)
    assert out[:size].tobytes() == numbers.tobytes() and out[size] == 7
    assert found is not None
    assert found[0] == np.abs(numbers).max(initial=0)
    assert found[1] == pytest.approx(np.linalg.norm((numbers - base).astype(np.float64)), rel=1e-12)
    without = HalfReader(built, level).read(halves.tobytes(), out[:size])
    assert without is not None and without[0] == found[0]


@pytest.mark.parametrize("place", [0, 8, 19, 20])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_number_that_is_not_finite_is_seen_wherever_it_is(built: Library, place: int, bad: float) -> None:
    halves = np.zeros(21, "<f2")
    halves[place] = bad
    assert HalfReader(built).read(halves.tobytes(), np.empty(21, np.float32)) is None
    assert from_float16(halves.tobytes()) is None


def test_an_array_of_another_size_or_type_is_refused(built: Library) -> None:
    reader, right = HalfReader(built), np.empty(3, np.float32)
    for out in (np.empty(2, np.float32), np.empty(3), np.empty(6, np.float32)[::2]):
        with pytest.raises(AuricleError, match="in one piece"):
            reader.read(bytes(6), cast("np.ndarray[tuple[int], np.dtype[np.float32]]", out))
    with pytest.raises(AuricleError, match="in one piece"):
        reader.read(bytes(6), right, np.empty(4, np.float32))


def test_a_reader_is_there_where_the_library_is(built: Library) -> None:
    half_reader.cache_clear()
    assert (half_reader() is None) == (found_library() is None)
