"""What may be installed, as the signed metadata of updates says it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import sqlalchemy as sa
from msgspec.structs import asdict

from auricle_cloud.states.release import Released
from auricle_cloud.storage.database import ROLLING, Database
from auricle_cloud.storage.journal import note
from auricle_cloud.storage.release_rows import ReleaseRow
from auricle_cloud.storage.schema import releases


class Releases:
    """The mirror of the signed metadata: operations know it without the repository's folder."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def all(self) -> list[ReleaseRow]:
        """Every release, by path."""
        with self._db.reading() as tx:
            return ReleaseRow.read(tx, ReleaseRow.select(releases).order_by(releases.c.path))

    def mirror(self, rows: Sequence[Released], *, who: str) -> None:
        """Make the table what the repository says; changes are entered in the journal."""
        wanted = {row.path: row for row in rows}
        with self._db.writing() as tx:
            self._db.hold(tx, ROLLING)
            there = set(tx.execute(sa.select(releases.c.path)).scalars())
            for path in sorted(there - wanted.keys()):
                tx.execute(sa.delete(releases).where(releases.c.path == path))
                note(tx, "release removed", who=who, detail=path)
            for path in sorted(wanted.keys() - there):
                tx.execute(releases.insert().values(**asdict(wanted[path]), added=time.time()))
                note(tx, "released", who=who, detail=path)
