"""Pages of the coordinator's tables as operators read them: counted, joined, a page at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
from msgspec.structs import asdict, replace

from auricle.wire.plan import InferenceLoss
from auricle_cloud.states.round import FINISHED, GAVE_UP
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.rows import DeviceRow, EventRow, InvitationRow, ModelRow, Row, Standing, TaskRow
from auricle_cloud.storage.schema import devices, events, invitations, meta, models, rounds, tasks, updates

LARGEST = 1e300
"""Losses beyond are not averaged: a device may report infinity."""
MOST_CLIPS = 1_000
"""As which more clips count in a mean over devices: they are what each says of itself."""
_GAVE_UP = invitations.c.state.in_(GAVE_UP)
_HIDDEN = (updates.c.loss == 0) & (updates.c.steps == 0)
"""What a device with noise says in place of its loss."""
R = TypeVar("R", bound=Row)
_NAMES = (devices.c.device, devices.c.label)


class _Asked(msgspec.Struct):
    """What of a round's plan is read here."""

    inference_loss: InferenceLoss = "ce"


class CohortTally(Row, frozen=True):
    """A round's invitations, counted."""

    round: int
    invited: int
    failed: int


class UpdateTally(Row, frozen=True):
    """The updates that a round counted, in all."""

    round: int
    counted: int
    left_out: int
    samples: int
    loss: float | None
    plugin_accuracy: float | None
    personal_accuracy: float | None


class Tally(Row, frozen=True, kw_only=True):
    """A round in figures: who was invited and failed (or declined), what was counted or left out, means."""

    round: int
    invited: int = 0
    failed: int = 0
    counted: int = 0
    left_out: int = 0
    samples: int = 0
    loss: float | None = None
    plugin_accuracy: float | None = None
    personal_accuracy: float | None = None


class MemberRow(InvitationRow, frozen=True):
    """An invitation with the update that came of it, if one did."""

    received: float | None
    counted_in: int | None
    samples: int | None
    loss: float | None
    staleness: int | None
    seconds: float | None
    plugin_accuracy: float | None
    personal_accuracy: float | None
    left_out: bool | None


class StandingCount(Row, frozen=True):
    """How many devices have this standing, presence and gate."""

    standing: Standing
    online: bool
    gate: str
    devices: int


