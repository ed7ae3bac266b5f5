"""What may be installed: rows of releases, rollouts and their devices, and the mirror of the signed metadata."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

import sqlalchemy as sa
from msgspec.structs import asdict

from auricle_cloud.states.rollout import DeviceState, Released, RolloutState
from auricle_cloud.storage.database import ROLLING, Database
from auricle_cloud.storage.journal import note
from auricle_cloud.storage.rows import Row
from auricle_cloud.storage.schema import releases

ReleaseKind = Literal["bundle", "pack"]


class ReleaseRow(Released, Row, frozen=True):
    """A row of `releases`."""

    added: float


class InstallationRow(Row, frozen=True):
    """A row of `installations`."""

    device: str
    board: str
    os: str
    bundle: str | None
    version: str
    pack: str
    confirmed: bool
    rollout: str
    state: str
    reason: str
    at: float


class RolloutRow(Row, frozen=True):
    """A row of `rollouts`."""

    rollout: str
    number: int
    state: RolloutState
    reason: str
    label: str | None
    stages: list[float]
    stage: int
    errors: float
    minimum: int
    soak: float
    deadline: float
    hearing_hours: float | None
    hearing_passed: int
    who: str
    started: float
    settled: float | None
    ended: float | None


class RolloutDeviceRow(Row, frozen=True):
    """A row of `rollout_devices`."""

    rollout: str
    device: str
    stage: int
    path: str
    identity: str
    state: DeviceState
    step: str
    reason: str
    attempt: int
    forgiven: bool
    entered: float
    heard: float | None
    decided: float | None


class AskedRow(Row, frozen=True):
    """A device that is here and has not answered, with what it was asked to install."""

    rollout: str
    device: str
    kind: ReleaseKind
    path: str
    identity: str
    attempt: int


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
