"""Rounds: planned, moved along the allowed ways only, and what changes with each move; on SQLite and PostgreSQL."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.cloud.arrivals import BASE, TASK, begin, bring_to, end_round, open_round, update
from tests.cloud.postgres import Server

from auricle.errors import StorageError
from auricle.wire.messages import WORSE, Loss
from auricle_cloud.states.round import FINISHED, STATES, TRANSITIONS, State, label
from auricle_cloud.storage.journal import put_out
from auricle_cloud.storage.store import Store

WAIT = 20.0


def states(store: Store) -> dict[int, str]:
    return {row.round: row.state for row in store.rounds.listed(TASK)}


# -- planning


def test_planned_rounds_follow_each_other(store: Store) -> None:
    first = store.rounds.plan(TASK, 2, who="ana")
    second = store.rounds.plan(TASK, 1, mode="async")
    other = store.rounds.plan("other", 1)
    store.rounds.plan_up_to(TASK, 2)
    store.rounds.plan_up_to(TASK, 5)

    assert (first, second, other) == ([1, 2], [3], [1])
    assert states(store) == dict.fromkeys([5, 4, 3, 2, 1], "planned")
    rows = [store.rounds.get(TASK, number) for number in (1, 3)]
    assert [(r.mode, r.asked_by, r.report) for r in rows] == [("sync", "ana", None), ("async", "", None)]
    events = [(e.round, e.who, e.detail) for e in store.journal.events(kind="planned")]
    assert events == [(4, "", "2 rounds"), (1, "", "1 round"), (3, "", "1 round"), (1, "ana", "2 rounds")]


def test_what_is_planned_beyond_a_round_is_forgotten_and_what_has_begun_stays(store: Store) -> None:
    store.rounds.plan(TASK, 4)
    store.rounds.plan("other", 4)
    store.rounds.move(TASK, 1, "planned", "inviting")

    store.rounds.unplan(TASK, 0, who="ana")
    store.rounds.unplan(TASK, 2)
    store.rounds.plan_up_to(TASK, 3)

    assert states(store) == {3: "planned", 2: "planned", 1: "inviting"}
    assert len(store.rounds.listed("other")) == 4
    assert [(e.round, e.who) for e in store.journal.events(kind="unplanned")] == [(1, "ana")]


def test_of_those_that_plan_at_once_each_gets_its_own_rounds(place: Path | str) -> None:
    """On PostgreSQL both would read the same last number, and one of them fail at the other's."""
    one, other = Store(place), Store(place)
    together = threading.Barrier(3)

    def plan(store: Store) -> list[int]:
        together.wait(WAIT)
        return [number for _ in range(20) for number in store.rounds.plan(TASK, 3)]

    def plan_up_to(number: int) -> None:
        together.wait(WAIT)
        for last in range(1, number):
            one.rounds.plan_up_to(TASK, last)

    with ThreadPoolExecutor(3) as pool:
        first, second, rest = pool.submit(plan, one), pool.submit(plan, other), pool.submit(plan_up_to, 60)
        numbers = first.result(WAIT) + second.result(WAIT)
        rest.result(WAIT)

    assert len(numbers) == len(set(numbers)) == 120
    known = sorted(row.round for row in one.rounds.listed(TASK, limit=1000))
    assert set(numbers) <= set(known) and known == list(range(1, len(known) + 1))
    one.close()
    other.close()


def test_who_plans_while_another_does_waits_for_its_numbers(server: Server) -> None:
    url = server.lend()
    one, other = Store(url), Store(url)

    with ThreadPoolExecutor(1) as pool:
        with one.database.writing() as tx:
            one.rounds._enter(tx, TASK, [one.rounds._last(tx, TASK) + 1], "sync", "ana")
            waiting = pool.submit(other.rounds.plan, TASK, 2)
            server.wait_blocked(url)
            assert not waiting.done()
        numbers = waiting.result(WAIT)

    assert numbers == [2, 3]
    one.close()
    other.close()
    server.take_back(url)


def test_the_newest_round_has_begun_and_the_due_one_is_not_finished(store: Store) -> None:
    begin(store)
    assert (store.rounds.newest(TASK), store.rounds.due(TASK)) == (None, None)
    store.rounds.plan(TASK, 3)
    first = store.rounds.due(TASK)
    assert store.rounds.newest(TASK) is None and first is not None and first.round == 1
    open_round(store, ["dev-a"], 1)
    end_round(store, 1, "1" * 64)
    store.rounds.move(TASK, 2, "planned", "aborted")

    newest, due = store.rounds.newest(TASK), store.rounds.due(TASK)
    assert newest is not None and (newest.round, newest.state) == (2, "aborted")
    assert due is not None and (due.round, due.state) == (3, "planned")
    assert store.rounds.due("other") is None


