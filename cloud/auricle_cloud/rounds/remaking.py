"""Rounds that are made again: what they left before is taken out, as if they had never been."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from operator import itemgetter

import sqlalchemy as sa

from auricle_cloud.storage.schema import devices, events, invitations, losses, models, rounds, tasks, updates


def forget_after(tx: sa.Connection, task: str, number: int) -> None:
    """Take the rounds after this one out, with all that they left: models, verdicts, events and counts of devices.

    Parameters
    ----------
    tx
        A transaction of its own.
    task, number
        Of which task, and the last round that stays.
    """
    gone = sa.select(sa.func.count()).where(_after(rounds, task, number))
    if not tx.execute(gone).scalar():
        return
    _count_again(tx, task, number)
    for table in (rounds, invitations, losses, updates, models, events):
        tx.execute(sa.delete(table).where(_after(table, task, number)))
    point(tx, task, _version_after(tx, task, number))


def point(tx: sa.Connection, task: str, version: int) -> None:
    """Have the next round begin with a version of the model; nobody is told."""
    tx.execute(sa.update(tasks).where(tasks.c.task == task).values(current=version))


def run_many(tx: sa.Connection, statement: sa.Insert | sa.Update, rows: Sequence[Mapping[str, object]]) -> None:
    """Run a statement for each row of its parameters, which the driver takes as they are: four times as fast."""
    if not rows:
        return
    made = statement.compile(dialect=tx.dialect)
    if made.positiontup is None:
        tx.exec_driver_sql(str(made), list(rows))
    else:
        tx.exec_driver_sql(str(made), list(map(itemgetter(*made.positiontup), rows)))


def _count_again(tx: sa.Connection, task: str, number: int) -> None:
    """Set what is counted of devices to what it was after a round."""

    def often(table: sa.Table, *more: sa.ColumnElement[bool]) -> list[dict[str, object]]:
        query = sa.select(table.c.device.label("name"), sa.func.count().label("times"))
        found = query.where(_after(table, task, number), *more).group_by(table.c.device)
        return [dict(row) for row in tx.execute(found).mappings()]

    less: sa.BindParameter[int] = sa.bindparam("times")
    who = devices.c.device == sa.bindparam("name")
    invited, blamed = often(invitations), often(events, events.c.kind == "verdict")
    barred = often(events, events.c.kind == "quarantined", events.c.who == "policy")
    counts: list[tuple[dict[str, object], list[dict[str, object]]]] = [
        ({"selected": devices.c.selected - less}, invited),
        ({"harmful_count": devices.c.harmful_count - less}, blamed),
        ({"standing": "approved", "reason": ""}, [{"name": row["name"]} for row in barred]),
        ({"left_out_rounds": less}, _left_out(tx, task, number)),
    ]
    for values, rows in counts:
        if rows:
            tx.execute(sa.update(devices).where(who).values(**values), rows)


def _left_out(tx: sa.Connection, task: str, number: int) -> list[dict[str, object]]:
    """Of devices that later rounds counted, in how many rounds running up to this one they were left out."""
    later = sa.select(updates.c.device).where(_after(updates, task, number)).distinct()
    before: dict[str, list[bool]] = {name: [] for name in tx.execute(later).scalars()}
    of = (updates.c.task == task) & (updates.c.round <= number)
    query = sa.select(updates.c.device, updates.c.left_out).where(of).order_by(updates.c.round.desc())
    for device, out in tx.execute(query):
        if device in before:
            before[device].append(out)
    return [{"name": name, "times": sum(takewhile(bool, outs))} for name, outs in before.items()]


def _version_after(tx: sa.Connection, task: str, number: int) -> int:
    """The version that was current after a round, of what is left."""
    columns = (rounds.c.state, rounds.c.base_version, rounds.c.report)
    key = (rounds.c.task == task) & (rounds.c.round == number)
    row = tx.execute(sa.select(*columns).where(key)).first()
    made = (models.c.task == task) & (models.c.round == number) & (models.c.origin == "round")
    found = tx.execute(sa.select(models.c.version).where(made)).scalar()
    if row is None or found is not None:
        return int(found or 0)
    back = (row.report or {}).get("went_back")
    return int(row.base_version or 0) if back is None else int(back)


def _after(table: sa.Table, task: str, number: int) -> sa.ColumnElement[bool]:
    return (table.c.task == task) & (table.c.round > number)
