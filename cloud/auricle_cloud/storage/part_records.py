"""Updates that arrive in parts, each at another worker: the parts lie in the database until the last is there.

The table is unlogged and in no backup: what a crash of the database takes, devices send again.
"""

from __future__ import annotations

import time
import zlib

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from auricle.errors import WireError
from auricle.wire.messages import Update
from auricle_cloud.storage.database import Database

metadata = sa.MetaData()
parts = sa.Table(
    "update_parts",
    metadata,
    sa.Column("device", sa.Text, primary_key=True),
    sa.Column("part", sa.Integer, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
    sa.Column("received", sa.Float, nullable=False),
    prefixes=["UNLOGGED"],
)
LOCKS = 0x41555250 << 32
"""First of the names of the locks under which a device's parts are put together."""


class SharedAssemblies:
    """Unfinished updates by device, of all workers of a PostgreSQL database.

    Parameters
    ----------
    database
        Where they lie; the table is made if it is missing.
    budget, patience
        Bytes of all together; seconds that an unfinished one may rest before it makes room for others.
    """

    def __init__(self, database: Database, budget: int, patience: float) -> None:
        self._db, self._budget, self._patience = database, budget, patience
        self.size = 0
        """Bytes held, when a part came last."""
        with database.writing() as tx:
            database.hold(tx, LOCKS)
            metadata.create_all(tx)

    def add(self, update: Update, part: bytes) -> bytes | None:
        """Take in a part; the whole body once the last is there.

        Raises
        ------
        WireError
            As of `Assemblies.add`.
        StorageError
            The database does not take it: its device sends it again.
        """
        if update.parts == 1:
            return part
        with self._db.writing() as tx:
            self._db.hold(tx, LOCKS + 1 + zlib.crc32(update.device.encode()))
            whole, refusal = self._add(tx, update, part)
        if refusal:
            raise WireError(refusal)
        return whole

    def _add(self, tx: sa.Connection, update: Update, part: bytes) -> tuple[bytes | None, str]:
        of_device = parts.c.device == update.device
        of_another = (parts.c.body != update.body) | (parts.c.part >= update.parts)
        tx.execute(sa.delete(parts).where(of_device & of_another))
        row = {"device": update.device, "part": update.part, "body": update.body}
        entry = postgresql.insert(parts).values(**row, content=part, received=time.time())
        tx.execute(entry.on_conflict_do_update(index_elements=["device", "part"], set_={"content": part}))
        length = sa.func.octet_length(parts.c.content)
        number, size = tx.execute(sa.select(sa.func.count(), sa.func.sum(length)).where(of_device)).one()
        if size > update.length:
            self._drop(tx, of_device)
            return None, "part: together more than the update's length"
        if number == update.parts:
            contents = tx.execute(sa.select(parts.c.content).where(of_device).order_by(parts.c.part)).scalars()
            whole = b"".join(contents)
            self._drop(tx, of_device)
            return whole, ""
        if not self._within_budget(tx, length):
            self._drop(tx, of_device)
            return None, "memory: too many unfinished updates"
        return None, ""

    def _within_budget(self, tx: sa.Connection, length: sa.ColumnElement[int]) -> bool:
        """Whether all fit; where they do not, those that have long rested are given up first."""
        total = sa.select(sa.func.coalesce(sa.func.sum(length), 0))
        self.size = int(tx.execute(total).scalar_one())
        if self.size > self._budget:
            self._drop(tx, parts.c.received < time.time() - self._patience)
            self.size = int(tx.execute(total).scalar_one())
        return self.size <= self._budget

    @staticmethod
    def _drop(tx: sa.Connection, which: sa.ColumnElement[bool]) -> None:
        tx.execute(sa.delete(parts).where(which))