def test_rounds_are_listed_a_page_at_a_time_without_what_is_large(store: Store) -> None:
    store.rounds.plan(TASK, 7)

    first = store.rounds.listed(TASK, limit=3)
    second = store.rounds.listed(TASK, limit=10, before=first[-1].round)

    assert [row.round for row in first + second] == [7, 6, 5, 4, 3, 2, 1]
    assert not hasattr(first[0], "report") and not hasattr(first[0], "plan")
    assert store.rounds.listed("other") == []


def test_what_is_not_there_is_said(store: Store) -> None:
    store.rounds.plan(TASK, 1)

    with pytest.raises(StorageError, match="report"):
        store.rounds.report(TASK, 1)
    for ask in (store.rounds.get, store.rounds.report, lambda *which: store.rounds.request(*which, "abort", who="ana")):
        with pytest.raises(StorageError, match="round 2"):
            ask(TASK, 2)


# -- moving


def test_every_way_there_is_can_be_gone_and_is_announced_before_and_after(place: Path | str) -> None:
    other = Store(place)
    seen: list[tuple[str, dict[int, str]]] = []
    store = Store(place, probe=lambda what: seen.append((what, states(other))))
    store.rounds.plan(TASK, len(TRANSITIONS))

    for number, (old, new) in enumerate(TRANSITIONS, 1):
        bring_to(store, number, old)
        seen.clear()
        with store.rounds.moving(TASK, number, old, new, report={"reason": old}) as tx:
            put_out(tx, "model", TASK, n=number)

        row = store.rounds.get(TASK, number)
        assert (row.state, row.report) == (new, {"reason": old})
        assert (row.closed is not None) == (new in ("closing", "aborted"))
        assert store.journal.outgoing()[-1].content == {"n": number}
        # Before the transaction others see the old state, after it the new one.
        assert [(what, saw[number]) for what, saw in seen] == [
            (f"before {label(old, new)}", old),
            (f"after {label(old, new)}", new),
        ]

    assert len(store.journal.outgoing()) == len(TRANSITIONS)
    store.close()
    other.close()


def test_every_other_way_is_refused_before_anything_is_touched(place: Path | str) -> None:
    seen: list[str] = []
    store = Store(place, probe=seen.append)
    store.rounds.plan(TASK, 1)
    closed_ways = [pair for pair in itertools.product(STATES, STATES) if pair not in TRANSITIONS]

    for old, new in closed_ways:
        with pytest.raises(StorageError, match=f"cannot go from {old} to {new}"):
            store.rounds.move(TASK, 1, old, new, report={"never": True})

    assert len(closed_ways) == len(STATES) ** 2 - len(set(TRANSITIONS)) == 120
    assert {old for old, _ in TRANSITIONS} == set(STATES) - set(FINISHED)
    assert {new for _, new in TRANSITIONS} == set(STATES) - {"planned"}
    row = store.rounds.get(TASK, 1)
    assert (row.state, row.report, seen) == ("planned", None, [])
    store.close()


def test_moving_from_another_state_than_it_has_refuses_and_changes_nothing(place: Path | str) -> None:
    seen: list[str] = []
    store = Store(place, probe=seen.append)
    begin(store)
    store.rounds.plan(TASK, 1)

    for old, new in TRANSITIONS:
        if old == "planned":
            continue
        with (
            pytest.raises(StorageError, match=f"not {old} any more"),
            store.rounds.moving(TASK, 1, old, new, report={"never": True}) as tx,
        ):
            put_out(tx, "model", TASK)
    with pytest.raises(StorageError, match="Round 9 of t is not planned"):
        store.rounds.move(TASK, 9, "planned", "inviting")

    row = store.rounds.get(TASK, 1)
    assert (row.state, row.closed, row.report, store.journal.outgoing()) == ("planned", None, None, [])
    assert all(what.startswith("before") for what in seen)
    store.close()


def test_a_move_whose_company_fails_did_not_happen(place: Path | str) -> None:
    seen: list[str] = []
    store = Store(place, probe=seen.append)
    begin(store)
    store.rounds.plan(TASK, 1)

    with pytest.raises(ZeroDivisionError), store.rounds.moving(TASK, 1, "planned", "inviting", base=BASE) as tx:
        store.rounds.invite(tx, TASK, 1, ["dev-a"])
        put_out(tx, "model", TASK)
        raise ZeroDivisionError

    row = store.rounds.get(TASK, 1)
    assert (row.state, row.base, store.rounds.invited(TASK, 1)) == ("planned", None, {})
    assert (store.devices.get("dev-a").selected, store.journal.outgoing()) == (0, [])
    assert seen == ["before planned -> inviting"]
    store.rounds.move(TASK, 1, "planned", "inviting")
    store.close()


