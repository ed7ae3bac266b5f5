"""Counting updates: those that arrive while a transaction is being committed share the next one."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from auricle.errors import StorageError
from auricle.wire.messages import Update
from auricle_cloud.link.batch import Batcher
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.blobs import BlobStore
from auricle_cloud.storage.store import Store

log = logging.getLogger("auricle.cloud")

Arrived = tuple[Update, bytes]
"""An update and its body."""


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
        self._gathering = Batcher[Arrived, Verdict](lambda arrived: self._commit(arrived))

    async def count(self, update: Update, body: bytes) -> Verdict:
        """Keep the body and count the update, both durably, if it may be counted; the body is the one it names.

        Raises
        ------
        StorageError
            It could not be committed: the device must not be told anything, so that it sends again.
        """
        return await self._gathering.add((update, body))

    def _commit(self, arrived: Sequence[Arrived]) -> list[Verdict]:
        """Bodies first: a counted update has its body on disk."""
        expected = self._store.updates.judge([update for update, _ in arrived], self._stale_limit)
        counting = [pair for pair, verdict in zip(arrived, expected, strict=True) if verdict.counts]
        if not counting:
            return expected
        self._blobs.put_all([body for _, body in counting], [update.body for update, _ in counting])
        said = self._store.updates.count([update for update, _ in counting], self._stale_limit)
        self._forget({update.body for (update, _), verdict in zip(counting, said, strict=True) if not verdict.counts})
        counted = iter(said)
        return [next(counted) if verdict.counts else verdict for verdict in expected]

    def _forget(self, bodies: set[str]) -> None:
        """Remove bodies that were kept for updates that do not count after all: no round would ever forget them."""
        if not bodies:
            return
        try:
            for body in bodies - self._store.models.in_use_by_any():
                self._blobs.remove(body)
        except StorageError as error:
            log.warning("bodies of updates that do not count stay until the next start: %s", error)
