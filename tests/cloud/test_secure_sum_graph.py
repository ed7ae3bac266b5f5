"""Who is left of a secure sum when devices drop out, and when its sum can be read: by hand, and against the library."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pytest
from msgspec.structs import replace

from auricle.errors import WireError
from auricle.wire.secure_sum.device import DeviceSum, Keys, Secrets
from auricle.wire.secure_sum.kinds import MOST_NEIGHBOURS, degree_of, sum_name, threshold_of
from auricle.wire.secure_sum.quantised import Words, body_of, quantise, sum_of
from auricle_cloud.rounds.secure.graph import (
    bucket_count,
    buckets_of,
    readable,
    remaining,
    seated,
    threshold_among,
)
from auricle_cloud.rounds.secure.opening import total_of
from auricle_cloud.storage.rows import SumRow

SUM, SIZE, BOUND = "7" * 32, 40, 1.0
ALL = {seat: [other for other in range(1, 6) if other != seat] for seat in range(1, 6)}
"""Five devices, everybody with everybody: 3 shares of 4."""


def test_degree_and_threshold_by_hand() -> None:
    assert [degree_of(count) for count in (3, 10, 100, 1000, 65538)] == [14, 18, 24, 30, MOST_NEIGHBOURS]
    assert [threshold_of(near) for near in (2, 3, 4, 9, 22, 30)] == [2, 2, 3, 6, 14, 18]
    few = seated(["c", "a", "b"])
    assert few == {"a": (1, [2, 3]), "b": (2, [1, 3]), "c": (3, [1, 2])}
    many = seated([f"dev-{i:03d}" for i in range(60)])
    near = dict(many.values())
    assert {len(others) for others in near.values()} == {degree_of(60)} and threshold_among(near) == 14
    assert all(others == sorted(others) and seat not in others for seat, others in near.items())
    assert seated([f"dev-{i:03d}" for i in range(60)]) != many  # drawn again, not from a seed that somebody chose


def test_buckets_are_pieces_of_the_graph_of_at_least_three_devices_drawn_anew() -> None:
    assert [bucket_count(n, 8) for n in (3, 7, 8, 9, 10, 23, 24, 31, 32, 100)] == [1, 1, 2, 3, 3, 3, 3, 3, 4, 12]
    assert [bucket_count(n, 3) for n in (9, 10, 12)] == [3, 3, 4] and bucket_count(100, 0) == 1
    names = [f"dev-{i:03d}" for i in range(100)]
    drawn = [dict(seated(names, 8).values()) for _ in range(2)]
    for near in drawn:
        buckets = buckets_of(near)
        assert sorted(len(each) for each in buckets) == [8] * 8 + [9] * 4
        assert sorted(seat for each in buckets for seat in each) == list(range(1, 101))
        assert all(near[seat] == [other for other in each if other != seat] for each in buckets for seat in each)
    assert buckets_of(drawn[0]) != buckets_of(drawn[1])
    assert buckets_of(dict(seated(names).values())) == [list(range(1, 101))]
    assert buckets_of(ALL) == [[1, 2, 3, 4, 5]] and buckets_of({}) == []


def test_who_shared_with_too_few_is_left_out_and_so_on() -> None:
    assert remaining(ALL, [1, 2, 3, 4], 3) == {1, 2, 3, 4}
    assert remaining(ALL, [1, 2, 3], 3) == set()
    ring = {1: [2, 5], 2: [1, 3], 3: [2, 4], 4: [3, 5], 5: [1, 4]}
    assert remaining(ring, [1, 2, 3, 4, 5], 2) == {1, 2, 3, 4, 5}
    assert remaining(ring, [1, 2, 3, 4], 2) == set()  # 1 and 4 have one each, then 2 and 3 have none
    assert remaining(ring, [1, 2, 3, 4], 1) == {1, 2, 3, 4}


def test_the_sum_is_readable_with_a_threshold_of_shares_of_every_secret_that_is_needed() -> None:
    everybody = set(ALL)
    assert readable(ALL, everybody, everybody, {1, 2, 3, 4}, 3)
    assert readable(ALL, everybody, {1, 2, 3, 4}, {1, 2, 3, 4}, 3)
    assert not readable(ALL, everybody, {1, 2, 3, 4}, {1, 2, 3}, 3)  # two shares of the first three's seeds
    assert not readable(ALL, everybody, {1, 2, 3}, {1, 2, 3}, 3)
    assert not readable(ALL, everybody, set(), set(), 3)
    two = {1: [2, 3], 2: [1, 3], 3: [1, 2], 4: [5, 6], 5: [4, 6], 6: [4, 5]}
    assert readable(two, two.keys(), {1, 2, 3}, {1, 2, 3}, 2)  # nobody who came masked with 4, 5 or 6


class Kept:
    """Rows of a sum as the coordinator keeps them, made by devices of the library.

    `missing` sends no update, `silent` reveals nothing; `bucket` as of `seated`; `lies` are words in place of an
    update's.
    """

    def __init__(
        self,
        count: int,
        missing: frozenset[int] = frozenset(),
        silent: frozenset[int] = frozenset(),
        bucket: int = 0,
        lies: Mapping[int, Words] = MappingProxyType({}),
    ) -> None:
        seats = seated([f"dev-{i:02d}" for i in range(count)], bucket)
        self.near = dict(seats.values())
        self.buckets = buckets_of(self.near)
        self.threshold = threshold_among(self.near)
        drawn = {seat: Secrets.drawn() for seat in self.near}
        name = {seat: sum_name(SUM, seat) for seat in self.near}
        devices = {
            seat: DeviceSum(name[seat], [name[other] for other in near], threshold_of(len(near)), drawn[seat])
            for seat, near in self.near.items()
        }
        keys: dict[str, Keys] = {name[seat]: each.keys for seat, each in drawn.items()}
        boxes = {seat: each.shares(keys) for seat, each in devices.items()}
        rng = np.random.default_rng(count)
        self.updates = {seat: rng.normal(0, 0.1, SIZE) for seat in self.near if seat not in missing}
        self.bodies, rows = {}, []
        for device, (seat, near) in seats.items():
            own = lost = None
            if seat in self.updates:
                held = {name[other]: boxes[other][name[seat]] for other in near}
                words = lies[seat] if seat in lies else quantise(self.updates[seat], BOUND)
                self.bodies[device] = body_of(devices[seat].masked(words, held))
                came, gone = ([name[o] for o in near if (o in missing) == lack] for lack in (False, True))
                if seat not in silent and len(came) >= threshold_of(len(near)):
                    found = devices[seat].reveal(came, gone)
                    own = b"".join(found.own[each].share for each in came)
                    lost = b"".join(found.masks[each].share for each in gone)
            sealed = b"".join(boxes[seat][name[other]] for other in near)
            mine = keys[name[seat]]
            rows.append(SumRow("t", 1, device, mine.boxes, mine.masks, seat, near, sealed, True, own, lost))
        self.rows = rows

    def mean(self) -> np.ndarray:
        total = total_of(SUM, self.rows, self.threshold, self.bodies, SIZE)
        return sum_of(total, len(self.bodies), BOUND) / len(self.bodies)


@pytest.mark.parametrize(
    ("count", "missing", "silent"),
    [(3, (), ()), (5, (), (1,)), (5, (2,), ()), (30, (1, 2, 3), ()), (30, (30,), (4, 5))],
)
def test_the_mean_is_that_of_the_updates_that_came(
    count: int, missing: tuple[int, ...], silent: tuple[int, ...]
) -> None:
    kept = Kept(count, frozenset(missing), frozenset(silent))
    plain = np.mean(list(kept.updates.values()), axis=0)
    assert np.abs(kept.mean() - plain).max() <= BOUND / 65534 + 1e-12


def test_a_wrong_share_is_found_and_never_becomes_a_model() -> None:
    kept, gone = Kept(5), Kept(5, frozenset({2}))
    first, second = kept.rows[0], gone.rows[0]
    assert first.own is not None and second.lost is not None
    for given, row, noun in (
        (kept, replace(first, own=bytes(33) + first.own[33:]), "no sum|together"),
        (gone, replace(second, lost=bytes(33) + second.lost[33:]), "its key|together"),
        (gone, replace(second, own=None, lost=None), "fewer than the 3"),
    ):
        given.rows[0] = row
        with pytest.raises(WireError, match=noun):
            given.mean()
