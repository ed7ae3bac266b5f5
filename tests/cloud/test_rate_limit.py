"""Token buckets, with a clock that stands still until it is told to go on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from auricle_cloud.link.admission import RateLimit


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_passes_and_then_what_flows_in() -> None:
    clock = Clock()
    limit = RateLimit(2.0, 5.0, clock=clock)

    said = [limit.take("a") for _ in range(7)]
    clock.now += 0.25
    said.append(limit.take("a"))  # half a token
    clock.now += 0.25
    said += [limit.take("a"), limit.take("a")]  # one, and no more
    clock.now += 1.0
    said += [limit.take("a") for _ in range(3)]  # two

    assert said == [True] * 5 + [False] * 2 + [False] + [True, False] + [True, True, False]
    clock.now += 1e9  # a bucket never holds more than its burst
    assert [limit.take("a") for _ in range(6)] == [True] * 5 + [False]


def test_what_is_refused_costs_nothing_and_names_do_not_share_a_bucket() -> None:
    limit = RateLimit(1.0, 4.0, clock=Clock())

    assert [limit.take("a", tokens) for tokens in (3, 3, 1, 1, 0)] == [True, False, True, False, True]
    assert [limit.take("b", tokens) for tokens in (4, 1)] == [True, False]


def test_the_bucket_that_was_longest_unused_is_forgotten() -> None:
    clock = Clock()
    limit = RateLimit(1.0, 1.0, names=2, clock=clock)
    for name in ("a", "b", "a", "c"):  # b is the oldest when c comes
        limit.take(name)

    assert len(limit._buckets) == 2
    assert [limit.take(name) for name in ("a", "b")] == [False, True]
    for i in range(1000):
        limit.take(str(i))
    assert len(limit._buckets) == 2


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 4)), max_size=60))
def test_never_more_than_the_burst_and_what_flowed_in(steps: list[tuple[float, int]]) -> None:
    clock = Clock()
    limit = RateLimit(2.0, 5.0, clock=clock)

    taken = 0
    for wait, tokens in steps:
        clock.now += wait
        taken += tokens if limit.take("a", tokens) else 0

        assert taken <= 5.0 + 2.0 * (clock.now - 1000.0) + 1e-6
