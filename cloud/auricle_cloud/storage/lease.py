"""Which of several coordinators leads: a row in their database that runs out unless it is renewed, by its clock.

The lease decides who begins, the epoch who may write: one that was stopped for longer than its lease, and another leads
by then, writes nothing any more (PROTOCOL.md, section 6).
"""

from __future__ import annotations

import math
import os

import sqlalchemy as sa

from auricle.errors import SettingsError
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.schema import meta

LEASE = "lease"
"""The key of `meta` with the second since 1970 at which the lease runs out, and a word of who has it."""
LEASE_SECONDS = 3.0
"""Renewed three times as often: who dies is replaced once they are over."""

_NOW = sa.cast(sa.extract("epoch", sa.func.clock_timestamp()), sa.Float)


class Lease:
    """The lease of one database.

    Parameters
    ----------
    database
        On PostgreSQL, whose clock all of them read; nobody else writes with this object.
    seconds
        After which it runs out.

    Raises
    ------
    SettingsError
        It is SQLite, which has one writer on one machine.
    """

    def __init__(self, database: Database, seconds: float = LEASE_SECONDS) -> None:
        if not database.is_shared:
            raise SettingsError("Several coordinators need PostgreSQL: give --database postgresql://USER@HOST/NAME.")
        self._db, self.seconds, self._holder = database, seconds, ""

    def seconds_left(self) -> float:
        """Seconds until it runs out; below 0 so many since it ran out, and very many where it was given up."""
        ends = sa.cast(sa.func.split_part(meta.c.value, " ", 1), sa.Float)
        with self._db.reading() as tx:
            left = tx.execute(sa.select(ends - _NOW).where(meta.c.key == LEASE)).scalar()
        return -math.inf if left is None else float(left)

    def take(self) -> bool:
        """Whether nobody has it, and it was taken."""
        holder = os.urandom(8).hex()
        with self._db.writing() as tx:
            self._db.insert_missing(tx, meta, key=LEASE, value="0 nobody")
            is_free = sa.cast(sa.func.split_part(meta.c.value, " ", 1), sa.Float) <= _NOW
            taken = self._set(tx, is_free, self._value(holder))
        self._holder = holder if taken else ""
        return taken

    def renew(self) -> bool:
        """Keep it; whether it was still ours. It is not where it ran out and another took it."""
        with self._db.writing() as tx:
            return self._set(tx, self._is_ours, self._value(self._holder))

    def give_up(self) -> None:
        """Let another take it at once."""
        with self._db.writing() as tx:
            self._set(tx, self._is_ours, sa.literal("0 nobody"))

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    @property
    def _is_ours(self) -> sa.ColumnElement[bool]:
        return sa.func.split_part(meta.c.value, " ", 2) == self._holder

    def _value(self, holder: str) -> sa.ColumnElement[str]:
        return sa.cast(_NOW + self.seconds, sa.Text) + f" {holder}"

    @staticmethod
    def _set(tx: sa.Connection, which: sa.ColumnElement[bool], value: sa.ColumnElement[str]) -> bool:
        return tx.execute(sa.update(meta).where((meta.c.key == LEASE) & which).values(value=value)).rowcount == 1
