"""Secure sums: exact with and without drop-outs, nothing to see in a masked update, and what is refused."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from random import Random

import numpy as np
import pytest

from auricle.errors import WireError
from auricle.wire.secure_sum.device import DeviceSum, Keys, Revealed
from auricle.wire.secure_sum.kinds import neighbours
from auricle.wire.secure_sum.masks import PRIME, agree_key, join, public_of, seal, split, stream, unseal
from auricle.wire.secure_sum.quantised import Words, quantise, sum_of
from auricle.wire.secure_sum.server import ServerSum
from auricle.wire.secure_sum.sizes import LEVELS, MOST

SIZE = 300


def added(words: Sequence[Words]) -> Words:
    total = np.zeros_like(words[0])
    for each in words:
        total += each
    return total


class Sum:
    """A sum of `count` devices, each with words of its own."""

    def __init__(self, count: int, degree: int, threshold: int, seed: int = 0) -> None:
        draw = np.random.default_rng(seed)
        self.names = [f"dev-{i:03d}" for i in range(count)]
        self.graph = neighbours(self.names, degree, Random(seed))
        self.words = {name: draw.integers(0, 1 << 32, SIZE, np.uint32) for name in self.names}
        self.devices = {name: DeviceSum(name, self.graph[name], threshold) for name in self.names}
        self.server = ServerSum(self.graph, threshold, SIZE)

    def share(self, away: Collection[str] = ()) -> None:
        here = [name for name in self.names if name not in away]
        for name in here:
            self.server.take_keys(name, self.devices[name].keys)
        for name in here:
            self.server.take_shares(name, self.devices[name].shares(self.server.keys_for(name)))

    def mask(self, name: str) -> Words:
        return self.devices[name].masked(self.words[name], self.server.shares_for(name))

    def reveal(self, silent: Collection[str] = ()) -> dict[str, Revealed]:
        came, missing = self.server.came, self.server.missing
        return {name: self.devices[name].reveal(came, missing) for name in sorted(came) if name not in silent}

    def expected(self, names: Collection[str]) -> Words:
        return added([self.words[name] for name in names])


@pytest.mark.parametrize(
    ("count", "degree", "threshold", "late", "gone", "silent"),
    [
        *((3, 2, 2, 0, 0, 0), (5, 4, 3, 0, 1, 0), (20, 8, 5, 0, 0, 0), (20, 8, 5, 1, 2, 0), (20, 8, 5, 0, 2, 1)),
        (40, 12, 7, 2, 3, 2),
    ],
)
def test_the_sum_of_who_came_is_exact(
    count: int, degree: int, threshold: int, late: int, gone: int, silent: int
) -> None:
    run = Sum(count, degree, threshold)
    away, dropped = run.names[:late], run.names[late : late + gone]
    run.share(away)
    for name in run.names[late + gone :]:
        run.server.take_masked(name, run.mask(name))
    assert run.server.missing == set(dropped)
    total = run.server.total(run.reveal(run.names[-silent:] if silent else ()))
    assert total.tolist() == run.expected(run.names[late + gone :]).tolist()


def test_a_masked_update_looks_like_noise_and_so_does_the_sum_before_the_end() -> None:
    run = Sum(6, 4, 3)
    run.words = {name: np.zeros(SIZE, np.uint32) for name in run.names}
    run.share()
    masked = {name: run.mask(name) for name in run.names}
    for name, words in masked.items():
        assert abs(float((words > (1 << 31)).mean()) - 0.5) < 0.15
        run.server.take_masked(name, words)
    assert len({words.tobytes() for words in masked.values()}) == 6
    assert run.server._total.any()
    assert not run.server.total(run.reveal()).any()


def test_updates_are_rounded_to_16_bits_and_their_sum_is_that_of_the_rounded_ones() -> None:
    draw, bound = np.random.default_rng(1), 0.05
    updates = draw.normal(0, 0.01, (30, SIZE))
    words = [quantise(update, bound) for update in updates]
    total = added(words)

    found = sum_of(total, 30, bound)
    assert np.abs(found - updates.sum(axis=0)).max() <= 30 * bound / (2 * LEVELS) + 1e-12
    assert sum_of(quantise(np.array([-9.0, 9.0, 0.0]), 1.0), 1, 1.0).tolist() == [-1.0, 1.0, 0.0]
    at_most = added([quantise(np.full(1, -1.0), 1.0)] * 1000)
    assert sum_of(at_most, 1000, 1.0)[0] == pytest.approx(-1000.0)
    for count in (0, MOST + 1):
        with pytest.raises(WireError, match="is of 1 to"):
            sum_of(total, count, bound)
    for update, width in ((np.array([np.nan]), 1.0), (np.zeros(1), 0.0)):
        with pytest.raises(WireError, match="finite values"):
            quantise(update, width)


def test_any_threshold_of_shares_gives_the_secret_and_fewer_do_not() -> None:
    secret = secrets.token_bytes(32)
    shares = split(secret, 3, 5)
    for places in ((1, 2, 3), (2, 4, 5), (1, 3, 5)):
        assert join({place: shares[place] for place in places}, 3) == secret
    with pytest.raises(WireError, match="fewer than the 3"):
        join({1: shares[1], 2: shares[2]}, 3)
    assert join({1: shares[1], 2: shares[2]}, 2) != secret
    with pytest.raises(WireError, match="33 bytes below the prime"):
        join({**shares, 1: PRIME.to_bytes(33, "big")}, 3)
    for wrong in ((secret[:31], 2, 3), (secret, 4, 3), (secret, 0, 3)):
        with pytest.raises(WireError, match="cannot hold"):
            split(*wrong)


def test_every_device_has_the_same_number_of_neighbours_who_have_it_too() -> None:
    names = [f"d{i}" for i in range(50)]
    graph = neighbours(names, 10, Random(3))
    assert all(len(set(others)) == 10 and name not in others for name, others in graph.items())
    assert all(name in graph[other] for name, others in graph.items() for other in others)
    assert graph == neighbours(names[::-1], 10, Random(3)) != neighbours(names, 10, Random(4))
    assert all(len(others) == 3 for others in neighbours(names[:4], 10, Random(0)).values())
    for few, degree in ((names[:2], 2), (names, 3), (["a", "a", "b"], 2)):
        with pytest.raises(WireError):
            neighbours(few, degree, Random(0))


def test_two_devices_agree_and_a_third_does_not() -> None:
    one, two, three = (secrets.token_bytes(32) for _ in range(3))
    assert agree_key(one, public_of(two), b"x") == agree_key(two, public_of(one), b"x")
    assert (
        agree_key(one, public_of(two), b"x")
        != agree_key(one, public_of(two), b"y")
        != agree_key(three, public_of(one), b"y")
    )
    assert stream(one, 9).tolist() == stream(one, 20)[:9].tolist()
    box = seal(one, b"share")
    assert unseal(one, box) == b"share"
    for key, changed in ((two, box), (one, box[:-1] + bytes([box[-1] ^ 1]))):
        with pytest.raises(WireError, match="were changed"):
            unseal(key, changed)
    with pytest.raises(WireError, match="not an X25519 key"):
        agree_key(one, bytes(32), b"x")


def test_both_secrets_of_a_device_are_never_revealed_nor_anything_twice_nor_to_few() -> None:
    run = Sum(6, 4, 3)
    run.share()
    for name in run.names[1:]:
        run.server.take_masked(name, run.mask(name))
    device = run.devices["dev-003"]
    with pytest.raises(WireError, match="never both"):
        device.reveal(run.names[1:], run.names[:2])
    with pytest.raises(WireError, match="too few"):
        device.reveal(run.graph["dev-003"][:2], ())
    device.reveal(run.names[1:], run.names[:1])
    with pytest.raises(WireError, match="reveals shares once"):
        device.reveal(run.names[1:], run.names[:1])


def test_what_comes_late_twice_or_from_strangers_is_refused() -> None:
    run = Sum(6, 4, 3)
    run.share(away=["dev-000"])
    with pytest.raises(WireError, match="takes no part"):
        run.server.take_keys("dev-000", run.devices["dev-000"].keys)
    words = run.mask("dev-001")
    with pytest.raises(WireError, match="nobody waits for"):
        run.server.take_shares("dev-002", {})
    run.server.take_masked("dev-001", words)
    for name, wrong in (("dev-001", words), ("dev-000", words), ("dev-002", words[:-1])):
        with pytest.raises(WireError, match="does not belong"):
            run.server.take_masked(name, wrong)
    with pytest.raises(WireError, match="fewer than the 3"):
        run.server.total({})
    with pytest.raises(WireError, match="name more than half"):
        DeviceSum("a", ("b", "c", "d", "e"), 2)
    with pytest.raises(WireError, match="too few"):
        DeviceSum("a", ("b", "c"), 2).shares({"b": Keys(bytes(32), bytes(32))})
