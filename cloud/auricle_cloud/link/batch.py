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


class Batcher(Generic[T, R]):
    """Does the same to many, in a thread, a batch at a time.

    Parameters
    ----------
    work
        Given the items of a batch in the order of their arrival, returns a result for each; all or none of it is done.
        It is given single ones when the database refuses what is in one of them.
    pause
        Seconds for which others are waited for before a batch: at most, where `expects` is given, and else when the
        one before was not of a single item.
    expects
        Whether there are others to come; asked when an item comes.
    """

    def __init__(
        self,
        work: Callable[[Sequence[T]], Sequence[R]],
        pause: float = 0.0,
        expects: Callable[[], bool] | None = None,
    ) -> None:
        self._work, self._pause, self._crowded, self._expects = work, pause, False, expects
        self._whole = asyncio.Event()
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._working: asyncio.Task[None] | None = None

    async def add(self, item: T) -> R:
        """Do it to an item in the next batch, and return its result; whatever the work raises."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._expects is not None and (len(self._waiting) >= LARGEST or not self._expects()):
            self._whole.set()
        if self._working is None or self._working.done():
            self._working = start_task(self._empty(), log, "A batch")
        return await future

    async def _empty(self) -> None:
        while self._waiting:
            await self._gather()
            batch, self._waiting = self._waiting[:LARGEST], self._waiting[LARGEST:]
            self._crowded = len(batch) > 1
            answers = await asyncio.to_thread(self._answers, [item for item, _ in batch])
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    async def _gather(self) -> None:
        """Wait for those who share the next batch."""
        if self._expects is not None:
            with suppress(asyncio.TimeoutError):
                await within(self._whole.wait(), self._pause)
            self._whole.clear()
        elif self._crowded and self._pause:
            await asyncio.sleep(self._pause)

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