def test_a_model_its_report_and_its_rounds_state_change_together_or_not_at_all(store: Store) -> None:
    begin(store)
    open_round(store, ["dev-a"])
    store.rounds.move(TASK, 1, "collecting", "closing")

    with (
        pytest.raises(StorageError),
        store.rounds.moving(TASK, 1, "closing", "aggregated", report={"made": True}) as tx,
    ):
        store.models.add(tx, TASK, "1" * 64, optimizer=None, origin="round", number=1)
        store.models.add(tx, TASK, None, optimizer=None, origin="round", number=1)  # type: ignore[arg-type]

    assert store.models.current(TASK).version == 0
    assert (store.rounds.get(TASK, 1).state, store.journal.outgoing()) == ("closing", [])
    with pytest.raises(StorageError, match="no report"):
        store.rounds.report(TASK, 1)


def test_of_two_that_move_a_round_at_once_one_does(place: Path | str) -> None:
    store = Store(place)
    store.rounds.plan(TASK, 8)
    together = threading.Barrier(2)

    def move(number: int, new: State) -> str:
        together.wait(WAIT)
        try:
            store.rounds.move(TASK, number, "planned", new)
        except StorageError:
            return "refused"
        return new

    with ThreadPoolExecutor(2) as pool:
        for number in range(1, 9):
            said = sorted(pool.map(move, [number] * 2, ["inviting", "aborted"]))
            assert said in (["inviting", "refused"], ["aborted", "refused"])
            assert states(store)[number] in said

    store.close()


def test_numbers_that_are_none_do_not_keep_a_report_from_being_written(store: Store) -> None:
    store.rounds.plan(TASK, 1)

    store.rounds.move(TASK, 1, "planned", "aborted", report={"loss": float("nan"), "deviation": [float("inf"), 1.5]})

    report = store.rounds.report(TASK, 1)
    assert report == {"loss": None, "deviation": [None, 1.5]}


# -- requests


def test_what_an_operator_asks_is_kept_until_the_round_is_finished(store: Store) -> None:
    store.rounds.plan(TASK, 1)

    row = store.rounds.request(TASK, 1, "abort", who="ana", reason="wrong pack")
    asked = store.rounds.get(TASK, 1).request
    store.rounds.request(TASK, 1, None, who="bob")
    taken_back = store.rounds.get(TASK, 1).request
    store.rounds.move(TASK, 1, "planned", "aborted")

    assert (row.state, asked, taken_back) == ("planned", "abort", None)
    with pytest.raises(StorageError, match="Round 1 of t is already aborted"):
        store.rounds.request(TASK, 1, "abort", who="ana")
    events = [(e.kind, e.who, e.round, e.detail) for e in store.journal.events()][:2]
    assert events == [("resumed", "bob", 1, ""), ("abort", "ana", 1, "wrong pack")]


# -- cohorts and losses


def test_a_cohort_is_entered_once_and_counts_as_a_selection(store: Store) -> None:
    begin(store, ["dev-a", "dev-b", "dev-c"])
    open_round(store, ["dev-b", "dev-a"])

    late = [store.rounds.invite_late(TASK, 1, name) for name in ("dev-c", "dev-c", "dev-a")]

    assert late == [True, False, False]
    assert list(store.rounds.invited(TASK, 1)) == ["dev-a", "dev-b", "dev-c"]
    assert [row.selected for row in store.devices.all()] == [1, 1, 1]
    assert store.rounds.invited(TASK, 2) == {}
    many = [*(f"dev-{i:05}" for i in range(1200)), "dev-a", "dev-b", "dev-c"]
    open_round(store, many, 2)
    assert list(store.rounds.invited(TASK, 2)) == many
    assert [row.selected for row in store.devices.all()] == [2, 2, 2]


def test_who_gave_up_is_kept_with_the_reason(store: Store) -> None:
    begin(store)
    open_round(store, ["dev-a", "dev-b"])

    store.rounds.mark_failed(TASK, 1, "dev-a", "failed", "no clips")
    store.rounds.mark_failed(TASK, 1, "dev-b", "declined", "x\0" * 150)
    store.rounds.mark_failed(TASK, 1, "dev-z", "failed", "nobody asked")

    invited = store.rounds.invited(TASK, 1)
    said = {name: (row.state, row.reason) for name, row in invited.items()}
    assert said == {"dev-a": ("failed", "no clips"), "dev-b": ("declined", "x" * 100)}
    # An update that comes all the same counts: presence and excuses are hints.
    assert [verdict.code for verdict in store.updates.count([update()])] == ["accepted"]


