"""What arrives while a batch is worked on is worked on together: a commit costs a disk its time, not a statement."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from auricle.errors import StorageError
from auricle.mqtt_link.reconnection import within
from auricle.mqtt_link.tasks import start_task
from auricle_cloud.storage.database import Database

log = logging.getLogger("auricle.cloud")

T = TypeVar("T")
R = TypeVar("R")

LARGEST = 256
PAUSE_SECONDS = 0.5
"""Seconds that the first of a batch waits for others which are expected: a commit, and a thread that is woken, cost the
same for one as for ten. A device sends again after 10 s."""


class Batcher(Generic[T, R]):
    """Does the same to many, in a thread, a batch at a time.

    Parameters
    ----------
    work
        Given the items of a batch in the order of their arrival, returns a result for each; all or none of it is done.
        It is given single ones when the database refuses what is in one of them.
    expects
        Asked when an item comes, with how many are in hand then: whether there are others to come, for which the first
        of a batch waits at most `PAUSE_SECONDS`. Without it no item waits.
    """

    def __init__(
        self,
        work: Callable[[Sequence[T]], Sequence[R]],
        expects: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._work, self._expects = work, expects
        self._in_hand, self._due = 0, 0.0
        self._whole = asyncio.Event()
        """Set when those that wait are not to wait any longer."""
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._working: asyncio.Task[None] | None = None

    async def add(self, item: T) -> R:
        """Do it to an item in the next batch, and return its result; whatever the work raises."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        if not self._waiting:
            self._due = loop.time() + PAUSE_SECONDS
        self._waiting.append((item, future))
        self._in_hand += 1
        if not self._expects(self._in_hand):
            self._whole.set()
        if self._working is None or self._working.done():
            self._working = start_task(self._empty(), log, "A batch")
        try:
            return await future
        finally:
            self._in_hand -= 1

    async def _empty(self) -> None:
        while self._waiting:
            left = self._due - asyncio.get_running_loop().time()
            if left > 0 and not self._whole.is_set():
                with suppress(asyncio.TimeoutError):
                    await within(self._whole.wait(), left)
            batch, self._waiting = self._waiting[:LARGEST], self._waiting[LARGEST:]
            if not self._waiting:
                self._whole.clear()
            answers = await asyncio.to_thread(self._answers, [item for item, _ in batch])
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def _answers(self, items: Sequence[T]) -> Sequence[R | Exception]:
        try:
            return self._work(items)
        except Exception as error:  # noqa: BLE001 - each one who waits has to hear of it
            if len(items) > 1 and _of_one(error):
                return [answer for item in items for answer in self._answers([item])]
            return [error] * len(items)


def _of_one(error: Exception) -> bool:
    """Whether a single item may be to blame, and not a disk, a database or a coordinator that has taken over."""
    if isinstance(error, StorageError):
        return isinstance(error.__cause__, sa.exc.DBAPIError) and not isinstance(
            error.__cause__, sa.exc.OperationalError
        )
    return True


class Batch:
    """Runs small writes in shared transactions.

    Parameters
    ----------
    database
        Where they are written.
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        self._gathering = Batcher[Callable[[sa.Connection], Any], Any](self._commit)

    async def run(self, write: Callable[[sa.Connection], T]) -> T:
        """Run a write in the next transaction; its result once that is committed.

        It may be run again on its own when the database refuses another one of the same transaction.

        Raises
        ------
        StorageError
            It was not committed.
        """
        result: T = await self._gathering.add(write)
        return result

    def _commit(self, writes: Sequence[Callable[[sa.Connection], Any]]) -> list[Any]:
        with self._db.writing() as tx:
            return [write(tx) for write in writes]
