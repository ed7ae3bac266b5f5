"""Rows of rollouts and reports of hearing as the values that a plan is made of, and what a device's word changes."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import fields
from typing import TypedDict

import sqlalchemy as sa

from auricle.wire.messages import Release
from auricle_cloud.states.hearing_comparison import Evidence, Heard
from auricle_cloud.states.rollout import OFFERING, DeviceState, Installable
from auricle_cloud.states.rollout_plan import Device, Member, Rollout, Step, next_step, told_name
from auricle_cloud.storage.hearing_records import QUARTER_SECONDS, complaints
from auricle_cloud.storage.hearing_rows import DAY_SECONDS
from auricle_cloud.storage.release_records import RolloutDeviceRow
from auricle_cloud.storage.schema import devices, hearing, installations, rollout_devices, rollout_targets, rollouts

MEMBER = [field.name for field in fields(Member)]
STEPS = ("fetching", "trial")
"""The way of an update, in its order."""
BEFORE = 14 * DAY_SECONDS
"""How far back reports before an update count."""


def planned_step(tx: sa.Connection, name: str, now: float, fleet: str) -> Step:
    """What a rollout does next, from its rows in this transaction; see `next_step`."""
    members = read_members(tx, name)
    others = (rollout_devices.c.rollout != name) & (rollout_devices.c.state == "asked")
    query = sa.select(rollout_devices.c.device).join(rollouts, rollouts.c.rollout == rollout_devices.c.rollout)
    busy: AbstractSet[str] = set(tx.execute(query.where(others, rollouts.c.state.in_(OFFERING))).scalars())
    rollout = read_rollout(tx, name)
    evidence = None if rollout.hearing_hours is None else read_evidence(tx, name)
    return next_step(rollout, members, read_devices(tx), busy, now, fleet, evidence)


def read_rollout(tx: sa.Connection, name: str) -> Rollout:
    """A rollout with its targets."""
    row = tx.execute(sa.select(rollouts).where(rollouts.c.rollout == name)).mappings().one()
    targets = tx.execute(
        sa.select(rollout_targets).where(rollout_targets.c.rollout == name).order_by(rollout_targets.c.path)
    ).mappings()
    own = tuple(Installable(**{key: value for key, value in target.items() if key != "rollout"}) for target in targets)
    kept = {field.name: row[field.name] for field in fields(Rollout) if field.name != "targets"}
    return Rollout(**{**kept, "stages": tuple(row["stages"])}, targets=own)


def read_members(tx: sa.Connection, name: str) -> dict[str, Member]:
    """Its devices by name."""
    columns = [rollout_devices.c[key] for key in MEMBER]
    rows = tx.execute(sa.select(*columns).where(rollout_devices.c.rollout == name)).mappings()
    return {row["device"]: Member(**row) for row in rows}


def read_devices(tx: sa.Connection) -> list[Device]:
    """Those that said what they run; the others are too old to follow a rollout."""
    own = (devices.c.device.label("name"), devices.c.standing, devices.c.online, devices.c.label)
    said = [installations.c[key] for key in ("board", "os", "bundle", "pack", "confirmed")]
    query = sa.select(*own, *said).join(installations, installations.c.device == devices.c.device)
    return [Device(**row) for row in tx.execute(query.order_by(devices.c.device)).mappings()]


class MemberChanges(TypedDict, total=False):
    """Columns of `rollout_devices` that a device's word changes."""

    state: DeviceState
    step: str
    reason: str
    heard: float
    decided: float


def heard(member: RolloutDeviceRow, message: Release, reason: str, now: float) -> MemberChanges:
    """What a device's word changes of its place in a rollout; only a healthy device on the target is updated."""
    runs = message.pack if member.path.startswith("pack/") else message.bundle
    if message.confirmed and runs == member.identity:
        return {} if member.state == "updated" else {"state": "updated", "reason": "", "decided": now}
    if message.rollout != told_name(member.rollout, member.attempt) or member.state not in ("asked", "silent"):
        return {}
    if message.state in ("failed", "refused"):
        return {"state": message.state, "reason": reason, "decided": now}
    if message.state in STEPS and member.state == "asked" and message.state not in STEPS[: _at(member.step)]:
        return {"step": message.state, "heard": now}
    return {}


def _at(step: str) -> int:
    """How many steps are behind: each prolongs the deadline once, and none twice."""
    return STEPS.index(step) + 1 if step in STEPS else 0


def read_evidence(tx: sa.Connection, name: str) -> Evidence:
    """The reports around a rollout; a device that ran its target before it was asked shows no difference."""
    began = hearing.c.at - QUARTER_SECONDS * hearing.c.span
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
        updated=_read_complaints(tx, own, updated & since),
        before=_read_complaints(tx, own, updated & before),
        others=_read_complaints(tx, joined, without),
    )


def _read_complaints(tx: sa.Connection, of: sa.FromClause, where: sa.ColumnElement[bool]) -> tuple[Heard, ...]:
    sums = (sa.func.sum(complaints()).label("complaints"), sa.func.sum(hearing.c.heard).label("heard"))
    query = sa.select(hearing.c.device, *sums).select_from(of).where(where, devices.c.standing == "approved")
    rows = tx.execute(query.group_by(hearing.c.device).order_by(hearing.c.device))
    return tuple(Heard(row.device, int(row.complaints), int(row.heard) / 4) for row in rows)
