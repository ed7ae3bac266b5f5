"""Counting updates a batch at a time: every one gets its own verdict, after the commit."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from tests.cloud.arrivals import PACK, TASK, begin, end_round, open_round, update

from auricle.errors import StorageError
from auricle_cloud.link import batch as batch_module
from auricle_cloud.link.ledger import Ledger
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.store import Store

WAIT = 20.0
DEVICES = [f"dev-{i:03}" for i in range(40)]


class SlowBlobs(Blobs):
    """A folder whose first batch is written when the test lets it, and that does something before each."""

    def __init__(self, folder: Path, before: Callable[[int], None] = lambda _: None) -> None:
        super().__init__(folder)
        self.batches: list[int] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self._before = before

    def put_all(self, blobs: Sequence[bytes], names: Sequence[str] | None = None) -> list[str]:
        self.batches.append(len(blobs))
        self.begun.set()
        assert self.go_on.wait(WAIT)
        self._before(len(self.batches))
        return super().put_all(blobs, names)


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def sent(ledger: Ledger, device: str, content: bytes | None = None, **more: Any) -> Coroutine[Any, Any, Verdict]:
    """What the ledger says about a body of this device, by default the one that bears its name."""
    content = body(device) if content is None else content
    return ledger.count(update(device, body=digest(content), **more), content)


def body(device: str) -> bytes:
    return device.encode().ljust(8)


async def first_then_the_rest(ledger: Ledger, blobs: SlowBlobs, rest: Sequence[str]) -> list[object]:
    """One update whose commit is under way while the rest arrives; what is said about each."""
    first = asyncio.ensure_future(sent(ledger, DEVICES[0]))
    assert await asyncio.to_thread(blobs.begun.wait, WAIT)
    others = [asyncio.ensure_future(sent(ledger, d)) for d in rest]
    await asyncio.sleep(0)
    blobs.go_on.set()
    done = await asyncio.wait_for(asyncio.gather(first, *others, return_exceptions=True), WAIT)
    return [verdict if isinstance(verdict, BaseException) else verdict.code for verdict in done]


def filled(store: Store, invited: int = 40) -> Store:
    begin(store, DEVICES)
    open_round(store, DEVICES[:invited])
    return store


@pytest.fixture
def full(store: Store) -> Store:
    return filled(store, 30)


def test_those_that_arrive_during_a_commit_share_the_next_with_own_verdicts(full: Store, tmp_path: Path) -> None:
    blobs = SlowBlobs(tmp_path / "blobs")
    rest = [*DEVICES[1:31], DEVICES[0], DEVICES[1]]

    said = asyncio.run(first_then_the_rest(Ledger(full, blobs), blobs, rest))

    assert said == ["accepted"] * 30 + ["rejected:not invited", "duplicate", "duplicate"]
    # The first alone; then all that may count in one batch, the repeated one among them.
    assert blobs.batches == [1, 30]
    counted = full.updates.counted(TASK, 1)
    assert [row.device for row in counted] == DEVICES[:30]
    assert [blobs.get(row.body) for row in counted] == [body(name) for name in DEVICES[:30]]


def test_a_batch_is_bounded(full: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "LARGEST", 8)
    blobs = SlowBlobs(tmp_path / "blobs")
    said = asyncio.run(first_then_the_rest(Ledger(full, blobs), blobs, DEVICES[1:21]))
    assert (said, blobs.batches) == (["accepted"] * 21, [1, 8, 8, 4])


def test_two_different_updates_in_one_batch_are_a_conflict(full: Store, tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    ledger = Ledger(full, blobs)

    async def scene() -> list[str]:
        bodies = [b"11111111", b"22222222", b"11111111"]
        each = [sent(ledger, DEVICES[0], one) for one in bodies]
        return [verdict.code for verdict in await asyncio.gather(*each)]

    assert asyncio.run(scene()) == ["accepted", "conflict", "duplicate"]
    assert [row.body for row in full.updates.counted(TASK, 1)] == [digest(b"11111111")]
    assert list(blobs.names()) == [digest(b"11111111")]


def test_a_commit_that_fails_fails_all_that_wait_for_it_and_later_ones_succeed(full: Store, tmp_path: Path) -> None:
    def fail(batch: int) -> None:
        if batch == 2:
            raise StorageError("The disk is full.")

    blobs = SlowBlobs(tmp_path / "blobs", fail)
    ledger = Ledger(full, blobs)

    async def scene() -> tuple[list[object], list[object]]:
        said = await first_then_the_rest(ledger, blobs, DEVICES[1:5])
        again = [sent(ledger, d, attempt=2) for d in DEVICES[:5]]
        return said, [verdict.code for verdict in await asyncio.gather(*again)]

    said, again = asyncio.run(scene())

    assert said[0] == "accepted"
    assert [str(error) for error in said[1:]] == ["The disk is full."] * 4
    assert again == ["duplicate", "accepted", "accepted", "accepted", "accepted"]


def test_one_that_the_database_refuses_does_not_spoil_those_it_came_with(tmp_path: Path) -> None:
    store, blobs = filled(Store(tmp_path / "c.db")), Blobs(tmp_path / "blobs")
    ledger = Ledger(store, blobs)
    with sqlite3.connect(tmp_path / "c.db") as other:
        other.execute(
            "CREATE TRIGGER spoilt BEFORE INSERT ON updates WHEN new.device = 'dev-003' "
            "BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        )

    async def scene(names: Sequence[str]) -> list[object]:
        each = [sent(ledger, d) for d in names]
        said = await asyncio.gather(*each, return_exceptions=True)
        return [str(one) if isinstance(one, BaseException) else one.code for one in said]

    first = asyncio.run(scene(DEVICES[:6]))
    counted = store.updates.counted_devices(TASK, 1)
    with sqlite3.connect(tmp_path / "c.db") as other:
        other.execute("DROP TRIGGER spoilt")
    again = asyncio.run(scene(DEVICES[:6]))

    assert [said for said in first if said != "accepted"] == [first[3]]
    assert "not this one" in str(first[3])
    assert counted == {*DEVICES[:3], *DEVICES[4:6]}
    assert again == ["duplicate"] * 3 + ["accepted"] + ["duplicate"] * 2
    store.close()


def test_a_disk_that_is_full_is_asked_once_and_not_for_each(tmp_path: Path) -> None:
    store, blobs = filled(Store(tmp_path / "c.db")), Blobs(tmp_path / "blobs")
    with store.database.writing() as tx:
        pages = tx.exec_driver_sql("PRAGMA page_count").scalar()
        tx.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    asked: list[str] = []
    sa.event.listen(store.database._engine, "begin", lambda _: asked.append("begin"))
    ledger = Ledger(store, blobs)

    async def scene() -> list[object]:
        each = [sent(ledger, d) for d in DEVICES]
        return await asyncio.gather(*each, return_exceptions=True)

    said = asyncio.run(scene())

    assert {type(error) for error in said} == {StorageError}
    assert "full" in str(said[0])
    assert len(asked) == 2  # to judge, and to count
    assert store.updates.counted_devices(TASK, 1) == set()
    store.close()


def test_nothing_counts_whose_body_was_not_kept(full: Store, tmp_path: Path) -> None:
    """A device gets its standing back after its update was judged and before the batch is counted."""
    full.devices.set_standing([DEVICES[1]], "quarantined", who="ana")

    def release(batch: int) -> None:
        if batch == 2:
            full.devices.set_standing([DEVICES[1]], "approved", who="ana")

    blobs = SlowBlobs(tmp_path / "blobs", release)

    said = asyncio.run(first_then_the_rest(Ledger(full, blobs), blobs, DEVICES[1:3]))

    assert said == ["accepted", "rejected:quarantined", "accepted"]
    for row in full.updates.counted(TASK, 1):
        blobs.get(row.body)
    assert full.updates.counted_devices(TASK, 1) == {DEVICES[0], DEVICES[2]}


def test_what_does_not_count_is_not_kept(full: Store, tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    full.rounds.move(TASK, 1, "collecting", "closing")
    verdict = asyncio.run(sent(Ledger(full, blobs), DEVICES[0]))
    assert (verdict.code, list(blobs.names())) == ("late", [])


@pytest.mark.parametrize("is_a_model", [False, True])
def test_a_body_written_too_late_stays_if_it_is_that_of_a_model(full: Store, tmp_path: Path, is_a_model: bool) -> None:
    blobs = SlowBlobs(tmp_path / "blobs", lambda _: full.rounds.move(TASK, 1, "collecting", "closing"))
    blobs.go_on.set()
    name = digest(body(DEVICES[0]))
    if is_a_model:
        full.models.begin("another task", PACK, name)
    verdict = asyncio.run(sent(Ledger(full, blobs), DEVICES[0]))
    assert (blobs.batches, verdict.code, list(blobs.names())) == ([1], "late", [name] if is_a_model else [])


def test_who_stops_waiting_does_not_disturb_the_others(full: Store, tmp_path: Path) -> None:
    blobs = SlowBlobs(tmp_path / "blobs")
    ledger = Ledger(full, blobs)

    async def scene() -> list[str]:
        each = [asyncio.ensure_future(sent(ledger, d)) for d in DEVICES[:3]]
        assert await asyncio.to_thread(blobs.begun.wait, WAIT)
        each[1].cancel()
        await asyncio.sleep(0)
        blobs.go_on.set()
        return [(await asyncio.wait_for(one, WAIT)).code for one in (each[0], each[2])]

    assert asyncio.run(scene()) == ["accepted", "accepted"]
    assert full.updates.counted_devices(TASK, 1) == set(DEVICES[:3])


@pytest.mark.parametrize(("limits", "counts"), [((), False), ((0,), False), ((1,), True)], ids=["none", "0", "1"])
def test_without_limit_no_update_is_stale(store: Store, tmp_path: Path, limits: tuple[int, ...], counts: bool) -> None:
    """One model was made since the one that the update started from."""
    begin(store)
    open_round(store, ["dev-a"], mode="async")
    end_round(store, 1, "1" * 64)
    open_round(store, ["dev-c"], 2, mode="async", base="1" * 64, version=1)
    blobs = Blobs(tmp_path / "blobs")

    verdict = asyncio.run(Ledger(store, blobs, *limits).count(update(body=digest(b"x" * 8)), b"x" * 8))

    assert (verdict.code, verdict.staleness, verdict.counts) == ("stale", 1, counts)
    assert list(blobs.names()) == ([digest(b"x" * 8)] if counts else [])


def test_what_a_round_waits_for_is_judged_once_and_kept_as_it_was_read(full: Store, tmp_path: Path) -> None:
    blobs, judged, kept = Blobs(tmp_path / "blobs"), [], []
    real = full.updates.judge
    full.updates.judge = lambda arrived, limit=0: judged.append(len(arrived)) or real(arrived, limit)  # type: ignore
    awaited = {*DEVICES[:2], DEVICES[35]}
    ledger = Ledger(
        full, blobs, awaited=lambda update: update.device in awaited, keep=lambda update, _: kept.append(update.device)
    )
    weights = np.zeros(2, np.float32)

    async def scene(*names: str) -> list[str]:
        each = [ledger.count(update(name, body=digest(body(name))), body(name), lambda: weights) for name in names]
        return [verdict.code for verdict in await asyncio.gather(*each)]

    assert asyncio.run(scene(*DEVICES[:2])) == ["accepted"] * 2
    assert (judged, kept) == ([], DEVICES[:2])
    assert asyncio.run(scene(DEVICES[0], DEVICES[2], DEVICES[35])) == ["duplicate", "accepted", "rejected:not invited"]
    assert (judged, kept) == ([1], DEVICES[:3])
    assert set(blobs.names()) == {digest(body(name)) for name in DEVICES[:3]}, "nothing is left of what did not count"
