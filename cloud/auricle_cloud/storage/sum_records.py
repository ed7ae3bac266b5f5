"""Secure sums in the database: who gave keys, shared secrets and revealed shares, each once and in its turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import sqlalchemy as sa

from auricle.wire.kinds import UNDECODABLE
from auricle.wire.plan import SecureSum
from auricle.wire.secure_sum.messages import SumAnswer, SumKeys, SumReveal, SumShares
from auricle_cloud.states.round import State
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.rows import Row, SumRow
from auricle_cloud.storage.schema import devices, invitations, rounds, sums, updates


class Stage(Row, frozen=True):
    """What of a round decides about what is said in its sum."""

    state: State
    plan: bytes | None


class _Sum(msgspec.Struct):
    """What of a plan names its secure sum."""

    secure_sum: SecureSum | msgspec.UnsetType = msgspec.UNSET


_decoder = msgspec.msgpack.Decoder(_Sum)


def sum_of_plan(plan: bytes | None) -> str | None:
    """The secure sum that a round's plan names; None of a plan that nobody can read: it has invited nobody to one."""
    try:
        told = None if plan is None else _decoder.decode(plan).secure_sum
    except UNDECODABLE:
        return None
    return told.id if told else None


class Sums:
    """The secure sums of one coordinator."""

    def __init__(self, database: Database) -> None:
        self._db = database

    # -- what devices say

    def enter(self, tx: sa.Connection, said: SumAnswer) -> str | None:
        """Take in what a device said; None once it is kept, or was before; else why it is refused."""
        stage = self._stage(tx, said.task, said.round)
        if stage is None or sum_of_plan(stage.plan) != said.sum:
            return "sum: of another secure sum than the round's"
        who = (invitations.c.task == said.task) & (invitations.c.round == said.round)
        asked = sa.select(devices.c.standing).join(invitations, invitations.c.device == devices.c.device)
        standing = tx.execute(asked.where(who & (invitations.c.device == said.device))).scalar()
        if standing is None:
            return "not invited: to the round of a secure sum"
        if standing != "approved":
            return f"{standing}: in a secure sum"
        row = SumRow.first(tx, SumRow.select(sums).where(_key(said.task, said.round, said.device)))
        match said:
            case SumKeys():
                return self._enter_keys(tx, stage.state, row, said)
            case SumShares():
                return self._enter_shares(tx, stage.state, row, said)
            case SumReveal():
                return self._enter_reveal(tx, stage.state, row, said)

    @staticmethod
    def _stage(tx: sa.Connection, task: str, number: int) -> Stage | None:
        """The round's, as it stays to the end of the transaction."""
        query = Stage.select(rounds).where((rounds.c.task == task) & (rounds.c.round == number))
        return Stage.first(tx, query.with_for_update(read=True))

    def _enter_keys(self, tx: sa.Connection, state: State, row: SumRow | None, said: SumKeys) -> str | None:
        if row is not None:
            same = (row.boxes, row.masks) == (said.boxes, said.masks)
            return None if same else "sum: other keys than before"
        if state != "keys":
            return "sum: keys came late"
        taken = sums.c.boxes.in_([said.boxes, said.masks]) | sums.c.masks.in_([said.boxes, said.masks])
        of_round = (sums.c.task == said.task) & (sums.c.round == said.round)
        if said.boxes == said.masks or tx.execute(sa.select(sums.c.device).where(of_round & taken)).first():
            return "sum: keys of another device, or one key twice"
        place = {"task": said.task, "round": said.round, "device": said.device}
        tx.execute(sums.insert().values(**place, boxes=said.boxes, masks=said.masks, part=False))
        return None

    @staticmethod
    def _enter_shares(tx: sa.Connection, state: State, row: SumRow | None, said: SumShares) -> str | None:
        shares = b"".join(said.boxes)
        if row is None or row.near is None or len(said.boxes) != len(row.near):
            return "sum: shares that nobody waits for, or not one for each neighbour"
        if row.shares is not None:
            return None if row.shares == shares else "sum: other shares than before"
        if state != "shares":
            return "sum: shares came late"
        tx.execute(sa.update(sums).where(_key(said.task, said.round, said.device)).values(shares=shares))
        return None

    def _enter_reveal(self, tx: sa.Connection, state: State, row: SumRow | None, said: SumReveal) -> str | None:
        own, lost = b"".join(said.own), b"".join(said.masks)
        if row is not None and row.own is not None:
            return None if (row.own, row.lost) == (own, lost) else "sum: other revealed shares than before"
        if row is None or not row.part or row.near is None or state != "revealing":
            return "sum: revealed shares came late, or nobody asked for them"
        came, missing = self._seats(tx, said.task, said.round)
        expected = (len(came.intersection(row.near)), len(missing.intersection(row.near)))
        if row.seat not in came or (len(said.own), len(said.masks)) != expected:
            return "sum: other numbers of revealed shares than were asked for"
        tx.execute(sa.update(sums).where(_key(said.task, said.round, said.device)).values(own=own, lost=lost))
        return None

    @staticmethod
    def _seats(tx: sa.Connection, task: str, number: int) -> tuple[set[int], set[int]]:
        """Seats of those whose update is in the sum, and of those that others mask with and whose update is not."""
        here = updates.c.device.is_not(None)
        joined = sums.outerjoin(
            updates,
            (updates.c.task == sums.c.task) & (updates.c.round == sums.c.round) & (updates.c.device == sums.c.device),
        )
        query = sa.select(sums.c.seat, here).select_from(joined).where(_round(task, number) & sums.c.part)
        found = [(seat, bool(came)) for seat, came in tx.execute(query)]
        return {seat for seat, came in found if came}, {seat for seat, came in found if not came}

    # -- looking

    def rows(self, task: str, number: int) -> list[SumRow]:
        """Everybody who gave keys, by name."""
        with self._db.reading() as tx:
            return self.rows_in(tx, task, number)

    @staticmethod
    def rows_in(tx: sa.Connection, task: str, number: int) -> list[SumRow]:
        """The same in a transaction."""
        return SumRow.read(tx, SumRow.select(sums).where(_round(task, number)).order_by(sums.c.device))

    # -- moving on, in the transaction of the round

    @staticmethod
    def seat(tx: sa.Connection, task: str, number: int, near: Mapping[str, tuple[int, list[int]]]) -> None:
        """Enter each device's seat, and its neighbours' seats."""
        for device, (seat, others) in near.items():
            tx.execute(sa.update(sums).where(_key(task, number, device)).values(seat=seat, near=others))

    @staticmethod
    def admit(tx: sa.Connection, task: str, number: int, names: Iterable[str]) -> None:
        """Enter who is part of the sum: others mask with it."""
        for device in names:
            tx.execute(sa.update(sums).where(_key(task, number, device)).values(part=True))

    @staticmethod
    def leave(tx: sa.Connection, task: str, number: int, names: Iterable[str], reason: str) -> None:
        """Note on invitations, unless something is noted there, why devices are not part of the sum."""
        silent = (invitations.c.task == task) & (invitations.c.round == number) & (invitations.c.state == "invited")
        for device in names:
            left = sa.update(invitations).where(silent & (invitations.c.device == device))
            tx.execute(left.values(state="failed", reason=reason))

    def forget(self, task: str, number: int) -> None:
        """Remove keys and shares of the rounds up to one that has ended."""
        with self._db.writing() as tx:
            tx.execute(sa.delete(sums).where((sums.c.task == task) & (sums.c.round <= number)))


def _round(task: str, number: int) -> sa.ColumnElement[bool]:
    return (sums.c.task == task) & (sums.c.round == number)


def _key(task: str, number: int, device: str) -> sa.ColumnElement[bool]:
    return _round(task, number) & (sums.c.device == device)
