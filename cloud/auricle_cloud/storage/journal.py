"""What happened, for operators and auditors; and what is still to be published."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict, get_args

import sqlalchemy as sa

from auricle_cloud.states.rollout import RolloutState
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.rows import EventRow, OutgoingRow
from auricle_cloud.storage.schema import events, outbox

if TYPE_CHECKING:
    from typing_extensions import Unpack


AUDITED = frozenset(
    (
        *("approved", "pending", "quarantined", "revoked", "replaced", "forgotten", "labelled", "sensitivity"),
        *("alarm", "verdict", "repair", "promoted", "rolled back", "abort", "resumed", "scheduled", "schedule removed"),
        *(
            "token created",
            "token revoked",
            "claim token created",
            "replacement token created",
            "join code drawn",
            "certificate revoked",
            "authority made",
            "fleet made",
        ),
        *("releases made", "releases renewed", "release key replaced", "release keys changed"),
        *("releases published", "pending releases dropped", "released", "release removed", "privacy budget spent"),
        *("rollout started", "rollout stage", *(f"rollout {state}" for state in get_args(RolloutState))),
    )
)
"""Kinds of events that operators, detection and policy make: they are kept for a time, however many there are.

Of all others, which a device can make, the newest of each kind are kept: one kind never pushes out another."""
YEAR_AND_MORE = 400.0
"""Days."""
DAY_SECONDS = 86400.0


class About(TypedDict, total=False):
    """What an event is about; see `note`."""

    device: str
    task: str
    number: int | None
    who: str
    detail: str


def note(
    tx: sa.Connection,
    kind: str,
    *,
    device: str = "",
    task: str = "",
    number: int | None = None,
    who: str = "",
    detail: str = "",
) -> None:
    """Enter an event in the transaction of what it tells of."""
    note_each(tx, kind, [device], task=task, number=number, who=who, detail=detail)


def note_each(
    tx: sa.Connection,
    kind: str,
    names: Sequence[str],
    *,
    task: str = "",
    number: int | None = None,
    who: str = "",
    detail: str = "",
) -> None:
    """Enter an event for each of these devices."""
    about = {"task": task, "round": number, "who": who[:64], "detail": detail[:500]}
    if names:
        tx.execute(events.insert(), [{"at": time.time(), "kind": kind, "device": name, **about} for name in names])


class Journal:
    """Events and the outbox of one coordinator."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def note(self, kind: str, **about: Unpack[About]) -> None:
        """Enter an event on its own; see `note`."""
        with self._db.writing() as tx:
            note(tx, kind, **about)

    def events(
        self, *, device: str | None = None, kind: str | None = None, limit: int = 100, before: int | None = None
    ) -> list[EventRow]:
        """The newest events first; `before` an id goes on from there."""
        query = EventRow.select(events).order_by(events.c.id.desc()).limit(limit)
        for column, value in ((events.c.device, device), (events.c.kind, kind)):
            query = query if value is None else query.where(column == value)
        query = query if before is None else query.where(events.c.id < before)
        with self._db.reading() as tx:
            return EventRow.read(tx, query)

    def outgoing(self) -> list[OutgoingRow]:
        """What is still to be published, in order."""
        with self._db.reading() as tx:
            return OutgoingRow.read(tx, OutgoingRow.select(outbox).order_by(outbox.c.id))

    def sent(self, number: int) -> None:
        """Forget an outgoing entry: the broker has it."""
        with self._db.writing() as tx:
            tx.execute(sa.delete(outbox).where(outbox.c.id == number))

    def trim(self, keep: int, audit_days: float = YEAR_AND_MORE) -> None:
        """Forget all but the newest events of each kind, and of the audited kinds what is older than some days."""
        with self._db.writing() as tx:
            for kind in tx.execute(sa.select(events.c.kind).distinct()).scalars().all():
                mine = events.c.kind == kind
                if kind in AUDITED:
                    tx.execute(sa.delete(events).where(mine & (events.c.at < time.time() - audit_days * DAY_SECONDS)))
                    continue
                newest = sa.select(events.c.id).where(mine).order_by(events.c.id.desc())
                last = tx.execute(newest.offset(keep).limit(1)).scalar()
                if last is not None:
                    tx.execute(sa.delete(events).where(mine & (events.c.id <= last)))


def put_out(tx: sa.Connection, kind: str, subject: str, **content: object) -> None:
    """Enter something to publish in the transaction that decides it."""
    tx.execute(outbox.insert().values(kind=kind, subject=subject, content=content, created=time.time()))
