"""Counting updates: those of a round that come within half a second are checked and counted together."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence

from auricle.errors import StorageError, WireError
from auricle.wire.messages import Update
from auricle.wire.tensors import Flat
from auricle_cloud.link.batch import Batcher
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.blobs import BlobStore
from auricle_cloud.storage.database_errors import MovedOnError
from auricle_cloud.storage.store import Store

log = logging.getLogger("auricle.cloud")

Arrived = tuple[Update, bytes, Callable[[], "Flat | None"]]
"""An update, its body, and what reads the weights (P,) in it; see `Ledger.count`."""


class Ledger:
    """Counts updates and says what became of each, after the commit.

    Parameters
    ----------
    store, blobs
        Where they are counted and where their bodies lie.
    stale_limit
        Of asynchronous rounds, see `Updates.count`.
    awaited
        Whether an update is one that a round waits for, as far as is known without the database: it is judged once,
        when it is counted. Any other is judged before its body is kept as well.
    row
        Where the weights (P,) of an update are to be decoded; None: anywhere.
    keep
        Called, in a thread, with each update that was counted and its weights (P,).
    expects
        See `Batcher`.
    """

    def __init__(
        self,
        store: Store,
        blobs: BlobStore,
        stale_limit: int = 0,
        *,
        awaited: Callable[[Update], bool] = lambda _: False,
        row: Callable[[Update], Flat | None] = lambda _: None,
        keep: Callable[[Update, Flat], None] = lambda _update, _weights: None,
        expects: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._store, self._blobs, self._stale_limit = store, blobs, stale_limit
        self._awaited, self.row, self._keep = awaited, row, keep
        self._gathering = Batcher[Arrived, "Verdict | WireError"](lambda arrived: self._check(arrived), expects)

    async def count(self, update: Update, body: bytes, read: Callable[[], Flat | None] = lambda: None) -> Verdict:
        """Check the body, keep it and count the update, both durably, if it may be counted.

        Parameters
        ----------
        read
            Called in a thread, since the mathematics of a large model would hold up everybody else's messages: returns
            the weights (P,) of the body, or None where it holds more or they are not known yet, and raises what is
            wrong with it.

        Raises
        ------
        WireError
            As `read` raised it: the update is not counted.
        StorageError
            It could not be committed: the device must not be told anything, so that it sends again.
        """
        said = await self._gathering.add((update, body, read))
        assert isinstance(said, Verdict), "what is an error was raised"
        return said

    def _check(self, arrived: Sequence[Arrived]) -> list[Verdict | WireError]:
        """The verdict of each, or what is wrong with its body."""
        said: list[Verdict | WireError | None] = []
        sound: list[tuple[Update, bytes, Flat | None]] = []
        for update, body, read in arrived:
            try:
                sound.append((update, body, read()))
                said.append(None)
            except WireError as error:
                said.append(error)
        verdicts = iter(self._commit(sound) if sound else ())
        return [next(verdicts) if each is None else each for each in said]

    def _commit(self, arrived: Sequence[tuple[Update, bytes, Flat | None]]) -> list[Verdict]:
        """Bodies first: a counted update has its body on disk."""
        expected = self._verdicts_of([update for update, _, _ in arrived])
        counting = [each for each, verdict in zip(arrived, expected, strict=True) if verdict is None]
        if not counting:
            return [verdict for verdict in expected if verdict is not None]
        said = self._keep_and_count(counting)
        wasted = set()
        for (update, _, weights), verdict in zip(counting, said, strict=True):
            if not verdict.counts:
                wasted.add(update.body)
            elif weights is not None:
                self._keep(update, weights)
        self._forget(wasted)
        counted = iter(said)
        return [next(counted) if verdict is None else verdict for verdict in expected]

    def _keep_and_count(self, counting: Sequence[tuple[Update, bytes, Flat | None]]) -> list[Verdict]:
        """Keep the bodies, and count; again where files were removed in between that no row named yet."""
        updates = [update for update, _, _ in counting]
        while True:
            since = self._store.database.mark
            self._blobs.put_all([body for _, body, _ in counting], [update.body for update in updates])
            with contextlib.suppress(MovedOnError):
                return self._store.updates.count(updates, self._stale_limit, since)

    def _verdicts_of(self, updates: Sequence[Update]) -> list[Verdict | None]:
        """What becomes of updates that are not to be counted; None for those that may be."""
        doubtful = [update for update in updates if not self._awaited(update)]
        verdicts = iter(self._store.updates.judge(doubtful, self._stale_limit) if doubtful else ())
        known = {id(update): next(verdicts) for update in doubtful}
        return [None if (found := known.get(id(update))) is None or found.counts else found for update in updates]

    def _forget(self, bodies: set[str]) -> None:
        """Remove bodies that were kept for updates that do not count after all: no round would ever forget them."""
        if not bodies:
            return
        try:
            self._blobs.remove_all(bodies - self._store.models.in_use_by_any())
        except StorageError as error:
            log.warning("bodies of updates that do not count stay until the next start: %s", error)
