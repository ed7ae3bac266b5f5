"""What is decided about rounds, with numbers worked out by hand: no process, no database, no clock."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.wire.messages import WORSE
from auricle_cloud.rounds.policy import (
    Answers,
    Timing,
    closing_decision,
    devices_invited,
    first_state,
    idle_devices,
    is_buffer_full,
    is_late,
    is_question_over,
    oldest_counting,
    quorum_of,
    total_failure,
    uncounted_as,
    updates_wanted,
)
from auricle_cloud.states.round import STATES
from auricle_cloud.states.verdict import Verdict, verdict_behind, verdict_in

TIMING = Timing(quorum=0.6, deadline=60.0, patience=2.0, least_wait=5.0)


def answers(answered: int, *, online: int | None = None, **changes: Any) -> Answers:
    """Of five that were invited, with which all are wanted."""
    told = {"invited": 5, "wanted": 5, "answered": answered, "outstanding": 5 - answered, **changes}
    return Answers(online=told["outstanding"] if online is None else online, **told)


@pytest.mark.parametrize(
    ("available", "participation", "over", "fewest", "wanted", "invited"),
    [
        (10, 1.0, 1.0, 1, 10, 10),
        (10, 0.5, 1.3, 1, 5, 7),  # 6.5 is rounded up
        (10, 0.5, 1.4, 1, 5, 7),  # 7.000000000000001 is not
        (10, 0.01, 1.0, 1, 1, 1),
        (4, 0.5, 3.0, 1, 2, 4),  # there are no more
        (5, 0.2, 1.0, 3, 3, 3),  # a secure sum is of at least so many
    ],
)
def test_how_many_are_wanted_and_invited(
    available: int, participation: float, over: float, fewest: int, wanted: int, invited: int
) -> None:
    assert updates_wanted(available, participation, fewest) == wanted
    assert devices_invited(available, wanted, over) == invited


@pytest.mark.parametrize(
    ("invited", "share", "fewest", "quorum"),
    [(10, 0.7, 1, 7), (10, 0.71, 1, 8), (5, 0.6, 1, 3), (3, 0.0, 1, 1), (3, 0.5, 3, 3), (0, 1.0, 1, 1)],
)
def test_a_quorum_is_a_share_rounded_up(invited: int, share: float, fewest: int, quorum: int) -> None:
    assert quorum_of(invited, share, fewest) == quorum


def test_what_follows_planned() -> None:
    ways = {(s, t): first_state(secure_sum=s, two_phase=t) for s in (False, True) for t in (False, True)}
    assert ways == {
        (False, False): "inviting",
        (False, True): "losses",
        (True, False): "keys",
        (True, True): "keys",
    }
    assert first_state(secure_sum=False, two_phase=True, losses=False) == "alarm"
    assert first_state(secure_sum=False, two_phase=False, losses=False) == "inviting"


@pytest.mark.parametrize(
    ("told", "now", "reached", "step", "until", "when"),
    [
        (answers(0), 100.0, None, "wait", 160.0, None),
        (answers(2), 159.9, None, "wait", 160.0, None),  # the quorum is three
        (answers(3), 110.0, None, "wait", 130.0, 110.0),  # it took 10 s: it waits 20 s more
        (answers(3), 101.0, None, "wait", 106.0, 101.0),  # at least 5 s
        (answers(4), 129.9, 110.0, "wait", 130.0, 110.0),  # another one changes nothing
        (answers(4), 130.0, 110.0, "close", 130.0, 110.0),
        (answers(3), 150.0, None, "wait", 160.0, 150.0),  # never past the deadline
        (answers(3), 160.0, None, "close", 160.0, 160.0),
        (answers(5), 101.0, None, "close", 106.0, 101.0),  # all
        (answers(3, wanted=3), 101.0, None, "close", 106.0, 101.0),  # as many as were wanted
        (answers(2, wanted=2), 101.0, None, "wait", 160.0, None),  # but no quorum
        (answers(3, online=0), 101.0, None, "close", 106.0, 101.0),  # the others have gone
        (answers(2, online=0), 101.0, None, "wait", 160.0, None),  # they may come back
        (answers(4, readable=False), 101.0, None, "wait", 160.0, None),  # no shares of the secure sum yet
        (answers(4, readable=False), 120.0, 110.0, "wait", 160.0, 110.0),
    ],
)
def test_a_round_waits_or_closes(
    told: Answers, now: float, reached: float | None, step: str, until: float, when: float | None
) -> None:
    decision = closing_decision(told, TIMING, began=100.0, now=now, quorum_at=reached)
    assert (decision.step, decision.until, decision.quorum_at, decision.reason) == (step, until, when, "")


@pytest.mark.parametrize(
    ("told", "needed"),
    [
        (answers(0), 5),
        (answers(4), 5),
        (answers(5), 5),
        (answers(1, wanted=3), 3),  # more were invited
        (answers(4, wanted=3), 4),
        (answers(1, wanted=3, online=1), 2),  # the others have gone
        (answers(1, wanted=3, outstanding=0), 1),  # or failed
        (answers(3, wanted=3, slow=1), 5),  # for whom it waits
    ],
)
def test_with_how_many_answers_a_round_closes_before_its_time(told: Answers, needed: int) -> None:
    assert told.needed == needed


@pytest.mark.parametrize(
    ("told", "now", "reason"),
    [
        (answers(2), 160.0, "deadline"),
        (answers(2, outstanding=0), 101.0, "nobody is left"),
        (answers(0, outstanding=0), 160.0, "deadline"),
        (answers(5, readable=False), 101.0, "nobody is left"),
    ],
)
def test_a_round_is_given_up(told: Answers, now: float, reason: str) -> None:
    decision = closing_decision(told, TIMING, began=100.0, now=now, quorum_at=None)
    assert decision.step == "give up" and reason in decision.reason


@given(
    st.integers(1, 20).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))),
    st.floats(0.0, 1.0),
    st.floats(0.0, 200.0),
)
def test_nothing_waits_past_its_deadline_and_no_model_is_made_without_a_quorum(
    counts: tuple[int, int, int], quorum: float, now: float
) -> None:
    invited, answered, wanted = counts
    left = invited - answered
    told = Answers(invited=invited, wanted=wanted, answered=answered, outstanding=left, online=left)
    decision = closing_decision(told, Timing(quorum, 60.0, 2.0, 5.0), began=0.0, now=now, quorum_at=None)
    assert decision.until <= 60.0
    assert (decision.step == "wait") <= (now < decision.until)
    assert (decision.step == "close") <= (answered >= quorum_of(invited, quorum))
    assert (decision.step == "give up") <= (answered < quorum_of(invited, quorum))


@pytest.mark.parametrize(
    ("waited", "online", "enough", "now", "is_over"),
    [
        ("", "ab", False, 0.0, True),
        ("ab", "ab", False, 9.9, False),
        ("ab", "ab", False, 20.0, True),  # with any answers
        ("ab", "ab", True, 9.9, False),
        ("ab", "ab", True, 10.0, True),  # with enough
        ("ab", "c", True, 0.0, True),  # the others have gone
        ("ab", "c", False, 10.0, False),  # they are needed
    ],
)
def test_a_question_waits(waited: str, online: str, enough: bool, now: float, is_over: bool) -> None:
    assert is_question_over(set(waited), set(online), enough=enough, now=now, until=10.0, last=20.0) == is_over


def test_a_buffer_closes_when_it_is_full_or_nothing_more_is_to_be_waited_for() -> None:
    assert [is_buffer_full(count, 10) for count in (0, 9, 10, 11)] == [False, False, True, True]
    assert [is_buffer_full(count, 10, is_late=True) for count in (0, 1)] == [False, True]
    assert [is_buffer_full(count, 10, is_nobody_left=True) for count in (0, 1)] == [False, True]
    assert [is_late(100.0, now, 60.0) for now in (100.0, 160.0, 160.1)] == [False, False, True]


def test_who_is_idle_in_an_asynchronous_round() -> None:
    idle, left = idle_devices({"a", "b", "c"}, {"a", "x"}, {"b", "y"})
    assert (idle, left) == ({"c"}, {"b", "c"})
    assert [oldest_counting(number, 20) for number in (1, 21, 22, 30)] == [1, 1, 2, 10]


def test_a_round_fails_only_where_all_devices_do_and_none_of_them_judged_it() -> None:
    failure = total_failure(3, ["a", "b"], {"a": "no room", "b": "disk"})
    assert failure is not None and "round 3: disk" in failure
    assert total_failure(3, ["a", "b"], {"a": "no room"}) is None
    assert total_failure(3, ["a", "b"], {"a": "no room", "b": f"{WORSE} than before"}) is None
    assert total_failure(3, [], {}) is None


def test_what_an_uncounted_update_makes_of_its_invitation() -> None:
    codes = ("late", "closed", "rejected:norm", "accepted", "duplicate", "conflict", "stale")
    assert [uncounted_as(code) for code in codes] == ["late", "late", "refused", None, None, None, None]


def test_an_update_counts_while_its_round_takes_it_and_is_late_after() -> None:
    said = {state: verdict_in(state, 7) for state in STATES}
    accepted = Verdict("accepted", counts=True, counted_in=7)
    assert {state for state, verdict in said.items() if verdict == accepted} == {"inviting", "collecting"}
    assert said["aborted"] == Verdict("closed")
    assert {verdict.code for state, verdict in said.items() if state not in ("inviting", "collecting", "aborted")} == {
        "late"
    }


def test_how_stale_an_update_is_and_what_it_weighs() -> None:
    assert verdict_behind(0, 3, 7) == Verdict("accepted", counts=True, counted_in=7)
    assert verdict_behind(3, 3, 7) == Verdict("stale", counts=True, staleness=3, counted_in=7)
    assert verdict_behind(3, 3, 7).weight == 0.5
    assert verdict_behind(4, 3, 7) == Verdict("stale", staleness=4)
    assert verdict_behind(4, 3, 7).weight == 0.0
    assert verdict_behind(0, 3, None) == Verdict("closed")
