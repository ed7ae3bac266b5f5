"""Small writes in shared transactions: each has its own answer; on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from auricle.errors import StorageError
from auricle_cloud.link import batch as batch_module
from auricle_cloud.link.batch import Batch, Batcher
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.database_errors import SupersededError
from auricle_cloud.storage.journal import note
from auricle_cloud.storage.schema import events

WAIT = 20.0


def kinds(database: Database) -> list[str]:
    with database.reading() as tx:
        return list(tx.execute(sa.select(events.c.kind).order_by(events.c.id)).scalars())


def run(database: Database, *names: str | None) -> list[object]:
    """Write an event of each kind while the transaction of the first is held open; what each was told."""
    commits: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    def write(tx: sa.Connection, name: str | None) -> str | None:
        if not commits:
            begun.set()
            assert go_on.wait(WAIT)
        commits.append(1)
        tx.execute(events.insert().values(kind=name, at=0))
        return name

    async def scene() -> list[object]:
        batch = Batch(database)
        first = asyncio.ensure_future(batch.run(lambda tx: write(tx, names[0])))
        assert await asyncio.to_thread(begun.wait, WAIT)
        rest = [asyncio.ensure_future(batch.run(lambda tx, name=name: write(tx, name))) for name in names[1:]]  # type: ignore[misc]
        await asyncio.sleep(0)
        go_on.set()
        return await asyncio.wait_for(asyncio.gather(first, *rest, return_exceptions=True), WAIT)

    return asyncio.run(scene())


def test_writes_that_come_together_share_a_transaction_and_one_that_fails_spoils_none(place: Path | str) -> None:
    database = Database(place)
    commits: list[object] = []
    sa.event.listen(database._engine, "commit", commits.append)

    assert run(database, *"abcdefgh") == list("abcdefgh")
    assert len(commits) == 2
    said = run(database, "i", "j", None, "k", None)
    assert [answer if isinstance(answer, str) else type(answer) for answer in said] == [
        *("i", "j", StorageError, "k", StorageError)
    ]
    assert kinds(database) == list("abcdefghijk")
    database.close()


def test_those_that_fail_with_the_whole_batch_are_not_tried_one_by_one() -> None:
    tried: list[int] = []

    def work(items: Sequence[int]) -> list[int]:
        tried.append(len(items))
        raise StorageError("The disk is full.")

    async def scene() -> list[object]:
        gathering = Batcher[int, int](work)
        return await asyncio.gather(*(gathering.add(item) for item in range(9)), return_exceptions=True)

    assert [str(said) for said in asyncio.run(scene())] == ["The disk is full."] * 9
    assert tried == [9]


def test_a_coordinator_that_was_overtaken_writes_none(place: Path | str) -> None:
    old, new = Database(place), Database(place)
    old.take_over()
    new.take_over()

    async def scene() -> list[object]:
        batch = Batch(old)
        writes = [batch.run(lambda tx: note(tx, "never")) for _ in range(3)]
        return await asyncio.gather(*writes, return_exceptions=True)

    assert [type(answer) for answer in asyncio.run(scene())] == [SupersededError] * 3
    assert kinds(new) == []
    old.close()
    new.close()


def test_those_that_are_expected_share_a_batch_and_nobody_is_waited_for_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pause is longer than the test may take: only that nobody else is expected ends it."""
    monkeypatch.setattr(batch_module, "PAUSE_SECONDS", 10 * WAIT)
    batches: list[list[str]] = []
    begun, go_on = threading.Event(), threading.Event()

    def work(items: Sequence[str]) -> Sequence[str]:
        batches.append(list(items))
        begun.set()
        assert go_on.wait(WAIT)
        return items

    async def scene() -> None:
        wanted = 4
        gathering = Batcher[str, str](work, lambda in_hand: in_hand < wanted)
        waiting = [asyncio.ensure_future(gathering.add(item)) for item in "abcd"]
        assert await asyncio.to_thread(begun.wait, WAIT)
        wanted = 6
        waiting += [asyncio.ensure_future(gathering.add(item)) for item in "ef"]
        await asyncio.sleep(0)  # four are worked on, and are in hand as much as these
        go_on.set()
        assert await asyncio.wait_for(asyncio.gather(*waiting), WAIT) == list("abcdef")
        wanted = 1
        assert await asyncio.wait_for(gathering.add("last"), WAIT) == "last"

    asyncio.run(scene())
    assert batches == [["a", "b", "c", "d"], ["e", "f"], ["last"]]


def test_those_that_are_expected_are_not_waited_for_longer_than_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "PAUSE_SECONDS", 0.001)

    async def scene() -> None:
        gathering = Batcher[str, str](lambda items: items, lambda _: True)
        assert await asyncio.wait_for(gathering.add("a"), WAIT) == "a"

    asyncio.run(scene())
