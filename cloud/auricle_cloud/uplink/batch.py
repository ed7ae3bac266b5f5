"""Small writes that arrive together share one transaction: a commit costs a disk its time, not a statement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa

from auricle_cloud.storage.database import Database

T = TypeVar("T")

LARGEST = 256


class Batch:
    """Runs writes in shared transactions.

    Parameters
    ----------
    database
        Where they are written.
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        self._waiting: list[tuple[Callable[[sa.Connection], Any], asyncio.Future[Any]]] = []
        self._working: asyncio.Task[None] | None = None

    async def run(self, write: Callable[[sa.Connection], T]) -> T:
        """Run a write in the next transaction; its result once that is committed.

        It may be run again on its own when another one of the same transaction fails.

        Raises
        ------
        StorageError
            It was not committed.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((write, future))
        if self._working is None or self._working.done():
            self._working = asyncio.ensure_future(self._work())
        return await future

    async def _work(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:LARGEST], self._waiting[LARGEST:]
            answers = await asyncio.to_thread(self._commit, [write for write, _ in batch])
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def _commit(self, writes: list[Callable[[sa.Connection], Any]]) -> list[Any]:
        try:
            with self._db.writing() as tx:
                return [write(tx) for write in writes]
        except Exception as error:  # noqa: BLE001 - each one who waits has to hear of it
            return [error] if len(writes) == 1 else [answer for write in writes for answer in self._commit([write])]
