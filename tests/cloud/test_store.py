"""The coordinator's records together: a task's life over restarts, its journal and its outbox; on both databases."""

from __future__ import annotations

import ast
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.cloud.arrivals import BASE, PACK, TASK, begin, end_round, open_round, update

import auricle_cloud
from auricle.errors import StorageError
from auricle_cloud.states.outcome import OUTCOMES
from auricle_cloud.states.round import FINISHED
from auricle_cloud.storage.journal import AUDITED
from auricle_cloud.storage.schema import events
from auricle_cloud.storage.store import Store


def test_a_tasks_life_with_a_restart_after_every_step(place: Path | str) -> None:
    """Every step is done by a coordinator that knows nothing but the database."""
    seen = []

    def restarted() -> Store:
        store = Store(place, must_exist=isinstance(place, Path))
        store.database.take_over()
        return store

    steps: list[Callable[[Store], Any]] = [
        lambda s: begin(s, ["dev-a", "dev-b"]),
        lambda s: s.rounds.plan(TASK, 2),
        lambda s: open_round(s, ["dev-a", "dev-b"]),
        lambda s: s.updates.count([update()]),
        lambda s: s.updates.count([update(), update("dev-b", loss=0.5)]),
        lambda s: end_round(s, 1, "1" * 64),
        lambda s: s.journal.sent(s.journal.outgoing()[0].id),
        lambda s: open_round(s, ["dev-b"], 2, base="1" * 64, version=1),
        lambda s: s.updates.count([update("dev-b", round=2, base="1" * 64), update(round=1)]),
        lambda s: end_round(s, 2, "2" * 64),
        lambda s: s.models.promote(TASK, 1, who="ana"),
    ]
    for step in steps:
        store = restarted()
        step(store)
        due = store.rounds.due(TASK)
        seen.append("done" if due is None else f"{due.round} {due.state}")
        store.close()

    store = restarted()
    assert seen == [
        *("done", "1 planned", *["1 collecting"] * 3, *["2 planned"] * 2),
        *("2 collecting", "2 collecting", "done", "done"),
    ]
    assert store.database.epoch == len(steps) + 1
    assert [row.state for row in store.rounds.listed(TASK)] == ["published", "published"]
    assert {row.state for row in store.rounds.listed(TASK)} <= set(FINISHED)
    assert [(row.device, row.loss) for row in store.updates.counted(TASK, 1)] == [("dev-a", 1.5), ("dev-b", 0.5)]
    assert store.updates.counted_devices(TASK, 2) == {"dev-b"}
    assert [(row.version, row.parent) for row in store.models.all(TASK)] == [(2, 1), (1, 0), (0, None)]
    assert store.models.current(TASK).version == 1
    assert [entry.content for entry in store.journal.outgoing()] == [{"version": 2}, {"version": 1}]
    assert [row.selected for row in store.devices.all()] == [1, 2]
    store.close()


def test_the_journal_gives_the_newest_first_by_device_kind_and_page(store: Store) -> None:
    for number in range(1, 8):
        store.journal.note("a" if number % 2 else "b", device=f"dev-{number % 3}", number=number, detail="x" * 600)

    everything = store.journal.events()
    assert [event.round for event in everything] == [7, 6, 5, 4, 3, 2, 1]
    assert [event.round for event in store.journal.events(kind="b")] == [6, 4, 2]
    assert [event.round for event in store.journal.events(device="dev-1")] == [7, 4, 1]
    assert [event.round for event in store.journal.events(device="dev-1", kind="a")] == [7, 1]
    page = store.journal.events(limit=3)
    assert [event.round for event in store.journal.events(limit=2, before=page[-1].id)] == [4, 3]
    assert store.journal.events(kind="c") == []
    assert {len(event.detail) for event in everything} == {500}
    store.journal.trim(2)
    assert [event.round for event in store.journal.events()] == [7, 6, 5, 4]
    store.journal.trim(0)
    assert store.journal.events() == []


def test_no_kind_of_event_pushes_out_another(store: Store) -> None:
    """A device's conflicts, which it makes by the thousand, against what an auditor looks for."""
    old, now = time.time() - 500 * 86400, time.time()
    for kind, at in (("token created", old), ("revoked", now), ("registered", now)):
        store.journal.note(kind, who="anna")
        with store.database.writing() as tx:
            tx.execute(sa.update(events).where(events.c.kind == kind).values(at=at))
    for number in range(30):
        store.journal.note("conflict", device="dev-a", number=number)
    for _ in range(9):
        store.journal.note("revoked", device="dev-b", who="anna")

    store.journal.trim(5, 400.0)

    kept = Counter(event.kind for event in store.journal.events())
    assert kept == {"conflict": 5, "revoked": 10, "registered": 1}
    store.journal.trim(5, 0.0)
    assert Counter(event.kind for event in store.journal.events()) == {"conflict": 5, "registered": 1}


BY_DEVICES = {
    *(
        "registered",
        "claim refused",
        "join refused",
        "renewal refused",
        "certificate issued",
        "conflict",
        "loss set aside",
        "bounded",
    ),
    *("planned", "unplanned", "left out", "too slow", "not in quorum", "in quorum again", "learning"),
}
"""What a device can make happen, and plans, which a schedule makes every few minutes."""


def kinds_in_the_code() -> set[str]:
    """The kind of every event that the code names as it enters it."""
    package = Path(auricle_cloud.__file__).parent
    calls = [
        node
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("note", "note_each")
    ]
    first = [argument for call in calls for argument in call.args[:2] if isinstance(argument, ast.Constant)]
    by_outcome = {told.event for told in OUTCOMES.values() if told.event}
    return {argument.value for argument in first if isinstance(argument.value, str) and argument.value} | by_outcome


def test_every_event_that_a_device_cannot_make_is_kept_for_auditors() -> None:
    kinds = kinds_in_the_code()

    assert {"forgotten", "fleet made", "release key replaced", "certificate revoked"} <= AUDITED & kinds
    assert kinds - AUDITED == BY_DEVICES


def test_what_was_sent_leaves_the_outbox_and_the_rest_stays_in_order(store: Store) -> None:
    store.models.begin(TASK, PACK, BASE)
    for _ in range(3):
        store.models.promote(TASK, 0, who="ana")
    first, second, third = (entry.id for entry in store.journal.outgoing())

    store.journal.sent(second)
    store.journal.sent(second)

    assert [entry.id for entry in store.journal.outgoing()] == [first, third]
    assert first < third


def test_a_store_that_must_be_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no coordinator's database"):
        Store(tmp_path / "missing.db", must_exist=True)

    assert list(tmp_path.iterdir()) == []
