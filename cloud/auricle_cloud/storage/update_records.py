"""Updates in the database: which count, in which round, and with which verdict a device is answered."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from auricle.messages import Update
from auricle_cloud.rounds.round_states import TAKING
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.schema import devices, invitations, models, rounds, tasks, updates

COPIED = tuple(c.name for c in updates.columns if c.name not in ("received", "loss", "counted_in", "staleness"))


@dataclass(frozen=True)
class Verdict:
    """What becomes of an update."""

    code: str
    """accepted, duplicate, conflict, late, closed, stale, or rejected:<reason>."""
    counts: bool = False
    staleness: int = 0
    """Models that were made since the one the update started from."""
    counted_in: int = 0

    @property
    def weight(self) -> float:
        """The factor by which a stale update counts, 1 / sqrt(1 + staleness); 0 where it was too old.

        FedBuff, Nguyen et al. 2022 (https://arxiv.org/abs/2106.06639), section 5 and appendix E.
        """
        if self.code != "stale":
            return 1.0
        return staleness_weight(self.staleness) if self.counts else 0.0


def staleness_weight(staleness: float) -> float:
    """The polynomial weight of FedBuff, 1 / sqrt(1 + staleness)."""
    return float(1.0 / math.sqrt(1.0 + staleness))


class Updates:
    """Counted updates; one for each (task, round, device)."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def judge(self, arrived: Sequence[Update], stale_limit: int = 0) -> list[Verdict]:
        """What counting each of these would say; nothing is changed."""
        known: dict[tuple[str, int], Any] = {}
        with self._db.reading() as tx:
            return [_judge(tx, update, stale_limit, known) for update in arrived]

    def count(self, arrived: Sequence[Update], stale_limit: int = 0) -> list[Verdict]:
        """Count those that may be, in one transaction; their bodies must be stored already.

        Parameters
        ----------
        arrived
            Updates in the order of their arrival.
        stale_limit
            Of asynchronous rounds: how many models ago an update may have started.

        Raises
        ------
        StorageError
            The transaction was not committed: none of them counts.
        """
        now = time.time()
        known: dict[tuple[str, int], Any] = {}
        with self._db.writing() as tx:
            verdicts = []
            for update in arrived:
                verdict = _judge(tx, update, stale_limit, known, hold=True)
                if verdict.counts:
                    values = {name: getattr(update, name) for name in COPIED}
                    values["loss"] = update.loss if math.isfinite(update.loss) else None
                    place = {"counted_in": verdict.counted_in, "staleness": verdict.staleness}
                    if not self._db.insert_missing(tx, updates, **values, **place, received=now):
                        verdict = _judge(tx, update, stale_limit, {})  # somebody else counted it just now
                verdicts.append(verdict)
        return verdicts

    def counted(self, task: str, number: int) -> list[dict[str, Any]]:
        """The updates that count in a round, by device and by the round they were invited to."""
        query = sa.select(updates).where((updates.c.task == task) & (updates.c.counted_in == number))
        with self._db.reading() as tx:
            return [dict(row) for row in tx.execute(query.order_by(updates.c.device, updates.c.round)).mappings()]

    def counted_devices(self, task: str, number: int) -> set[str]:
        """Whose update counts in a round."""
        query = sa.select(updates.c.device).where((updates.c.task == task) & (updates.c.counted_in == number))
        with self._db.reading() as tx:
            return set(tx.execute(query).scalars())

    def how_many(self, task: str, number: int) -> int:
        """How many updates count in a round."""
        of_round = (updates.c.task == task) & (updates.c.counted_in == number)
        with self._db.reading() as tx:
            return tx.execute(sa.select(sa.func.count()).select_from(updates).where(of_round)).scalar() or 0

    def unanswered(self, task: str, first: int, last: int) -> set[str]:
        """Devices that were invited to a round from `first` to `last`, gave nothing back and did not give up."""
        same = (updates.c.task == task) & (updates.c.round == invitations.c.round)
        answered = sa.exists().where(same & (updates.c.device == invitations.c.device))
        asked = (invitations.c.task == task) & invitations.c.round.between(first, last)
        query = sa.select(invitations.c.device).where(asked & (invitations.c.state == "invited") & ~answered)
        with self._db.reading() as tx:
            return set(tx.execute(query).scalars())

    def sent_for(self, task: str, number: int) -> set[str]:
        """Devices that an update of was counted for their invitation to this round, wherever it was counted."""
        query = sa.select(updates.c.device).where((updates.c.task == task) & (updates.c.round == number))
        with self._db.reading() as tx:
            return set(tx.execute(query).scalars())


def _judge(
    tx: sa.Connection, update: Update, stale_limit: int, known: dict[tuple[str, int], Any], hold: bool = False
) -> Verdict:  # fmt: skip
    """What counting would say; `hold` keeps the round that it would count in as it is until the commit.

    `known` are the rounds that this transaction has looked up, and holds.
    """
    same = (updates.c.task == update.task) & (updates.c.round == update.round) & (updates.c.device == update.device)
    counted = tx.execute(sa.select(updates.c.body, updates.c.counted_in).where(same)).first()
    if counted is not None:
        return Verdict("duplicate" if counted.body == update.body else "conflict", counted_in=counted.counted_in)
    row = known.get((update.task, update.round))
    if row is None:
        key = (rounds.c.task == update.task) & (rounds.c.round == update.round)
        query = sa.select(rounds.c.state, rounds.c.mode, rounds.c.base, rounds.c.base_version).where(key)
        row = tx.execute(query.with_for_update(read=True) if hold else query).first()
        known[update.task, update.round] = row
    if row is None or row.base is None:
        return Verdict("rejected:round")
    refused = _refused(tx, update)
    if refused is not None:
        return Verdict(refused)
    if update.base != row.base:
        return Verdict("rejected:base")
    if row.mode == "async":
        return _judge_asynchronous(tx, update, row.base_version, stale_limit, hold)
    if row.state == "aborted":
        return Verdict("closed")
    return Verdict("accepted", counts=True, counted_in=update.round) if row.state in TAKING else Verdict("late")


def _refused(tx: sa.Connection, update: Update) -> str | None:
    """Why this device may not speak in this round; None when it may."""
    key = (
        (invitations.c.task == update.task)
        & (invitations.c.round == update.round)
        & (invitations.c.device == update.device)
    )
    query = sa.select(devices.c.standing).join(invitations, invitations.c.device == devices.c.device).where(key)
    standing = tx.execute(query).scalar()
    if standing is None:
        return "rejected:not invited"
    return None if standing == "approved" else f"rejected:{standing}"


def _judge_asynchronous(
    tx: sa.Connection, update: Update, base_version: int, stale_limit: int, hold: bool
) -> Verdict:  # fmt: skip
    """Count into the round that is open, as long as not too many models were made meanwhile."""
    open_round = (rounds.c.task == update.task) & (rounds.c.mode == "async") & rounds.c.state.in_(TAKING)
    query = sa.select(rounds.c.round).where(open_round).order_by(rounds.c.round.desc()).limit(1)
    number = tx.execute(query.with_for_update(read=True) if hold else query).scalar()
    if number is None:
        return Verdict("closed")
    of_task = (models.c.task == update.task) & (models.c.version > base_version)
    current = sa.select(tasks.c.current).where(tasks.c.task == update.task).scalar_subquery()
    newer = tx.execute(sa.select(sa.func.count()).where(of_task & (models.c.version <= current))).scalar() or 0
    if newer > stale_limit:
        return Verdict("stale", staleness=newer)
    return Verdict("stale" if newer else "accepted", counts=True, staleness=newer, counted_in=number)
