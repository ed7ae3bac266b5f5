"""What the devices of a rollout, and the others, have reported of their hearing."""

from __future__ import annotations

import sqlalchemy as sa

from auricle_cloud.states.hearing_comparison import Heard
from auricle_cloud.states.hearing_hold import Evidence
from auricle_cloud.storage.hearing_records import DAY, QUARTER, complaints
from auricle_cloud.storage.schema import devices, hearing, rollout_devices, rollouts

BEFORE = 14 * DAY
"""How far back reports before an update count."""


def read_evidence(tx: sa.Connection, name: str) -> Evidence:
    """The reports around a rollout; a device that ran its target before it was asked shows no difference."""
    began = hearing.c.at - QUARTER * hearing.c.span
    joined = hearing.join(devices, devices.c.device == hearing.c.device)
    own = joined.join(rollout_devices, rollout_devices.c.device == hearing.c.device)
    asked = (rollout_devices.c.rollout == name) & rollout_devices.c.heard.is_not(None)
    updated = asked & (rollout_devices.c.state == "updated")
    since = began >= rollout_devices.c.decided
    before = (hearing.c.at <= rollout_devices.c.entered) & (began >= rollout_devices.c.entered - BEFORE)
    given = sa.select(rollout_devices.c.device).where(rollout_devices.c.rollout == name)
    given = given.where(rollout_devices.c.state != "waiting")
    started = sa.select(rollouts.c.started).where(rollouts.c.rollout == name).scalar_subquery()
    without = hearing.c.device.not_in(given) & (began >= started)
    return Evidence(
        updated=_heard(tx, own, updated & since),
        before=_heard(tx, own, updated & before),
        others=_heard(tx, joined, without),
    )


def _heard(tx: sa.Connection, of: sa.FromClause, where: sa.ColumnElement[bool]) -> tuple[Heard, ...]:
    sums = (sa.func.sum(complaints()).label("complaints"), sa.func.sum(hearing.c.heard).label("heard"))
    query = sa.select(hearing.c.device, *sums).select_from(of).where(where, devices.c.standing == "approved")
    rows = tx.execute(query.group_by(hearing.c.device).order_by(hearing.c.device))
    return tuple(Heard(row.device, int(row.complaints), int(row.heard) / 4) for row in rows)
