"""Rounds that were made without links, entered whole: the rows that a coordinator's own leave, many in a transaction.

Who makes them keeps what it goes on with elsewhere, and may go on from an earlier round than the last that is entered
here: `forget_after` takes those that are made again out, as if they had never been.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from operator import itemgetter
from typing import Any, Literal

import sqlalchemy as sa
from msgspec.structs import asdict

from auricle import __version__
from auricle.wire.messages import Update
from auricle_cloud.rounds.blame import note_set_aside, note_verdict
from auricle_cloud.rounds.rule_events import RUNNING, note_bounded, note_left_out
from auricle_cloud.states.report import Document
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.journal import note
from auricle_cloud.storage.rows import ModelRow
from auricle_cloud.storage.schema import devices, events, invitations, losses, models, rounds, tasks, updates
from auricle_cloud.storage.update_records import columns_of
from auricle_learning.aggregation.cohort import Bounded

LONGEST = 200
"""Characters of a reason that are kept."""


@dataclass(frozen=True)
class Member:
    """A device of a round's cohort."""

    state: str = "invited"
    """invited, failed, declined, late or refused."""
    reason: str | None = None


@dataclass(frozen=True)
class SaidLoss:
    """What a device said of the model that a round began with."""

    loss: float | None
    samples: int


@dataclass(frozen=True)
class Event:
    """What is noted of a round."""

    kind: str
    detail: str
    device: str = ""
    who: str = ""


@dataclass(frozen=True, kw_only=True)
class FinishedRound:
    """A synchronous round from its beginning to its end."""

    number: int
    state: Literal["published", "aborted"]
    opened: float
    closed: float
    """Seconds since 1970, both."""
    base_version: int
    base: str
    """The model that its devices trained from."""
    plan: bytes
    """A `Plan` as MessagePack."""
    report: Document
    detection: Document | None
    cohort: Mapping[str, Member]
    losses: tuple[str, Mapping[str, SaidLoss]] | None = None
    """Said before training, and of which model."""
    updates: Sequence[Update]
    """Those that came in time and are sound."""
    ids: Sequence[str] = ()
    left_out: Collection[str] = ()
    bounded: Sequence[Bounded] = ()
    """Devices whose updates its rule saw, those that it gave the weight 0 in every layer, and those that it bounded."""
    models: Sequence[ModelRow] = ()
    """That it made, in this order."""
    current: int
    """Version of the model that the next round begins with."""
    events: Sequence[Event] = field(default=())


@dataclass(frozen=True)
class Newcomer:
    """A device that has registered."""

    device: str
    architecture: str
    samples: int
    """Clips that it trains on."""
    selected: int = 0
    """Rounds that it was invited to before it was entered here."""