def test_a_device_whose_update_counts_has_not_failed_whatever_it_says_later(store: Store) -> None:
    begin(store)
    open_round(store, ["dev-a", "dev-b"])
    assert [verdict.code for verdict in store.updates.count([update(device="dev-a")])] == ["accepted"]

    devices = ("dev-a", "dev-b", "dev-z")

    assert [store.rounds.mark_failed(TASK, 1, name, "refused", "far") for name in devices] == [False, True, False]
    invited = store.rounds.invited(TASK, 1).values()
    assert [(row.state, row.reason) for row in invited] == [("invited", None), ("refused", "far")]


def test_losses_are_kept_by_model_from_invited_devices_only(store: Store) -> None:
    begin(store)
    open_round(store, ["dev-a", "dev-b"])

    def add(device: str, loss: float | None, samples: int = 1, **changes: Any) -> bool:
        fields = {"fleet": "f", "boot": "b", "task": TASK, "round": 1, "epoch": 1, "base": BASE, **changes}
        message = Loss(device=device, loss=0.0, samples=samples, **fields)
        with store.database.writing() as tx:
            return store.rounds.enter_loss(tx, message, loss)

    said = [add("dev-b", 0.5, 10), add("dev-a", None, 1 << 40), add("dev-z", 0.1)]
    said += [add("dev-a", 0.1, round=2), add("dev-a", 0.1, task="other")]
    first = store.rounds.losses(TASK, 1, BASE)
    add("dev-b", 0.25, 11, base="9" * 64)

    assert said == [True, True, False, False, False]
    known = {name: (row.loss, row.samples) for name, row in first.items()}
    assert known == {"dev-a": (None, 1 << 40), "dev-b": (0.5, 10)}
    assert list(store.rounds.losses(TASK, 1, BASE)) == ["dev-a"]
    assert store.rounds.losses(TASK, 1, "9" * 64)["dev-b"].loss == 0.25


# -- over restarts


def test_a_round_and_its_report_survive_a_restart(place: Path | str) -> None:
    first = Store(place)
    begin(first)
    open_round(first, ["dev-b", "dev-a"])
    first.rounds.move(TASK, 1, "collecting", "aborted", report={"reason": "no quorum"})
    open_round(first, ["dev-a"], 2, plan=b"plan2")
    first.close()

    second = Store(place, must_exist=isinstance(place, Path))
    last = second.rounds.newest(TASK)

    assert last is not None
    assert (last.round, last.state, last.base, last.plan) == (2, "collecting", BASE, b"plan2")
    assert list(second.rounds.invited(TASK, 2)) == ["dev-a"]
    assert second.rounds.report(TASK, 1) == {"reason": "no quorum"}
    assert second.rounds.newest("other") is None
    with pytest.raises(StorageError, match="Round 2 of t has no report"):
        second.rounds.report(TASK, 2)
    second.close()


# -- what a device can make the database do


def test_an_update_that_is_not_counted_is_written_once_however_often_it_comes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(store)
    open_round(store, ["dev-a", "dev-b"])
    store.updates.count([update("dev-b")])
    writing, begun = store.database.writing, []

    def counted() -> AbstractContextManager[sa.Connection]:
        begun.append(1)
        return writing()

    monkeypatch.setattr(store.database, "writing", counted)
    said = [
        store.rounds.mark_uncounted(TASK, 1, device, state, reason)
        for device, state, reason in (
            ("dev-a", "refused", "norm: too far"),
            *[("dev-a", "refused", f"values: {number}") for number in range(20)],
            ("dev-a", "late", "closed"),
            ("dev-c", "late", "never invited"),
        )
    ]

    assert said == [True] + 22 * [False]
    assert not store.rounds.mark_uncounted(TASK, 1, "dev-b", "refused", "norm: too far")
    assert len(begun) == 1
    row = store.rounds.invited(TASK, 1)["dev-a"]
    assert (row.state, row.reason) == ("refused", "norm: too far")
    assert store.rounds.invited(TASK, 1)["dev-b"].state == "invited"


def test_a_device_that_declined_rests_for_a_while(store: Store) -> None:
    begin(store)
    store.rounds.plan(TASK, 1000)  # rounds that are planned count for nothing
    with store.database.writing() as tx:
        store.rounds.invite(tx, TASK, 1, ["dev-a", "dev-b", "dev-c"])
    now = time.time()
    store.rounds.mark_failed(TASK, 1, "dev-a", "declined", "It has 0 labelled clips.")
    store.rounds.mark_failed(TASK, 1, "dev-b", "failed", "disk full")
    store.rounds.mark_failed(TASK, 1, "dev-c", "declined", f"{WORSE}trained")  # the next model may suit it

    (said,) = store.rounds.resting(TASK, now + 1).values()

    assert "30 seconds" in said and said.endswith("It has 0 labelled clips.")
    assert store.rounds.resting(TASK, now + 31) == {}
    assert store.rounds.resting(TASK, now - 3600) == {}  # the clock was set back
    assert store.rounds.resting("other", now + 1) == {}
