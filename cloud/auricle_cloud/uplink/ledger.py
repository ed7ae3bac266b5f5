"""Counting updates: those that arrive while a transaction is being committed share the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from auricle.messages import Update
from auricle_cloud.storage.blobs import BlobStore
from auricle_cloud.storage.store import Store
from auricle_cloud.storage.update_records import Verdict

LARGEST_BATCH = 256


class Ledger:
    """Counts updates and says what became of each, after the commit.

    Parameters
    ----------
    store, blobs
        Where they are counted and where their bodies lie.
    stale_limit
        Of asynchronous rounds, see `Updates.count`.
    """

    def __init__(self, store: Store, blobs: BlobStore, stale_limit: int = 0) -> None:
        self._store, self._blobs, self._stale_limit = store, blobs, stale_limit
        self._waiting: list[tuple[Update, bytes, asyncio.Future[Verdict]]] = []
        self._working: asyncio.Task[None] | None = None

    async def count(self, update: Update, body: bytes) -> Verdict:
        """Keep the body and count the update, both durably, if it may be counted.

        Raises
        ------
        StorageError
            It could not be committed: the device must not be told anything, so that it sends again.
        """
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._waiting.append((update, body, future))
        if self._working is None or self._working.done():
            self._working = asyncio.ensure_future(self._work())
        return await future

    async def _work(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:LARGEST_BATCH], self._waiting[LARGEST_BATCH:]
            arrived = [(update, body) for update, body, _ in batch]
            try:
                verdicts = await asyncio.to_thread(self._commit, arrived)
            except Exception as error:  # noqa: BLE001 - every waiting handler has to hear of it
                for _, _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, _, future), verdict in zip(batch, verdicts, strict=True):
                if not future.done():
                    future.set_result(verdict)

    def _commit(self, arrived: Sequence[tuple[Update, bytes]]) -> list[Verdict]:
        """Bodies first: a counted update has its body on disk."""
        expected = self._store.updates.judge([update for update, _ in arrived], self._stale_limit)
        counting = [pair for pair, verdict in zip(arrived, expected, strict=True) if verdict.counts]
        if not counting:
            return expected
        self._blobs.put_all([body for _, body in counting])
        counted = iter(self._store.updates.count([update for update, _ in counting], self._stale_limit))
        return [next(counted) if verdict.counts else verdict for verdict in expected]
