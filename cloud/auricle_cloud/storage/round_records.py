"""Rounds in the database: planned, moved from state to state, explained. Every move is one transaction."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, get_args

import sqlalchemy as sa

from auricle.errors import StorageError
from auricle.process.times import how_many
from auricle.wire.messages import WORSE, Loss
from auricle_cloud.states.report import Document
from auricle_cloud.states.round import FINISHED, TRANSITIONS, UNCOUNTED, State, label
from auricle_cloud.states.selection import PAUSE_SECONDS, rests
from auricle_cloud.storage.database import PLANNING, Database
from auricle_cloud.storage.journal import note
from auricle_cloud.storage.rows import InvitationRow, LossRow, RoundChanges, RoundGlance, RoundRow
from auricle_cloud.storage.schema import devices, invitations, losses, rounds, updates

if TYPE_CHECKING:
    from typing_extensions import Unpack

RECENT_ROUNDS = 50
"""Rounds back that are looked at for devices that declined a moment ago."""


class Rounds:
    """The rounds of all tasks of one coordinator."""

    def __init__(self, database: Database) -> None:
        self._db = database

    # -- looking

    def get(self, task: str, number: int) -> RoundRow:
        """One round; StorageError when it is not there."""
        with self._db.reading() as tx:
            row = RoundRow.first(tx, RoundRow.select(rounds).where(_key(task, number)))
        if row is None:
            raise StorageError(f"There is no round {number} of {task}.")
        return row

    def newest(self, task: str) -> RoundRow | None:
        """The round with the highest number that has begun."""
        query = RoundRow.select(rounds).where((rounds.c.task == task) & (rounds.c.state != "planned"))
        with self._db.reading() as tx:
            return RoundRow.first(tx, query.order_by(rounds.c.round.desc()).limit(1))

    def planned_by(self, task: str) -> dict[str, float]:
        """When rounds were last planned by each, in seconds since 1970; a schedule is `schedule NAME`."""
        query = sa.select(rounds.c.asked_by, sa.func.max(rounds.c.planned)).where(rounds.c.task == task)
        with self._db.reading() as tx:
            return {who: at for who, at in tx.execute(query.group_by(rounds.c.asked_by)) if at}

    def request_for(self, task: str, number: int) -> str | None:
        """What an operator asked of a round."""
        with self._db.reading() as tx:
            return tx.execute(sa.select(rounds.c.request).where(_key(task, number))).scalar()

    def due(self, task: str) -> RoundRow | None:
        """The first round that is not finished: under way, or planned."""
        query = RoundRow.select(rounds).where((rounds.c.task == task) & rounds.c.state.not_in(FINISHED))
        with self._db.reading() as tx:
            return RoundRow.first(tx, query.order_by(rounds.c.round).limit(1))

    def listed(self, task: str, *, limit: int = 50, before: int | None = None) -> list[RoundGlance]:
        """The newest rounds first, without their reports."""
        query = RoundGlance.select(rounds).where(rounds.c.task == task).order_by(rounds.c.round.desc()).limit(limit)
        query = query if before is None else query.where(rounds.c.round < before)
        with self._db.reading() as tx:
            return RoundGlance.read(tx, query)

    def report(self, task: str, number: int) -> Document:
        """What a finished round did; StorageError when it is not there or not finished."""
        report = self.get(task, number).report
        if report is None:
            raise StorageError(f"Round {number} of {task} has no report: it was not run, or is not finished.")
        return report

    def noisy(self, task: str, after: int) -> dict[int, Document]:
        """What the reports of rounds with noise say of it, of those that have begun after one, by number."""
        part = rounds.c.report["privacy"]
        query = sa.select(rounds.c.round, part.label("privacy")).where(
            (rounds.c.task == task) & (rounds.c.round > after) & rounds.c.plan.is_not(None)
        )
        with self._db.reading() as tx:
            return {row.round: row.privacy for row in tx.execute(query.order_by(rounds.c.round)) if row.privacy}

    def most_invited(self, task: str, numbers: Collection[int]) -> int:
        """In how many of these rounds the device was that was in most of them."""
        if not numbers:
            return 0
        first, last = min(numbers), max(numbers)
        query = (
            sa.select(sa.func.count().label("often"))
            .where((invitations.c.task == task) & invitations.c.round.between(first, last))
            .group_by(invitations.c.device)
            .order_by(sa.desc("often"))
            .limit(1)
        )
        with self._db.reading() as tx:
            return min(len(numbers), tx.execute(query).scalar() or 0)

    def invited(self, task: str, number: int) -> dict[str, InvitationRow]:
        """A round's cohort: state and reason by device, in order of their names."""
        query = InvitationRow.select(invitations).where(_key(task, number, invitations))
        with self._db.reading() as tx:
            return {row.device: row for row in InvitationRow.read(tx, query.order_by(invitations.c.device))}

    def losses(self, task: str, number: int, base: str) -> dict[str, LossRow]:
        """Inference losses of a model that devices reported for a round, by device."""
        query = LossRow.select(losses).where(_key(task, number, losses) & (losses.c.base == base))
        with self._db.reading() as tx:
            return {row.device: row for row in LossRow.read(tx, query.order_by(losses.c.device))}

    # -- planning

    def plan(self, task: str, count: int, *, mode: str = "sync", who: str = "") -> list[int]:
        """Plan so many more rounds; their numbers."""
        with self._db.writing() as tx:
            first = self._last(tx, task) + 1
            numbers = list(range(first, first + count))
            self._enter(tx, task, numbers, mode, who)
        return numbers

    def plan_up_to(self, task: str, number: int, *, mode: str = "sync", who: str = "") -> None:
        """Plan what is missing up to this round."""
        with self._db.writing() as tx:
            self._enter(tx, task, range(self._last(tx, task) + 1, number + 1), mode, who)

    def unplan(self, task: str, after: int, *, who: str = "") -> None:
        """Forget planned rounds beyond this one; what has begun stays."""
        with self._db.writing() as tx:
            self._db.hold(tx, PLANNING)
            beyond = (rounds.c.task == task) & (rounds.c.round > after) & (rounds.c.state == "planned")
            count = tx.execute(sa.delete(rounds).where(beyond)).rowcount
            if count:
                note(tx, "unplanned", task=task, number=after + 1, who=who, detail=how_many(count, "round"))

    def _last(self, tx: sa.Connection, task: str) -> int:
        """The highest number so far; others who plan wait until this transaction has given out its own."""
        self._db.hold(tx, PLANNING)
        return tx.execute(sa.select(sa.func.max(rounds.c.round)).where(rounds.c.task == task)).scalar() or 0

    @staticmethod
    def _enter(tx: sa.Connection, task: str, numbers: Sequence[int], mode: str, who: str) -> None:
        rows = [
            {"task": task, "round": number, "state": "planned", "mode": mode, "asked_by": who, "planned": time.time()}
            for number in numbers
        ]
        if rows:
            tx.execute(rounds.insert(), rows)
            note(tx, "planned", task=task, number=min(numbers), who=who, detail=how_many(len(rows), "round"))

    def request(self, task: str, number: int, request: str | None, *, who: str, reason: str = "") -> RoundRow:
        """Ask the coordinator for something about a round that is not finished, e.g. to abort it; the round.

        Raises
        ------
        StorageError
            The round is not there, or is finished.
        """
        row = self.get(task, number)
        if row.state in FINISHED:
            raise StorageError(f"Round {number} of {task} is already {row.state}.")
        with self._db.writing() as tx:
            tx.execute(sa.update(rounds).where(_key(task, number)).values(request=request))
            note(tx, request or "resumed", task=task, number=number, who=who, detail=reason)
        return row

    # -- moving

    def move(self, task: str, number: int, old: State, new: State, **values: Unpack[RoundChanges]) -> None:
        """Move a round from one state to the next, with everything that changes with it.

        Parameters
        ----------
        values
            Further columns of the round.

        Raises
        ------
        StorageError
            There is no such way, or the round is in another state: somebody else moved it.
        """
        with self.moving(task, number, old, new, **values):
            pass

    @contextmanager
    def moving(
        self, task: str, number: int, old: State, new: State, **values: Unpack[RoundChanges]
    ) -> Iterator[sa.Connection]:
        """The transaction of a move, for what has to be committed with it."""
        if (old, new) not in TRANSITIONS:
            raise StorageError(f"A round cannot go from {old} to {new}.")
        if new in ("closing", "aborted"):
            values["closed"] = time.time()
        self._db.probe(f"before {label(old, new)}")
        with self._db.writing() as tx:
            there = _key(task, number) & (rounds.c.state == old)
            if tx.execute(sa.update(rounds).where(there).values(**values, state=new)).rowcount != 1:
                raise StorageError(f"Round {number} of {task} is not {old} any more: somebody else moved it.")
            yield tx
        self._db.probe(f"after {label(old, new)}")

    @staticmethod
    def note_report(tx: sa.Connection, task: str, number: int, report: Document) -> None:
        """Write a round's report so far, in the transaction of a move."""
        tx.execute(sa.update(rounds).where(_key(task, number)).values(report=report))

    def invite(
        self, tx: sa.Connection, task: str, number: int, names: Iterable[str], bases: Mapping[str, str] | None = None
    ) -> None:
        """Enter a cohort, in the transaction of its round; `bases` are models that devices begin with of their own."""
        chosen, own = sorted(names), bases or {}
        now = time.time()
        rows = [
            {"task": task, "round": number, "device": name, "invited": now, "base": own.get(name)} for name in chosen
        ]
        self._db.insert_all_missing(tx, invitations, rows)
        for start in range(0, len(chosen), 500):
            some = devices.c.device.in_(chosen[start : start + 500])
            tx.execute(sa.update(devices).where(some).values(selected=devices.c.selected + 1))

    def invite_late(self, task: str, number: int, device: str) -> bool:
        """Invite one more device to an asynchronous round; False where it was invited before."""
        with self._db.writing() as tx:
            row = {"task": task, "round": number, "device": device, "invited": time.time()}
            fresh = self._db.insert_missing(tx, invitations, **row)
            if fresh:
                tx.execute(sa.update(devices).where(devices.c.device == device).values(selected=devices.c.selected + 1))
        return fresh

    def resting(self, task: str, now: float | None = None) -> dict[str, str]:
        """Devices that declined a moment ago and are not asked again yet, each with the sentence that says so.

        Not those that found the round's model worse than their own: the next round may well suit them.
        """
        now = time.time() if now is None else now
        of = invitations.c.task == task
        newest = sa.select(sa.func.max(invitations.c.round)).where(of).scalar_subquery()
        recent = of & (invitations.c.round > newest - RECENT_ROUNDS) & (invitations.c.state == "declined")
        when = (invitations.c.invited > now - PAUSE_SECONDS) & (invitations.c.invited <= now)  # a clock may be set back
        columns = (invitations.c.device, invitations.c.round, invitations.c.reason)
        query = sa.select(*columns).where(recent & when).order_by(invitations.c.round)
        with self._db.reading() as tx:
            found = [(device, number, reason) for device, number, reason in tx.execute(query)]
        return {device: rests(number, reason) for device, number, reason in found if not reason.startswith(WORSE)}

    def mark_failed(self, task: str, number: int, device: str, state: str, reason: str) -> bool:
        """Note that an invited device failed, declined, or sent what is not counted; False where its update counts."""
        entry = {"state": state, "reason": reason[:200].replace("\0", "")}
        change = sa.update(invitations).where(_without_counted_update(task, number, device)).values(**entry)
        with self._db.writing() as tx:
            return tx.execute(change).rowcount == 1

    def mark_uncounted(self, task: str, number: int, device: str, state: UNCOUNTED, reason: str) -> bool:
        """Note that an invited device's update came late or was refused; False where it counts, or one was before.

        Only the first is written: a device that sends them again and again costs no transaction.
        """
        open_ = _without_counted_update(task, number, device) & invitations.c.state.not_in(get_args(UNCOUNTED))
        with self._db.reading() as tx:
            if tx.execute(sa.select(invitations.c.device).where(open_)).first() is None:
                return False
        return self.mark_failed(task, number, device, state, reason)

    def doubted(self, task: str, number: int, device: str, reason: str) -> None:
        """Note that an invited device trains, and finds the round's model worse than an earlier one."""
        key = _key(task, number, invitations) & (invitations.c.device == device) & (invitations.c.state == "invited")
        with self._db.writing() as tx:
            tx.execute(sa.update(invitations).where(key).values(reason=reason[:200].replace("\0", "")))

    def enter_loss(self, tx: sa.Connection, message: Loss, loss: float | None) -> bool:
        """Keep a device's inference loss of a model, None where it is unknown; False where it is not invited.

        A later one, of another model, takes its place: the row says which model it is of.
        """
        where = {"task": message.task, "round": message.round, "device": message.device}
        key = _key(message.task, message.round, invitations) & (invitations.c.device == message.device)
        if tx.execute(sa.select(invitations.c.state).where(key)).scalar() is None:
            return False
        row = {"base": message.base, "loss": loss, "samples": message.samples, "received": time.time()}
        self._db.upsert(tx, losses, where, row)
        return True


def _without_counted_update(task: str, number: int, device: str) -> sa.ColumnElement[bool]:
    """A device's invitation, unless its update counts."""
    counted = sa.exists().where(_key(task, number, updates) & (updates.c.device == device))
    return _key(task, number, invitations) & (invitations.c.device == device) & ~counted


def _key(task: str, number: int, table: sa.Table = rounds) -> sa.ColumnElement[bool]:
    return (table.c.task == task) & (table.c.round == number)