class Listings:
    """What no single kind of record can tell.

    Parameters
    ----------
    database
        Of the store.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    def _rows(self, kind: type[R], query: sa.Select[Any]) -> list[R]:
        with self._db.reading() as tx:
            return kind.read(tx, query)

    def epoch(self) -> int:
        """How often a coordinator has started."""
        with self._db.reading() as tx:
            return int(tx.execute(sa.select(meta.c.value).where(meta.c.key == "epoch")).scalar() or 0)

    def tallies(self, task: str, numbers: Iterable[int]) -> dict[int, Tally]:
        """Rounds in figures, by number."""
        wanted = list(numbers)
        asked = sa.func.count().label("invited"), sa.func.sum(_one(_GAVE_UP)).label("failed")
        cohorts = sa.select(invitations.c.round, *asked).where(invitations.c.task == task)
        cohorts = cohorts.where(invitations.c.round.in_(wanted)).group_by(invitations.c.round)
        # Once for each device: by held-out clips, of which one may say any number, it would decide.
        judged = _one(updates.c.held_out > 0)
        bodies = sa.select(
            updates.c.counted_in.label("round"),
            sa.func.sum(_one(~updates.c.left_out)).label("counted"),
            sa.func.sum(_one(updates.c.left_out)).label("left_out"),
            sa.cast(sa.func.sum(sa.case((updates.c.left_out, 0), else_=updates.c.samples)), sa.BigInteger).label(
                "samples"
            ),
            _mean(sa.case((_HIDDEN, None), else_=updates.c.loss), updates.c.samples).label("loss"),
            _mean(updates.c.plugin_accuracy, judged).label("plugin_accuracy"),
            _mean(updates.c.personal_accuracy, judged).label("personal_accuracy"),
        )
        bodies = bodies.where((updates.c.task == task) & updates.c.counted_in.in_(wanted)).group_by(
            updates.c.counted_in
        )
        found = {number: Tally(round=number) for number in wanted}
        for cohort in self._rows(CohortTally, cohorts):
            found[cohort.round] = replace(found[cohort.round], invited=cohort.invited, failed=cohort.failed)
        for bodied in self._rows(UpdateTally, bodies):
            found[bodied.round] = replace(found[bodied.round], **asdict(bodied))
        return found

    def inference_losses(self, task: str, numbers: Iterable[int]) -> dict[int, InferenceLoss]:
        """Which loss of the model devices say, by round; rounds that have not begun are missing."""
        query = sa.select(rounds.c.round, rounds.c.plan).where(
            (rounds.c.task == task) & rounds.c.round.in_(list(numbers)) & rounds.c.plan.is_not(None)
        )
        with self._db.reading() as tx:
            plans = {row.round: row.plan for row in tx.execute(query) if row.plan}
        return {number: msgspec.msgpack.decode(plan, type=_Asked).inference_loss for number, plan in plans.items()}

    def due(self, task: str) -> tuple[int, int | None, int | None]:
        """How many rounds are planned, which one is under way, and which finished last."""
        of_task = rounds.c.task == task
        waiting = sa.select(sa.func.count()).where(of_task & (rounds.c.state == "planned"))
        busy = sa.select(sa.func.min(rounds.c.round)).where(of_task & rounds.c.state.not_in([*FINISHED, "planned"]))
        last = sa.select(sa.func.max(rounds.c.round)).where(of_task & rounds.c.state.in_(FINISHED))
        with self._db.reading() as tx:
            return tx.execute(waiting).scalar() or 0, tx.execute(busy).scalar(), tx.execute(last).scalar()

    def first_planned(self, task: str) -> int | None:
        """The planned round that comes next."""
        first = sa.select(sa.func.min(rounds.c.round)).where((rounds.c.task == task) & (rounds.c.state == "planned"))
        with self._db.reading() as tx:
            return tx.execute(first).scalar()

    def cohort(self, task: str, number: int, *, limit: int | None = None, after: str | None = None) -> list[MemberRow]:
        """A round's invitations with the updates that came of them, by device."""
        query = _invitations_with_updates().where((invitations.c.task == task) & (invitations.c.round == number))
        query = query if after is None else query.where(invitations.c.device > after)
        return self._rows(MemberRow, query.order_by(invitations.c.device).limit(limit))

    def history(self, task: str, device: str, *, limit: int, before: int | None) -> list[MemberRow]:
        """A device's invitations with the updates that came of them, the newest first."""
        query = _invitations_with_updates().where((invitations.c.task == task) & (invitations.c.device == device))
        query = query if before is None else query.where(invitations.c.round < before)
        return self._rows(MemberRow, query.order_by(invitations.c.round.desc()).limit(limit))

    def devices(
        self,
        *,
        limit: int,
        after: str | None = None,
        standing: str | None = None,
        online: bool | None = None,
        label: str | None = None,
        search: str | None = None,
    ) -> list[DeviceRow]:
        """Devices by name: all, or those of one standing, presence or label, or with this in their name or label."""
        query = DeviceRow.select(devices).order_by(devices.c.device).limit(limit)
        query = query if after is None else query.where(devices.c.device > after)
        query = query if standing is None else query.where(devices.c.standing == standing)
        query = query if label is None else query.where(devices.c.label == label)
        if search:
            texts = (search, search.lower())  # SQLite makes ASCII small only
            found = (column.icontains(text, autoescape=True) for column in _NAMES for text in texts)
            query = query.where(sa.or_(*found))
        return self._rows(DeviceRow, query if online is None else query.where(devices.c.online.is_(online)))

    def standings(self) -> list[StandingCount]:
        """How many devices there are of each standing, presence and gate."""
        by = (devices.c.standing, devices.c.online, devices.c.gate)
        return self._rows(StandingCount, sa.select(*by, sa.func.count().label("devices")).group_by(*by))

    def known(self, names: Iterable[str]) -> dict[str, DeviceRow]:
        """The devices of these names that there are."""
        query = DeviceRow.select(devices).where(devices.c.device.in_(list(names)))
        return {row.device: row for row in self._rows(DeviceRow, query)}

    def models(self, task: str, *, limit: int, before: int | None) -> list[ModelRow]:
        """The newest models first."""
        query = ModelRow.select(models).where(models.c.task == task).order_by(models.c.version.desc()).limit(limit)
        return self._rows(ModelRow, query if before is None else query.where(models.c.version < before))

    def current(self) -> dict[str, int]:
        """The current version by task."""
        return {row.task: row.current for row in self._rows(TaskRow, TaskRow.select(tasks))}

    def public(self) -> set[str]:
        """Files that devices may ask for: current models, and those that rounds under way began with."""
        of_current = sa.and_(tasks.c.task == models.c.task, tasks.c.current == models.c.version)
        current = sa.select(models.c.blob).join(tasks, of_current)
        begun = sa.select(rounds.c.base).where(rounds.c.state.not_in(FINISHED) & rounds.c.base.is_not(None))
        with self._db.reading() as tx:
            return {*tx.execute(current).scalars(), *tx.execute(begun).scalars()}

    def events(self, kinds: Iterable[str], limit: int, *, by: Iterable[str]) -> list[EventRow]:
        """The newest events of these kinds that these caused."""
        query = EventRow.select(events).where(events.c.kind.in_(list(kinds)) & events.c.who.in_(list(by)))
        return self._rows(EventRow, query.order_by(events.c.id.desc()).limit(limit))


def _one(condition: sa.ColumnElement[bool]) -> sa.Case[int]:
    return sa.case((condition, 1), else_=0)


def _mean(value: sa.ColumnElement[Any], weight: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Weighted mean over the finite values; NULL without any. No device weighs more than `MOST_CLIPS` clips."""
    weight = sa.case((weight > MOST_CLIPS, MOST_CLIPS), else_=weight)
    usable = value.between(-LARGEST, LARGEST)
    total = sa.func.sum(sa.case((usable, weight), else_=0))
    return sa.func.sum(sa.case((usable, value * weight), else_=0.0)) / sa.func.nullif(total, 0)


def _invitations_with_updates() -> sa.Select[Any]:
    same = sa.and_(*(invitations.c[key] == updates.c[key] for key in ("task", "round", "device")))
    own = InvitationRow.__struct_fields__
    columns = [invitations.c[name] if name in own else updates.c[name] for name in MemberRow.__struct_fields__]
    return sa.select(*columns).select_from(invitations.outerjoin(updates, same))
