"""Updates in the database: which count, in which round, and with which verdict a device is answered."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from auricle.wire.messages import Update
from auricle_cloud.states.learning import Held
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.database_errors import MovedOnError
from auricle_cloud.storage.rows import UpdateRow
from auricle_cloud.storage.schema import invitations, updates
from auricle_cloud.storage.verdicts import UpdateJudge

COPIED = tuple(
    c.name
    for c in updates.columns
    if c.name not in ("received", "loss", "counted_in", "staleness", "unsupervised", "left_out", "vectors")
)


class _OvertakenError(Exception):
    """An update was counted by somebody else between judging and entering it."""


class Updates:
    """Counted updates; one for each (task, round, device)."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def judge(self, arrived: Sequence[Update], stale_limit: int = 0) -> list[Verdict]:
        """What counting each of these would say; nothing is changed."""
        with self._db.reading() as tx:
            judge = UpdateJudge(tx, arrived, stale_limit)
            return [judge.judge(update) for update in arrived]

    def count(
        self, arrived: Sequence[Update], stale_limit: int = 0, since: tuple[int | None, str] | None = None
    ) -> list[Verdict]:
        """Count those that may be, in one transaction; their bodies must be stored already.

        Parameters
        ----------
        arrived
            Updates in the order of their arrival.
        stale_limit
            Of asynchronous rounds: how many models ago an update may have started.
        since
            The database's `mark` before the bodies were stored.

        Raises
        ------
        MovedOnError
            The database has another mark now: bodies that no update named may be gone.
        StorageError
            The transaction was not committed: none of them counts.
        """
        while True:
            try:
                with self._db.writing() as tx:
                    if since is not None and self._db.mark != since:
                        raise MovedOnError("Files were removed while updates were kept.")
                    return self._count(tx, arrived, stale_limit)
            except _OvertakenError:
                continue  # somebody else counted one of them just now: that is seen now

    def _count(self, tx: sa.Connection, arrived: Sequence[Update], stale_limit: int) -> list[Verdict]:
        judge = UpdateJudge(tx, arrived, stale_limit, hold=True)
        verdicts = [judge.count(update) for update in arrived]
        now = time.time()
        rows = [
            columns_of(update, verdict, now)
            for update, verdict in zip(arrived, verdicts, strict=True)
            if verdict.counts
        ]
        if self._db.insert_all_missing(tx, updates, rows) < len(rows):
            raise _OvertakenError
        return verdicts

    def counted(self, task: str, number: int) -> list[UpdateRow]:
        """The updates that count in a round, by device and by the round they were invited to."""
        query = UpdateRow.select(updates).where(_in_round(task, number))
        with self._db.reading() as tx:
            return UpdateRow.read(tx, query.order_by(updates.c.device, updates.c.round))

    def counted_devices(self, task: str, number: int) -> set[str]:
        """Whose update counts in a round."""
        query = sa.select(updates.c.device).where(_in_round(task, number))
        with self._db.reading() as tx:
            return set(tx.execute(query).scalars())

    def bodies(self, task: str, first: int, last: int) -> set[str]:
        """Bodies of the updates that count in these rounds."""
        of_rounds = (updates.c.task == task) & updates.c.counted_in.between(first, last)
        with self._db.reading() as tx:
            return set(tx.execute(sa.select(updates.c.body).where(of_rounds)).scalars())

    def left_out(self, task: str, number: int) -> set[str]:
        """Of those devices, the ones that the round's rule left out."""
        query = sa.select(updates.c.device).where(_in_round(task, number) & updates.c.left_out)
        with self._db.reading() as tx:
            return set(tx.execute(query).scalars())

    def how_many(self, task: str, number: int) -> int:
        """How many updates count in a round."""
        of_round = _in_round(task, number)
        with self._db.reading() as tx:
            return tx.execute(sa.select(sa.func.count()).select_from(updates).where(of_round)).scalar() or 0

    def times(self, task: str, number: int) -> list[float]:
        """When the updates that count in a round were received, in seconds since 1970, the first before the others."""
        query = sa.select(updates.c.received).where(_in_round(task, number)).order_by(updates.c.received)
        with self._db.reading() as tx:
            return list(tx.execute(query).scalars())

    def unanswered(self, task: str, first: int, last: int) -> set[str]:
        """Devices that were invited to a round from `first` to `last`, gave nothing back and did not give up."""
        same = (updates.c.task == task) & (updates.c.round == invitations.c.round)
        answered = sa.exists().where(same & (updates.c.device == invitations.c.device))
        asked = (invitations.c.task == task) & invitations.c.round.between(first, last)
        query = sa.select(invitations.c.device).where(asked & (invitations.c.state == "invited") & ~answered)
        with self._db.reading() as tx:
            return set(tx.execute(query).scalars())

    def held_out(self, task: str, first: int, last: int, device: str) -> Held | None:
        """What a device said of the shared model in these rounds, as of the function `held_out`."""
        with self._db.reading() as tx:
            return held_out(tx, task, first, last, device).get(device)

    def sent_for(self, task: str, number: int) -> set[str]:
        """Devices that an update of was counted for their invitation to this round, wherever it was counted."""
        query = sa.select(updates.c.device).where((updates.c.task == task) & (updates.c.round == number))
        with self._db.reading() as tx:
            return set(tx.execute(query).scalars())


def held_out(tx: sa.Connection, task: str, first: int, last: int, device: str | None = None) -> dict[str, Held]:
    """What devices said of the shared model on clips that they hold out, in their first and last of these rounds.

    Those that said so in one round alone, or never, are left out; `device`: this one alone.
    """
    said = (updates.c.task == task) & updates.c.counted_in.between(first, last)
    said &= updates.c.plugin_accuracy.is_not(None) & (updates.c.held_out > 0)
    said = said if device is None else said & (updates.c.device == device)
    early, late = sa.func.min(updates.c.counted_in), sa.func.max(updates.c.counted_in)
    span = sa.select(updates.c.device, early.label("early"), late.label("late")).where(said)
    span_of = span.group_by(updates.c.device).having(early < late).subquery()
    old, new = updates.alias(), updates.alias()

    def one(row: sa.FromClause, when: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
        return (row.c.task == task) & (row.c.device == span_of.c.device) & (row.c.counted_in == when)

    query = (
        sa.select(span_of.c.device, old.c.plugin_accuracy, new.c.plugin_accuracy, old.c.held_out, new.c.held_out)
        .join(old, one(old, span_of.c.early))
        .join(new, one(new, span_of.c.late))
        .where(old.c.held_out > 0, new.c.held_out > 0)
    )
    return {name: Held(*figures) for name, *figures in tx.execute(query) if None not in figures}


def columns_of(update: Update, verdict: Verdict, received: float) -> dict[str, object]:
    """The columns of an update that counts by this verdict and came then, seconds since 1970."""
    return {
        **{name: getattr(update, name) for name in COPIED},
        "counted_in": verdict.counted_in,
        "loss": update.loss if math.isfinite(update.loss) else None,
        "staleness": verdict.staleness,
        "unsupervised": None if update.unsupervised is msgspec.UNSET else update.unsupervised,
        "vectors": msgspec.to_builtins(update.vectors) if update.vectors else None,
        "received": received,
    }


def _in_round(task: str, number: int) -> sa.ColumnElement[bool]:
    return (updates.c.task == task) & (updates.c.counted_in == number)
