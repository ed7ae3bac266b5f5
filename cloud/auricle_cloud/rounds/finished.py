"""Rounds that were made without links, entered whole: the rows that a coordinator's own leave, many in a transaction.

Who makes them keeps what it goes on with elsewhere, and may go on from an earlier round than the last that is entered
here: `forget_after` takes those that are made again out, as if they had never been.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import sqlalchemy as sa
from msgspec.structs import asdict

from auricle import __version__
from auricle.wire.messages import Update
from auricle_cloud.rounds.blame import note_set_aside, note_verdict
from auricle_cloud.rounds.learning import note_learning
from auricle_cloud.rounds.remaking import forget_after, point, run_many
from auricle_cloud.rounds.rule_events import RUNNING, note_bounded, note_left_out
from auricle_cloud.states.report import Document
from auricle_cloud.states.verdict import Verdict
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.journal import note
from auricle_cloud.storage.rows import ModelRow
from auricle_cloud.storage.schema import devices, invitations, losses, models, rounds, updates
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
    plan: bytes | None
    """A `Plan` as MessagePack; None of a round that must not begin."""
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
        task, running = self._task, dict(self._running)
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
            run_many(tx, often, [{"name": name, "times": times} for name, times in chosen.items()])
            changed = [row for each in made for row in self._ruled(tx, each, running)]
            rounds_out = change.values(left_out_rounds=sa.bindparam("times"))
            run_many(tx, rounds_out, [{"name": name, "times": times} for name, times in changed])
            for each in made:
                if each.detection is not None:
                    note_set_aside(tx, task, each.number, each.detection)
                    if each.detection["fires"]:
                        note_verdict(tx, task, each.number, each.detection, self._limit)
                if each.state == "published":
                    note_learning(tx, task, each.number)
                for event in each.events:
                    about = {"device": event.device, "who": event.who, "detail": event.detail}
                    note(tx, event.kind, task=task, number=each.number, **about)
            point(tx, task, made[-1].current)
        self._running = {name: times for name, times in running.items() if times}

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

    def _ruled(self, tx: sa.Connection, made: FinishedRound, running: dict[str, int]) -> list[tuple[str, int]]:
        """Note what a rule made of single devices, and in how many rounds `running` they are left out: what changed."""
        rule = str(made.report.get("rule", ""))
        note_bounded(tx, made.bounded, task=self._task, number=made.number)
        kept = [(name, 0) for name in made.ids if running.get(name) and name not in made.left_out]
        out = [(name, running.get(name, 0) + 1) for name in made.left_out]
        for name, often in out:
            if often % RUNNING == 0:
                note_left_out(tx, name, often, task=self._task, number=made.number, rule=rule)
        running.update(kept + out)
        return kept + out

    def _losses(self, made: FinishedRound) -> list[dict[str, object]]:
        if made.losses is None:
            return []
        base, said = made.losses
        about = {"task": self._task, "round": made.number, "base": base, "received": made.opened}
        return [
            {**about, "device": name, "loss": one.loss, "samples": one.samples} for name, one in sorted(said.items())
        ]

    def forget_after(self, number: int) -> None:
        """Take the rounds after this one out, with all that they left: models, verdicts, events and counts of devices.

        Raises
        ------
        StorageError
            The database cannot take it: all of it stays.
        """
        with self._db.writing() as tx:
            forget_after(tx, self._task, number)


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
        run_many(tx, table.insert().values({name: sa.bindparam(name) for name in rows[0]}), rows)
