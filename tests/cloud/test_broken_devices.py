"""A device of which rounds running bring nothing that counts does not hold up the others, until it is mended."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.cloud.arrivals import BASE, TASK, begin, end_round, open_round, update

from auricle_cloud.rounds.policy import Answers, Timing, closing_decision
from auricle_cloud.rounds.rule_events import broken_told, note_broken, note_mended
from auricle_cloud.states.attendance import broken_devices, brought_nothing
from auricle_cloud.states.report import Document
from auricle_cloud.storage.store import Store

DEVICES = ("dev-a", "dev-b", "dev-c")
TIMING = Timing(quorum=0.7, deadline=60.0, patience=2.0, least_wait=5.0)
NO_QUORUM: Document = {"reason": "no quorum at the deadline"}


@pytest.mark.parametrize(
    ("state", "given_up", "answered", "speaks"),
    [
        ("refused", False, 2, True),
        ("failed", True, 0, True),
        ("declined", True, 2, False),
        ("invited", False, 2, False),
        ("invited", True, 2, True),
        ("late", True, 2, True),
        ("invited", True, 1, False),  # most were silent: that is no device's own fault
    ],
)
def test_what_of_a_round_speaks_against_a_device(state: str, given_up: bool, answered: int, speaks: bool) -> None:
    assert brought_nothing(state, given_up=given_up, answered=answered, invited=3) is speaks


def test_after_three_rounds_a_quorum_is_made_of_the_others() -> None:
    assert broken_devices({"b": range(4), "a": range(3), "c": range(2)}) == {"a": 3, "b": 4}
    two = Answers(invited=3, wanted=3, answered=2, outstanding=0, online=0)
    decisions = [
        closing_decision(answers, TIMING, began=0.0, now=1.0, quorum_at=None).step
        for answers in (two, Answers(3, 3, 2, 0, online=0, broken=1), Answers(3, 3, 1, 0, online=0, broken=1))
    ]
    assert decisions == ["give up", "close", "give up"]


def test_an_event_comes_after_3_6_and_12_rounds() -> None:
    assert [rounds for rounds in range(30) if broken_told({"dev-a": rounds})] == [3, 6, 12, 24]


def ran(
    store: Store, number: int, states: Mapping[str, str], *, published: bool = False, report: Document = NO_QUORUM
) -> None:
    """A round of all devices, whose invitations ended like this; `counted`: an update of it came."""
    open_round(store, DEVICES, number)
    for name, state in states.items():
        if state == "counted":
            store.updates.count([update(name, round=number, base=BASE)])
        elif state != "invited":
            store.rounds.mark_failed(TASK, number, name, state, "values: not finite")
    if published:
        end_round(store, number, f"{number:064d}")
    else:
        store.rounds.move(TASK, number, "collecting", "aborted", report=report)


def test_refusals_are_counted_since_the_last_update_that_counts_also_after_a_restart(store: Store) -> None:
    begin(store, DEVICES)
    for number in (1, 2, 3):
        ran(store, number, {"dev-a": "counted", "dev-b": "counted", "dev-c": "refused"})
    assert store.attendance.nothing(TASK, 4, DEVICES, 48) == {"dev-c": [1, 2, 3]}
    assert store.attendance.nothing(TASK, 4, DEVICES, 2) == {"dev-c": [2, 3]}
    assert store.attendance.nothing(TASK, 4, DEVICES[:2], 48) == {}
    ran(store, 4, {"dev-a": "counted", "dev-b": "declined", "dev-c": "failed"}, published=True)
    assert store.attendance.nothing(TASK, 5, DEVICES, 48) == {"dev-c": [1, 2, 3, 4]}
    ran(store, 5, {"dev-a": "counted", "dev-b": "counted", "dev-c": "counted"}, published=True)
    ran(store, 6, {"dev-a": "counted", "dev-b": "counted", "dev-c": "refused"}, published=True)
    assert store.attendance.nothing(TASK, 7, DEVICES, 48) == {"dev-c": [6]}


def test_silence_speaks_against_a_device_where_it_alone_ended_rounds(store: Store) -> None:
    begin(store, DEVICES)
    ran(store, 1, {"dev-a": "counted", "dev-b": "counted", "dev-c": "invited"})
    ran(store, 2, {"dev-a": "counted", "dev-b": "invited", "dev-c": "invited"})
    ran(store, 3, {"dev-a": "counted", "dev-b": "counted", "dev-c": "late"}, published=True)
    ran(store, 4, {"dev-a": "counted", "dev-b": "counted", "dev-c": "invited"}, report={"reason": "by an operator"})
    ran(store, 5, {"dev-a": "counted", "dev-b": "counted", "dev-c": "late"})
    assert store.attendance.nothing(TASK, 6, DEVICES, 48) == {"dev-c": [1, 5]}


def test_events_name_who_does_not_count_and_who_counts_again(store: Store) -> None:
    with store.database.writing() as tx:
        note_broken(tx, {"dev-a": 3, "dev-b": 4}, task=TASK, number=7)
        note_mended(tx, {"dev-a": 3}, ["dev-b", "dev-a"], task=TASK, number=8)
    events = [(event.kind, event.device, event.round) for event in store.journal.events()]
    assert events == [("in quorum again", "dev-a", 8), ("not in quorum", "dev-a", 7)]