class FinishedRounds:
    """Enters the rounds of one task.

    Parameters
    ----------
    database
        Of the store.
    task
        What is trained.
    limit
        Verdicts of detection after which a device is quarantined; 0: never.
    """

    def __init__(self, database: Database, task: str, limit: int = 0) -> None:
        self._db, self._task, self._limit = database, task, limit
        self._running: dict[str, int] = {}
        """In how many rounds running devices were left out, of those that were in the last one."""

    def welcome(self, known: Iterable[Newcomer], pack: str, boot: str, now: float) -> None:
        """Enter devices that are not there yet; nobody of them is connected.

        Parameters
        ----------
        pack
            Identity of the pack that they train.
        boot
            Under which they registered.
        now
            Seconds since 1970.
        """
        about = {"public_key": b"", "boot": boot, "online": False, "pack": pack, "agent": __version__}
        times = {"first_seen": now, "last_seen": now}
        rows = [{**about, **times, **vars(device)} for device in known]
        with self._db.writing() as tx:
            self._db.insert_all_missing(tx, devices, rows)
            query = sa.select(devices.c.device, devices.c.left_out_rounds).where(devices.c.left_out_rounds > 0)
            self._running = {row.device: row.left_out_rounds for row in tx.execute(query)}

    def enter(self, made: Sequence[FinishedRound]) -> None:
        """Enter rounds that are not there yet, in their order and in one transaction.

        Raises
        ------
        StorageError
            The database cannot take them: none of them is entered.
        """
        if not made:
            return
        task = self._task
        chosen = Counter(name for each in made for name in each.cohort)
        with self._db.writing() as tx:
            for judged in (True, False):  # one without detection has no document, which is not the document null
                _insert(tx, rounds, [self._round(each) for each in made if (each.detection is not None) is judged])
            _insert_many(tx, invitations, [row for each in made for row in self._invitations(each)])
            _insert(tx, losses, [row for each in made for row in self._losses(each)])
            _insert_many(tx, updates, [row for each in made for row in _counted(each)])
            _insert(tx, models, [asdict(model) for each in made for model in each.models])
            change = sa.update(devices).where(devices.c.device == sa.bindparam("name"))
            often = change.values(selected=devices.c.selected + sa.bindparam("times"))
            _run_many(tx, often, [{"name": name, "times": times} for name, times in chosen.items()])
            running = change.values(left_out_rounds=sa.bindparam("times"))
            changed = [row for each in made for row in self._ruled(tx, each)]
            _run_many(tx, running, [{"name": name, "times": times} for name, times in changed])
            for each in made:
                if each.detection is not None:
                    note_set_aside(tx, task, each.number, each.detection)
                    if each.detection["fires"]:
                        note_verdict(tx, task, each.number, each.detection, self._limit)
                for event in each.events:
                    about = {"device": event.device, "who": event.who, "detail": event.detail}
                    note(tx, event.kind, task=task, number=each.number, **about)
            self._point(tx, made[-1].current)

    def _round(self, made: FinishedRound) -> dict[str, object]:
        named = ["state", "opened", "closed", "base_version", "base", "plan", "report"]
        named += ["detection"] * (made.detection is not None)
        about = {"task": self._task, "round": made.number, "mode": "sync", "planned": made.opened}
        return {**about, "asked_by": "fleet run", **{name: getattr(made, name) for name in named}}

    def _invitations(self, made: FinishedRound) -> list[dict[str, object]]:
        about = {"task": self._task, "round": made.number, "invited": made.opened}
        return [
            {
                **about,
                "device": name,
                "state": member.state,
                "reason": None if member.reason is None else member.reason[:LONGEST].replace("\0", ""),
            }
            for name, member in made.cohort.items()
        ]

    def _ruled(self, tx: sa.Connection, made: FinishedRound) -> list[tuple[str, int]]:
        """Note what a rule made of single devices; in how many rounds running they are left out, where that changes."""
        task, running, rule = self._task, self._running, str(made.report.get("rule", ""))
        note_bounded(tx, made.bounded, task=task, number=made.number)
        kept = [(name, 0) for name in made.ids if name in running and name not in made.left_out]
        out = [(name, running.get(name, 0) + 1) for name in made.left_out]
        for name, often in out:
            if often % RUNNING == 0:
                note_left_out(tx, name, often, task=task, number=made.number, rule=rule)
        self._running = {name: often for name, often in {**running, **dict(kept + out)}.items() if often}
        return kept + out

    def _losses(self, made: FinishedRound) -> list[dict[str, object]]:
        if made.losses is None:
            return []
        base, said = made.losses
        about = {"task": self._task, "round": made.number, "base": base, "received": made.opened}
        return [
            {**about, "device": name, "loss": one.loss, "samples": one.samples} for name, one in sorted(said.items())
        ]

    def _point(self, tx: sa.Connection, version: int) -> None:
        tx.execute(sa.update(tasks).where(tasks.c.task == self._task).values(current=version))

    def forget_after(self, number: int) -> None:
        """Take the rounds after this one out, with all that they left: models, verdicts, events and counts of devices.

        Raises
        ------
        StorageError
            The database cannot take it: all of it stays.
        """
        with self._db.writing() as tx:
            gone = sa.select(sa.func.count()).where(_after(rounds, self._task, number))
            if not tx.execute(gone).scalar():
                return
            self._count_again(tx, number)
            for table in (rounds, invitations, losses, updates, models, events):
                tx.execute(sa.delete(table).where(_after(table, self._task, number)))
            self._point(tx, self._version_after(tx, number))

    def _count_again(self, tx: sa.Connection, number: int) -> None:
        """Set what is counted of devices to what it was after a round."""

        def often(table: sa.Table, *more: sa.ColumnElement[bool]) -> list[dict[str, Any]]:
            query = sa.select(table.c.device.label("name"), sa.func.count().label("times"))
            found = query.where(_after(table, self._task, number), *more).group_by(table.c.device)
            return [dict(row) for row in tx.execute(found).mappings()]

        less: sa.BindParameter[int] = sa.bindparam("times")
        who = devices.c.device == sa.bindparam("name")
        invited, blamed = often(invitations), often(events, events.c.kind == "verdict")
        barred = often(events, events.c.kind == "quarantined", events.c.who == "policy")
        counts: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
            ({"selected": devices.c.selected - less}, invited),
            ({"harmful_count": devices.c.harmful_count - less}, blamed),
            ({"standing": "approved", "reason": ""}, [{"name": row["name"]} for row in barred]),
            ({"left_out_rounds": less}, self._left_out(tx, number)),
        ]
        for values, rows in counts:
            if rows:
                tx.execute(sa.update(devices).where(who).values(**values), rows)

    def _left_out(self, tx: sa.Connection, number: int) -> list[dict[str, Any]]:
        """Of devices that later rounds counted, in how many rounds running up to this one they were left out."""
        later = sa.select(updates.c.device).where(_after(updates, self._task, number)).distinct()
        names = list(tx.execute(later).scalars())
        before: dict[str, list[bool]] = {name: [] for name in names}
        of = (updates.c.task == self._task) & (updates.c.round <= number)
        query = sa.select(updates.c.device, updates.c.left_out).where(of).order_by(updates.c.round.desc())
        for device, out in tx.execute(query):
            if device in before:
                before[device].append(out)
        return [{"name": name, "times": sum(takewhile(bool, outs))} for name, outs in before.items()]

    def _version_after(self, tx: sa.Connection, number: int) -> int:
        """The version that was current after a round, of what is left."""
        columns = (rounds.c.state, rounds.c.base_version, rounds.c.report)
        key = (rounds.c.task == self._task) & (rounds.c.round == number)
        row = tx.execute(sa.select(*columns).where(key)).first()
        made = (models.c.task == self._task) & (models.c.round == number) & (models.c.origin == "round")
        found = tx.execute(sa.select(models.c.version).where(made)).scalar()
        if row is None or found is not None:
            return int(found or 0)
        back = (row.report or {}).get("went_back")
        return int(row.base_version or 0) if back is None else int(back)


