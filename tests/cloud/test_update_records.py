"""Which update counts, in which round, and what its device is told; on SQLite and on PostgreSQL."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from tests.cloud.arrivals import BASE, BODY, TASK, begin, bring_to, end_round, open_round, register, update

from auricle.errors import StorageError
from auricle.wire.messages import Update
from auricle.wire.plan import Plan, SecureSum
from auricle_cloud.states.round import STATES, TAKING
from auricle_cloud.states.verdict import Verdict, staleness_weight
from auricle_cloud.storage.schema import sums
from auricle_cloud.storage.store import Store

WAIT = 20.0


def codes(store: Store, *arrived: Update, stale_limit: int = 0) -> list[str]:
    return [verdict.code for verdict in store.updates.count(list(arrived), stale_limit)]


# -- synchronous rounds


def test_the_verdicts(store: Store) -> None:
    begin(store, ["dev-a", "dev-b", "dev-x"])
    open_round(store, ["dev-a", "dev-b"])

    cases = (
        (update(), "accepted"),
        (update(), "duplicate"),
        (update(attempt=2), "duplicate"),
        (update(body="d" * 64), "conflict"),
        (update("dev-x"), "rejected:not invited"),
        (update("dev-y"), "rejected:not invited"),
        (update("dev-b", base="e" * 64), "rejected:base"),
        (update("dev-b", round=2), "rejected:round"),
        (update("dev-b", task="other"), "rejected:round"),
    )
    for sent, expected in cases:
        assert codes(store, sent) == [expected], sent
    store.rounds.move(TASK, 1, "collecting", "closing")
    assert codes(store, update("dev-b"), update(), update(body="d" * 64)) == ["late", "duplicate", "conflict"]
    (row,) = store.updates.counted(TASK, 1)
    assert (row.device, row.body, row.attempt, row.loss) == ("dev-a", BODY, 1, 1.5)


def test_all_verdicts_of_a_batch_are_those_of_one_after_the_other(store: Store) -> None:
    begin(store)
    open_round(store, ["dev-a", "dev-b"])

    verdicts = store.updates.count(
        [update(), update(), update(body="d" * 64), update("dev-c"), update("dev-b"), update("dev-b", attempt=2)]
    )

    counted, again, refused = ("accepted", True, 1), ("duplicate", False, 1), ("rejected:not invited", False, 0)
    said = [(v.code, v.counts, v.counted_in) for v in verdicts]
    assert said == [counted, again, ("conflict", False, 1), refused, counted, again]
    assert store.updates.counted_devices(TASK, 1) == {"dev-a", "dev-b"}
    assert store.updates.count([]) == []


def test_what_counted_in_another_round_or_task_or_of_another_device_is_no_duplicate(store: Store) -> None:
    begin(store)
    store.models.begin("u", "c" * 64, BASE)
    open_round(store, ["dev-a", "dev-b"])
    assert codes(store, update(), update("dev-b")) == ["accepted", "accepted"]
    end_round(store, 1, "1" * 64)
    open_round(store, ["dev-a"], 2, base="1" * 64, version=1)
    open_round(store, ["dev-a"], task="u")

    second, other = update(round=2, base="1" * 64), update(task="u")

    assert codes(store, second, other) == ["accepted", "accepted"]
    assert codes(store, second, other, update()) == ["duplicate"] * 3
    assert codes(store, update("dev-b", round=2, base="1" * 64), update("dev-b", task="u")) == [
        "rejected:not invited",
        "rejected:not invited",
    ]


def test_a_device_counts_in_a_secure_sum_that_it_is_part_of_in_this_round_and_task(store: Store) -> None:
    parts = {"dev-a": (TASK, 1, True), "dev-b": (TASK, 1, False), "dev-c": (TASK, 2, True), "dev-d": ("u", 1, True)}
    begin(store, parts)
    open_round(store, parts, plan=msgspec.msgpack.encode(Plan(secure_sum=SecureSum(id="5" * 32, bound=1.0))))
    with store.database.writing() as tx:
        for device, (task, number, part) in parts.items():
            row = {"task": task, "round": number, "device": device, "boxes": b"b", "masks": b"m", "part": part}
            tx.execute(sa.insert(sums).values(row))

    verdicts = store.updates.judge([update(device, sum="5" * 32) for device in parts])

    assert [v.code for v in verdicts] == ["accepted"] + ["rejected:sum"] * 3


def test_asking_for_a_verdict_changes_nothing(store: Store) -> None:
    begin(store)
    open_round(store, ["dev-a"])

    verdicts = store.updates.judge([update(), update(), update(round=7)])

    assert [v.code for v in verdicts] == ["accepted", "accepted", "rejected:round"]
    assert store.updates.counted(TASK, 1) == []


def test_in_which_state_of_the_round_an_update_counts(store: Store) -> None:
    begin(store)
    open_round(store, ["dev-a"])
    said = {}

    for state in STATES:
        bring_to(store, 1, state)
        (said[state],) = (verdict.code for verdict in store.updates.judge([update()]))

    expected = dict.fromkeys(STATES, "late") | dict.fromkeys(TAKING, "accepted") | {"aborted": "closed"}
    assert said == expected


@pytest.mark.parametrize("standing", ["pending", "quarantined", "revoked"])
def test_a_device_that_lost_its_standing_counts_no_more(store: Store, standing: str) -> None:
    begin(store)
    open_round(store, ["dev-a", "dev-b"])
    before = codes(store, update())
    store.devices.set_standing(["dev-a", "dev-b"], standing, who="ana")  # type: ignore[arg-type]

    after = codes(store, update("dev-b"), update(), update(body="d" * 64))

    assert before == ["accepted"]
    # What was counted before stays counted, and is still answered.
    assert after == [f"rejected:{standing}", "duplicate", "conflict"]


def test_counted_updates_come_in_the_order_of_devices_and_nan_is_unknown(store: Store) -> None:
    names = ["dev-c", "dev-a", "dev-b"]
    begin(store, names)
    open_round(store, names)

    codes(store, *(update(name, loss=loss) for name, loss in zip(names, (math.nan, math.inf, 0.5), strict=True)))

    kept = [(row.device, row.loss) for row in store.updates.counted(TASK, 1)]
    assert kept == [("dev-a", None), ("dev-b", 0.5), ("dev-c", None)]


def test_everything_an_update_says_is_kept(store: Store) -> None:
    begin(store)
    open_round(store, ["dev-a"])
    sent = dict.fromkeys(("samples", "steps", "held_out"), 1 << 40) | {"attempt": 3, "codec": "float16", "seconds": 1e9}
    sent |= {"personal_accuracy": 0.75, "plugin_accuracy": 0.0}

    codes(store, update(**sent))

    (row,) = store.updates.counted(TASK, 1)
    assert {name: getattr(row, name) for name in sent} == sent
    assert (row.counted_in, row.staleness) == (1, 0)


# -- asynchronous rounds


def stale_fleet(store: Store, models: int) -> None:
    """Two devices that were invited to round 1, since when so many models were made; the next round is open."""
    begin(store)
    open_round(store, ["dev-a", "dev-b"], mode="async")
    for number in range(1, models + 1):
        end_round(store, number, f"{number:064x}")
        open_round(store, ["dev-c"], number + 1, mode="async", base=f"{number:064x}", version=number)


@pytest.mark.parametrize("models", [0, 1, 3])
def test_staleness_counts_the_models_made_since_the_base(store: Store, models: int) -> None:
    stale_fleet(store, models)

    (verdict,) = store.updates.count([update()], stale_limit=3)

    expected = Verdict("stale" if models else "accepted", counts=True, staleness=models, counted_in=models + 1)
    assert verdict == expected
    assert verdict.weight == pytest.approx(1 / math.sqrt(1 + models), abs=0)
    (row,) = store.updates.counted(TASK, models + 1)
    assert (row.round, row.staleness, row.counted_in) == (1, models, models + 1)
    assert (store.updates.sent_for(TASK, 1), store.updates.counted_devices(TASK, models + 1)) == ({"dev-a"}, {"dev-a"})


def test_beyond_the_limit_an_update_is_told_that_it_is_stale_and_weighs_nothing(store: Store) -> None:
    stale_fleet(store, 3)

    (verdict,) = store.updates.count([update()], stale_limit=2)

    assert (verdict.code, verdict.counts, verdict.staleness, verdict.weight) == ("stale", False, 3, 0.0)
    assert store.updates.counted(TASK, 4) == []
    assert codes(store, update(), stale_limit=3) == ["stale"]
    assert codes(store, update(), stale_limit=3) == ["duplicate"]
    store.models.promote(TASK, 1, who="ana")  # models that an operator took back do not age an update
    (verdict,) = store.updates.count([update("dev-b")], stale_limit=1)
    assert (verdict.code, verdict.staleness) == ("stale", 1)


def test_between_asynchronous_rounds_nothing_is_open_and_a_round_without_a_model_takes_nothing(store: Store) -> None:
    begin(store)
    open_round(store, ["dev-a", "dev-b"], mode="async")
    store.rounds.plan(TASK, 1)
    store.rounds.move(TASK, 1, "collecting", "closing")

    assert codes(store, update(), update(round=2), stale_limit=9) == ["closed", "rejected:round"]


def test_a_device_may_be_in_one_buffer_twice_for_two_invitations(store: Store) -> None:
    begin(store)
    open_round(store, ["dev-a", "dev-b"], mode="async")
    end_round(store, 1, "1" * 64)
    open_round(store, ["dev-a"], 2, mode="async", base="1" * 64, version=1)

    said = codes(store, update(), update(round=2, base="1" * 64, body="d" * 64), stale_limit=1)

    assert said == ["stale", "accepted"]
    counted = [(row.device, row.round, row.staleness) for row in store.updates.counted(TASK, 2)]
    assert counted == [("dev-a", 1, 1), ("dev-a", 2, 0)]


def test_an_asynchronous_update_of_another_base_task_or_device_is_refused(store: Store) -> None:
    stale_fleet(store, 1)

    said = codes(store, update(base="9" * 64), update(task="other"), update("dev-c"), update(round=9), stale_limit=9)

    assert said == ["rejected:base", "rejected:round", "rejected:not invited", "rejected:round"]


@given(st.integers(0, 10**6))
def test_the_weight_falls_with_the_root_of_the_staleness(staleness: int) -> None:
    weight = staleness_weight(staleness)

    assert weight == pytest.approx((1 + staleness) ** -0.5, rel=1e-15)
    assert Verdict("stale", counts=True, staleness=staleness).weight == weight
    assert Verdict("accepted", counts=True).weight == 1.0


# -- at the same time


def test_of_two_that_count_the_same_update_at_once_one_does(place: Path | str) -> None:
    store, threads, rounds = Store(place), 4, 6
    begin(store)
    for number in range(1, rounds + 1):
        open_round(store, ["dev-a"], number, task=f"t{number}")
    together = threading.Barrier(threads)

    def count(number: int, body: str) -> str:
        together.wait(WAIT)
        return store.updates.count([update(task=f"t{number}", round=number, body=body)])[0].code

    with ThreadPoolExecutor(threads) as pool:
        said = [
            list(pool.map(count, [number] * threads, [BODY, BODY, BODY, "d" * 64])) for number in range(1, rounds + 1)
        ]

    for number, verdicts in enumerate(said, 1):
        (row,) = store.updates.counted(f"t{number}", number)
        others = ["duplicate", "duplicate", "conflict"] if row.body == BODY else ["conflict"] * 3
        assert sorted(verdicts) == sorted(["accepted", *others])
    store.close()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_an_update_that_was_accepted_is_in_the_set_that_closing_froze(place: Path | str, mode: str) -> None:
    """Counting stops between judging and entering, while the round is closed by another thread."""
    store = Store(place)
    begin(store)
    open_round(store, ["dev-a"], mode=mode)  # type: ignore[arg-type]
    entering, go_on = threading.Event(), threading.Event()

    def pause(_c: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT INTO updates"):
            entering.set()
            assert go_on.wait(WAIT)

    def close() -> set[str]:
        store.rounds.move(TASK, 1, "collecting", "closing")
        return store.updates.counted_devices(TASK, 1)

    sa.event.listen(store.database._engine, "before_cursor_execute", pause)
    with ThreadPoolExecutor(2) as pool:
        counting = pool.submit(store.updates.count, [update()])
        assert entering.wait(WAIT)
        closing = pool.submit(close)
        assert not wait([closing], 0.3).done  # it has to wait for the one that counts
        go_on.set()
        said = [verdict.code for verdict in counting.result(WAIT)]
        frozen = closing.result(WAIT)

    assert (said, frozen) == (["accepted"], {"dev-a"})
    assert codes(store, update("dev-a", body="d" * 64)) == ["conflict"]
    store.close()


def test_a_batch_that_cannot_be_committed_counts_nothing_of_it(store: Store) -> None:
    begin(store)
    open_round(store, ["dev-a", "dev-b"])
    broken = update("dev-b", codec=None)

    with pytest.raises(StorageError):
        store.updates.count([update(), broken])

    assert store.updates.counted(TASK, 1) == []
    assert codes(store, update(), update("dev-b")) == ["accepted", "accepted"]


def test_the_largest_numbers_a_message_can_carry_are_answered_like_others(store: Store) -> None:
    """A number that the database could not compare would spoil the batch for everybody in it."""
    begin(store)
    open_round(store, ["dev-a"])
    largest = update("dev-b", round=(1 << 31) - 1, attempt=1 << 20, epoch=1 << 40, length=1 << 40)

    assert codes(store, largest, update()) == ["rejected:round", "accepted"]
    assert store.devices.register(register("dev-z", samples=1 << 40), "pending")
