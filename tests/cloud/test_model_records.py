"""Models: versions, which one is current, what retention keeps; on SQLite and on PostgreSQL."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.cloud.arrivals import BASE, BODY, PACK, TASK, begin, end_round, open_round, update

from auricle.errors import StorageError
from auricle.wire.plan import Lent
from auricle_cloud.storage.rows import LENT
from auricle_cloud.storage.store import Store


def blob(number: int) -> str:
    return f"{number:064x}"


def add(store: Store, content: int, **more: Any) -> int:
    fields = {"optimizer": None, "origin": "round", "number": None, **more}
    with store.database.writing() as tx:
        return store.models.add(tx, TASK, blob(content), **fields)


def test_a_task_is_begun_once_and_belongs_to_its_pack(store: Store) -> None:
    with pytest.raises(StorageError, match="There is no task t yet"):
        store.models.current(TASK)

    store.models.begin(TASK, PACK, BASE)
    store.models.begin(TASK, PACK, "9" * 64)
    with pytest.raises(StorageError, match=PACK[:12]):
        store.models.begin(TASK, "d" * 64, BASE)
    store.models.begin("other", "d" * 64, BASE)

    current = store.models.current(TASK)
    assert (current.version, current.blob, current.origin, current.parent) == (0, BASE, "first", None)
    tasks = [(row.task, row.pack, row.current) for row in store.models.tasks()]
    assert tasks == [("other", "d" * 64, 0), (TASK, PACK, 0)]


def test_a_model_and_the_report_of_its_round_come_together_and_once(store: Store) -> None:
    begin(store)
    open_round(store, ["dev-a"])
    store.rounds.move(TASK, 1, "collecting", "closing")

    for _ in range(2):
        try:
            with store.rounds.moving(TASK, 1, "closing", "aggregated", report={"made": True}) as tx:
                store.models.add(tx, TASK, "1" * 64, optimizer="2" * 64, origin="round", number=1)
        except StorageError as error:
            assert "is not closing any more" in str(error)

    current, last = store.models.current(TASK), store.rounds.newest(TASK)
    assert last is not None
    assert (current.version, current.blob, current.optimizer) == (1, "1" * 64, "2" * 64)
    assert (current.parent, current.round, current.origin) == (0, 1, "round")
    assert (last.state, store.rounds.report(TASK, 1)) == ("aggregated", {"made": True})
    assert [(e.kind, e.subject, e.content) for e in store.journal.outgoing()] == [("model", TASK, {"version": 1})]
    assert [row.version for row in store.models.all(TASK)] == [1, 0]


def test_versions_go_on_counting_whatever_is_current(store: Store) -> None:
    begin(store)
    first, second = add(store, 1, accuracy=0.5, loss=1.25), add(store, 2)
    store.models.promote(TASK, 1, who="ana", kind="rolled back", reason="worse")

    third = add(store, 3, origin="repair", number=3)
    fourth = add(store, 4, parent=2)

    assert (first, second, third, fourth) == (1, 2, 3, 4)
    rows = {row.version: row for row in store.models.all(TASK)}
    assert [rows[v].parent for v in (1, 2, 3, 4)] == [0, 1, 1, 2]
    assert (rows[1].accuracy, rows[1].loss, rows[2].accuracy) == (0.5, 1.25, None)
    assert store.models.current(TASK).version == 4
    (event,) = store.journal.events(kind="rolled back")
    assert (event.task, event.who, event.detail) == (TASK, "ana", "version 1 worse")
    store.models.judged(TASK, 2, 0.875, 0.25)
    assert [(row.accuracy, row.loss) for row in store.models.all(TASK)][2:4] == [(0.875, 0.25), (0.5, 1.25)]


def test_promoting_is_published_and_what_is_not_there_cannot_be(store: Store) -> None:
    begin(store)
    add(store, 1)
    for entry in store.journal.outgoing():
        store.journal.sent(entry.id)

    store.models.promote(TASK, 0, who="ana")
    with pytest.raises(StorageError, match="no version 7"):
        store.models.promote(TASK, 7, who="ana")

    assert [entry.content for entry in store.journal.outgoing()] == [{"version": 0}]
    assert store.models.current(TASK).version == 0


def test_the_model_of_a_round_is_the_one_its_updates_made(store: Store) -> None:
    begin(store)
    open_round(store, ["dev-a"])
    end_round(store, 1, blob(1))
    add(store, 2, origin="repair", number=1)

    made = store.models.of_round(TASK, 1)

    assert made is not None and (made.version, made.blob) == (1, blob(1))
    assert store.models.of_round(TASK, 2) is None


def test_retention_gives_up_all_but_the_first_the_current_and_the_newest(store: Store) -> None:
    begin(store)
    for number in range(1, 8):
        add(store, number)
    store.models.promote(TASK, 3, who="ana")

    superseded = store.models.superseded(TASK, keep=2)
    store.models.drop(TASK, superseded)

    assert superseded == [5, 4, 2, 1]
    assert [row.version for row in store.models.all(TASK)] == [7, 6, 3, 0]
    assert store.models.superseded(TASK, keep=2) == []
    assert store.models.superseded("other", keep=2) == []
    assert add(store, 8) == 8
    with pytest.raises(StorageError, match="no version 5"):
        store.models.get(TASK, 5)


def test_files_of_models_and_of_updates_still_needed_are_in_use(store: Store) -> None:
    begin(store)
    open_round(store, ["dev-a"])
    store.updates.count([update()])
    store.rounds.move(TASK, 1, "collecting", "closing")
    with store.rounds.moving(TASK, 1, "closing", "aggregated") as tx:
        store.models.add(tx, TASK, blob(1), optimizer=blob(9), origin="round", number=1)
    store.rounds.move(TASK, 1, "aggregated", "published")
    open_round(store, ["dev-a"], 2, base=blob(1), version=1)
    store.updates.count([update(round=2, base=blob(1), body="d" * 64)])

    collecting = store.models.in_use(TASK)
    end_round(store, 2, blob(2))
    later = store.models.in_use(TASK)

    # Detection may still ask for the updates of the round that made the current model.
    assert collecting == {BASE, blob(1), blob(9), BODY, "d" * 64}
    assert later == {BASE, blob(1), blob(9), blob(2), "d" * 64}
    assert store.models.in_use("other") == set()


def test_a_base_that_no_model_has_is_in_use_until_its_round_is_finished(store: Store) -> None:
    begin(store)
    open_round(store, ["dev-a"], base=blob(77))

    during = store.models.in_use(TASK)
    store.rounds.move(TASK, 1, "collecting", "aborted")

    assert (during, store.models.in_use(TASK)) == ({BASE, blob(77)}, {BASE})


def test_what_a_round_lends_is_in_use_until_it_is_finished_and_stays_in_its_report(store: Store) -> None:
    begin(store)
    open_round(store, ["dev-a"])
    lent = Lent(blob=blob(5), length=9, chunks=1)
    with store.database.writing() as tx:
        store.rounds.note_report(tx, TASK, 1, {LENT: msgspec.to_builtins(lent)})

    during = store.models.in_use(TASK)
    store.rounds.move(TASK, 1, "collecting", "aborted")

    assert (during, store.models.in_use(TASK)) == ({BASE, blob(5)}, {BASE})
    assert store.rounds.get(TASK, 1).lent == lent
    with store.database.writing() as tx:
        store.rounds.note_report(tx, TASK, 1, {LENT: {"blob": "no hash"}})
    with pytest.raises(StorageError, match="What a round lent cannot be read"):
        _ = store.rounds.get(TASK, 1).lent


def test_a_round_goes_back_only_from_the_newest_model_if_a_round_made_it(store: Store) -> None:
    begin(store)
    assert store.models.before(TASK, 0) is None
    add(store, 1)
    add(store, 2)
    assert store.models.before(TASK, 2) == 1
    assert store.models.before(TASK, 1) is None

    with store.database.writing() as tx:
        store.models.go_back(tx, TASK, 1, 3, "worse")
    assert store.models.current(TASK).version == 1
    assert store.models.before(TASK, 1) is None
    add(store, 3)
    assert store.models.get(TASK, 3).parent == 1
    assert store.models.before(TASK, 3) == 1

    add(store, 4, origin="repaired")
    assert store.models.before(TASK, 4) is None
