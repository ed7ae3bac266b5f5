"""When a round of the virtual engine closes: by hand, and as a coordinator's does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle_fleet.emulation.virtual_clock import Pace, answered, lasted

PACE = Pace(quorum=0.5, deadline=60.0, patience=2.0, least=5.0)


def test_everybody_who_answers_at_once_counts() -> None:
    assert answered({"a": 0.0, "b": 0.0, "c": 0.0}, 3, 3, PACE) == ["a", "b", "c"]


def test_a_round_waits_so_many_times_as_long_as_its_quorum_took() -> None:
    """Two of four after 10 s: the round waits 20 s more, for the third and not for the fourth."""
    times = {"a": 4.0, "b": 10.0, "c": 30.0, "d": 30.1}
    assert answered(times, 4, 4, PACE) == ["a", "b", "c"]


def test_the_least_wait_counts_where_the_quorum_came_at_once() -> None:
    assert answered({"a": 0.0, "b": 0.0, "c": 5.0, "d": 5.1}, 4, 4, PACE) == ["a", "b", "c"]


def test_no_quorum_at_the_deadline_gives_the_round_up() -> None:
    assert answered({"a": 1.0, "b": 61.0}, 4, 4, PACE) is None
    assert answered({}, 4, 4, PACE) is None


def test_over_selection_closes_with_the_first_that_answer() -> None:
    assert answered({"a": 3.0, "b": 1.0, "c": 2.0, "d": 9.0}, 4, 2, PACE) == ["b", "c"]


@given(
    st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.floats(0, 100), max_size=12),
    st.integers(0, 6),
    st.integers(1, 12),
)
def test_whoever_counts_answered_in_time_and_before_everybody_who_does_not(
    times: dict[str, float], silent: int, wanted: int
) -> None:
    invited = len(times) + silent
    found = answered(times, max(invited, 1), wanted, PACE)
    if found is None:
        assert sum(at <= PACE.deadline for at in times.values()) < max(1, -(-max(invited, 1) // 2))
        return
    assert all(times[name] <= PACE.deadline for name in found)
    last = max(times[name] for name in found)
    assert all(times[name] >= last for name in times.keys() - set(found))


@pytest.mark.parametrize("quorum", [0.1, 0.7, 1.0])
def test_a_quorum_is_rounded_up(quorum: float) -> None:
    """As a coordinator does it: 0.7 of ten are seven, not eight by a rounding error."""
    pace = Pace(quorum=quorum, deadline=60.0)
    count = round(10 * quorum)
    times = {str(k): 1.0 for k in range(count)}
    assert answered(times, 10, 10, pace) is not None
    assert answered(dict(list(times.items())[1:]), 10, 10, pace) is None


def test_a_round_lasts_until_nobody_is_waited_for() -> None:
    assert lasted({"a": 4.0, "b": 10.0}, ["a", "b"], {}, 2, 2, PACE) == 10.0
    assert lasted({"a": 4.0, "b": 10.0}, ["a", "b"], {}, 4, 2, PACE) == 10.0  # over-selected: enough are there
    assert lasted({"a": 4.0, "b": 10.0}, ["a", "b"], {}, 4, 4, PACE) == 30.0  # two are waited for in vain
    assert lasted({"a": 4.0, "b": 10.0}, ["a", "b"], {"c": 3.0, "d": 12.0}, 4, 4, PACE) == 12.0  # these two failed
    assert lasted({"a": 4.0, "b": 10.0}, ["a", "b"], {"c": 3.0, "d": 50.0}, 4, 4, PACE) == 30.0  # too late to wait for
    assert lasted({"a": 4.0}, None, {}, 4, 4, PACE) == 60.0
    assert lasted({"a": 4.0}, None, {"b": 1.0, "c": 6.0, "d": 2.0}, 4, 4, PACE) == 6.0  # nobody is left
    assert lasted({"a": 4.0, "b": 70.0}, None, {"c": 6.0, "d": 2.0}, 4, 4, PACE) == 60.0
