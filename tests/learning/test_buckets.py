"""Means of buckets that become one update: by hand, and what one bucket can do at most."""

from __future__ import annotations

import numpy as np
import pytest

from auricle.errors import AuricleError
from auricle_learning.aggregation.buckets import CLIP_RATIO, combine_buckets


def test_by_hand() -> None:
    means = np.array([[3.0, 4.0], [0.0, 5.0], [6.0, 8.0], [0.0, -1.0], [-1000.0, 0.0]])
    made = combine_buckets(means)  # norms 5, 5, 10, 1, 1000: middle 5, of those that are left (1, 5, 5, 10) 5 again
    assert made.norms.tolist() == [5.0, 5.0, 10.0, 1.0, 1000.0]
    assert made.clip == 2.5
    assert made.scales.tolist() == [0.5, 0.5, 0.25, 1.0, 0.0]
    assert made.update.tolist() == [(1.5 + 0 + 1.5 + 0) / 4, (2.0 + 2.5 + 2.0 - 1.0) / 4]


def test_of_two_none_is_left_out_and_the_shorter_one_decides() -> None:
    made = combine_buckets(np.array([[1.0, 0.0], [0.0, 1e9]]))
    assert (made.clip, made.scales.tolist()) == (
        pytest.approx(CLIP_RATIO),
        pytest.approx([CLIP_RATIO, CLIP_RATIO * 1e-9]),
    )
    assert combine_buckets(np.zeros((2, 3))).update.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("length", [0.0, 0.5, 1.0, 3.0, 10.0, 1e6])
def test_whatever_one_bucket_holds_moves_the_update_by_a_part_of_a_middle_norm(seed: int, length: float) -> None:
    draw = np.random.default_rng(seed)
    honest = draw.normal(0, 1, (5, 200))
    lie = -honest.sum(axis=0)
    wrong = np.concatenate([honest[:4], [length * lie / np.linalg.norm(lie) * np.linalg.norm(honest[4])]])
    moved = np.linalg.norm(combine_buckets(wrong).update - combine_buckets(honest).update)
    assert moved <= 2.2 * CLIP_RATIO * float(np.median(np.linalg.norm(honest, axis=1))) / 5
    order = draw.permutation(5)
    assert np.allclose(combine_buckets(wrong[order]).update, combine_buckets(wrong).update)


@pytest.mark.parametrize("means", [np.ones((1, 4)), np.array([[1.0], [np.nan]]), np.array([[1.0], [np.inf], [0.0]])])
def test_what_cannot_be_compared_is_refused(means: np.ndarray) -> None:
    with pytest.raises(AuricleError, match="cannot be compared"):
        combine_buckets(means)