def _counted(made: FinishedRound) -> list[dict[str, object]]:
    verdict, out = Verdict("accepted", True, 0, made.number), {*made.left_out}
    return [{**columns_of(each, verdict, made.closed), "left_out": each.device in out} for each in made.updates]


def _insert(tx: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, object]]) -> None:
    if rows:
        tx.execute(table.insert(), list(rows))


def _insert_many(tx: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows of the same columns; where one of them has a document all go the common way."""
    if any(row.get("vectors") for row in rows):
        _insert(tx, table, rows)
    elif rows:
        _run_many(tx, table.insert().values({name: sa.bindparam(name) for name in rows[0]}), rows)


def _run_many(tx: sa.Connection, statement: sa.Insert | sa.Update, rows: Sequence[Mapping[str, object]]) -> None:
    """Run a statement for each row of its parameters, which the driver takes as they are: four times as fast."""
    if not rows:
        return
    made = statement.compile(dialect=tx.dialect)
    if made.positiontup is None:
        tx.exec_driver_sql(str(made), list(rows))
    else:
        tx.exec_driver_sql(str(made), list(map(itemgetter(*made.positiontup), rows)))


def _after(table: sa.Table, task: str, number: int) -> sa.ColumnElement[bool]:
    return (table.c.task == task) & (table.c.round > number)
