"""A secure sum in buckets: what drop-outs and one liar cost, read by the library as a coordinator reads it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cloud.test_secure_sum_graph import BOUND, SIZE, SUM, Kept

from auricle.errors import WireError
from auricle.packs.pack import load_pack
from auricle.wire.plan import SecureSum
from auricle.wire.secure_sum.sizes import LEVELS
from auricle_cloud.operations.explanation import explain
from auricle_cloud.operations.secure_explanation import why_unused
from auricle_cloud.rounds.secure.combining import RoundSum, open_buckets
from auricle_cloud.rounds.secure.seats import Seats
from auricle_cloud.states.report import read_report
from auricle_learning.aggregation.buckets import combine_buckets

TOLD = SecureSum(id=SUM, bound=BOUND)


def _opened(kept: Kept, silent: frozenset[str] = frozenset()) -> RoundSum:
    bodies = {name: (lambda name=name: kept.bodies[name]) for name in kept.bodies}
    return open_buckets(TOLD, Seats.of(kept.rows), bodies, silent, SIZE)


def _mean(kept: Kept, place: int) -> np.ndarray:
    return np.mean([kept.updates[seat] for seat in kept.buckets[place] if seat in kept.updates], axis=0)


def test_each_bucket_is_read_alone_and_their_means_are_combined() -> None:
    kept = Kept(10, bucket=8)
    made = _opened(kept)
    assert sorted(each.size for each in made.buckets) == [3, 3, 4] and made.devices == 10
    expected = combine_buckets(np.stack([_mean(kept, place) for place in range(3)]))
    assert np.abs(made.update - expected.update).max() <= BOUND / 65534 + 1e-12
    assert [each.scale for each in made.buckets] == pytest.approx(expected.scales.tolist(), rel=1e-3)
    table = load_pack("digits").plugin_table
    start = np.zeros(SIZE, np.float32)
    aggregate = made.aggregate(start, table)
    assert aggregate.left_out == () and len(aggregate.ids) == 10
    assert aggregate.share.sum(axis=0).max() == pytest.approx(np.mean(expected.scales), rel=1e-3)


def test_a_sum_of_all_has_no_buckets_and_says_that_nothing_was_compared() -> None:
    kept = Kept(5)
    made = _opened(kept)
    assert np.abs(made.update - _mean(kept, 0)).max() <= BOUND / 65534 + 1e-12
    assert made.report() == {"devices": 5}
    said = _sentences(made)
    assert any("one device can move the model by its bound" in text for text in said)


def _sentences(made: RoundSum) -> list[str]:
    report = {"invited": sorted(n for b in made.buckets for n in b.devices), "secure_sum": made.report()}
    return explain(read_report(report), task="t", number=1, state="published").sentences


@pytest.mark.parametrize("seats_away", [0, 1])
def test_a_device_that_drops_out_costs_its_bucket_at_most(seats_away: int) -> None:
    """Of a bucket of three the sum is not read without it, of one of four it is."""
    first = Kept(10, bucket=8)
    size = 3 if seats_away == 0 else 4
    for _ in range(20):  # who is where is drawn anew
        gone = next(each[0] for each in first.buckets if len(each) == size)
        kept = Kept(10, frozenset({gone}), bucket=8)
        mine = next(place for place, each in enumerate(kept.buckets) if gone in each)
        if len(kept.buckets[mine]) == size:
            break
        first = kept
    made = _opened(kept)
    states = [each.state for each in made.buckets]
    assert (states[mine] == "lost") == (size == 3)
    assert made.devices == (7 if size == 3 else 9)
    left = [_mean(kept, place) for place in range(3) if size == 4 or place != mine]
    assert np.abs(made.update - combine_buckets(np.stack(left)).update).max() <= BOUND / 65534 + 1e-12
    assert any("cannot be read" in text for text in _sentences(made)) == (size == 3)


def test_without_more_than_half_of_the_buckets_there_is_no_model() -> None:
    kept = Kept(9, bucket=8)
    first, second = kept.buckets[:2]
    silent = frozenset(kept.rows[seat - 1].device for seat in (first[0], second[0]))
    rows = {row.seat: row.device for row in kept.rows}
    assert _opened(kept, frozenset({rows[first[0]]})).devices == 6
    silent = frozenset({rows[first[0]], rows[second[0]]})
    with pytest.raises(WireError, match="1 of 3 buckets can be read: too few shares"):
        _opened(kept, silent)


@pytest.mark.parametrize("words", [np.uint32(LEVELS), np.uint32(2**32 - LEVELS), np.uint32(2**31), np.uint32(10**8)])
def test_a_liar_costs_its_bucket_whatever_it_masks(words: np.uint32) -> None:
    """At the far end of the range its bucket's mean is far too long; beyond it, its sum cannot be."""
    kept = Kept(12, bucket=4, lies={5: np.full(SIZE, words, np.uint32)})
    made = _opened(kept)
    mine = next(place for place, each in enumerate(kept.buckets) if 5 in each)
    bad = made.buckets[mine]
    assert bad.state == ("left out" if words in (LEVELS, 2**32 - LEVELS) else "impossible")
    assert made.devices == 8
    others = combine_buckets(np.stack([_mean(kept, place) for place in range(3) if place != mine]))
    assert np.abs(made.update - others.update).max() <= BOUND / 65534 + 1e-12
    aggregate = made.aggregate(np.zeros(SIZE, np.float32), load_pack("digits").plugin_table)
    assert set(aggregate.left_out) == set(bad.devices)
    assert any("which of them it was, nobody can tell" in text for text in _sentences(made))
    told = read_report({"secure_sum": made.report()}).secure_sum
    assert told is not None and "was left out" in (why_unused(told, bad.devices[0]) or "")
    assert why_unused(told, next(each for each in made.buckets if each.scale).devices[0]) is None
