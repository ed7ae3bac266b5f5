"""The measurement of a liar in a secure sum: on updates without recordings, it is bounded as the benchmark says."""

from __future__ import annotations

import numpy as np
import pytest
from bench.secure_liar import LIARS, drawn, measure

from auricle_cloud.settings import BUCKET


@pytest.mark.parametrize("seed", range(3))
def test_one_of_ten_moves_the_model_at_most_three_times_as_far_as_an_honest_device(seed: int) -> None:
    draw = np.random.default_rng(seed)
    updates = draw.normal(0, 0.001, (10, 2000)) + 0.0003 * draw.normal(0, 1, 2000)
    found = measure(updates, BUCKET, seed)
    assert found.keys() == LIARS.keys()
    for name, moved in found.items():
        assert moved.after <= 3 * moved.alone, name
        assert moved.absent <= 3 * moved.alone, name
        assert moved.alone <= moved.most and moved.share > 0, name
    assert found["garbage of 32 bits"].before == np.inf
    assert found["constant, at the bound"].before > 50 * found["constant, at the bound"].alone


def test_buckets_are_those_of_a_coordinator() -> None:
    sizes = sorted(len(bucket) for bucket in drawn(10, BUCKET, np.random.default_rng(0)))
    assert sizes == [3, 3, 4]
