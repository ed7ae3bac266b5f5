"""The ring: the last samples by their number, across every wrap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.errors import DataError
from auricle_edge.listening.detect.hops import Ring

SIZE = 50


@settings(max_examples=60)
@given(st.integers(0, 10**12), st.lists(st.tuples(st.booleans(), st.integers(0, 130)), max_size=12))
def test_it_holds_the_last_samples_of_what_came_with_silence_for_what_was_lost(
    start: int, pieces: list[tuple[bool, int]]
) -> None:
    """Like one long array, of which the end is kept."""
    ring = Ring(SIZE)
    ring.begin(start)
    all_ = np.zeros(0, np.int16)
    for lost, count in pieces:
        samples = np.zeros(count, np.int16) if lost else np.arange(len(all_) + 1, len(all_) + 1 + count, dtype=np.int16)
        all_ = np.concatenate((all_, samples))
        if lost:
            ring.skip(count)
        else:
            ring.append(samples)
    assert ring.newest == start + len(all_)
    assert ring.oldest == start + max(0, len(all_) - SIZE)
    assert np.array_equal(ring.read(ring.oldest, ring.newest), all_[-SIZE:])
    middle = (ring.oldest + ring.newest) // 2
    assert np.array_equal(ring.read(middle, ring.newest), all_[middle - start :])


def test_what_it_gives_is_a_copy() -> None:
    """Sound that comes later does not change it."""
    ring = Ring(4)
    ring.append(np.array([1, 2, 3, 4], np.int16))
    read = ring.read(0, 4)
    ring.append(np.array([5, 6], np.int16))
    assert read.tolist() == [1, 2, 3, 4]
    assert ring.read(2, 6).tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize("span", [(0, 4), (3, 7), (5, 4), (-1, 3)], ids=str)
def test_samples_that_are_not_held_are_refused(span: tuple[int, int]) -> None:
    """Too old, still to come, or the wrong way round."""
    ring = Ring(4)
    ring.append(np.arange(6, dtype=np.int16))
    with pytest.raises(DataError, match="not in memory"):
        ring.read(*span)
