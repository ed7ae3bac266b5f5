"""Rollouts as they are in the database: which there are, what they install, and how far their devices are."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from msgspec.structs import replace

from auricle.errors import StorageError, nearest
from auricle_cloud.states.rollout import ENDED, IN_FORCE, OFFERING, RolloutState
from auricle_cloud.states.rollout_plan import Device, Member, Rollout, told_name
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.release_records import AskedRow, InstallationRow, RolloutRow
from auricle_cloud.storage.rollout_rows import read_devices, read_members, read_rollout
from auricle_cloud.storage.schema import devices, installations, rollout_devices, rollout_targets, rollouts


class RolloutReader:
    """Looks at the rollouts of one coordinator."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, name: str) -> RolloutRow:
        """One rollout; StorageError with a hint when it is not there."""
        with self._db.reading() as tx:
            row = RolloutRow.first(tx, RolloutRow.select(rollouts).where(rollouts.c.rollout == name))
            if row is None:
                known = tx.execute(sa.select(rollouts.c.rollout)).scalars().all()
                raise StorageError(f'There is no rollout "{name}"; {nearest(name, known) if known else "none yet."}')
            return row

    def listed(self, *, limit: int, before: int | None = None) -> list[RolloutRow]:
        """The newest first."""
        query = RolloutRow.select(rollouts).order_by(rollouts.c.number.desc()).limit(limit)
        query = query if before is None else query.where(rollouts.c.number < before)
        with self._db.reading() as tx:
            return RolloutRow.read(tx, query)

    def in_force(self) -> list[str]:
        """Rollouts that have not ended, the oldest first."""
        query = sa.select(rollouts.c.rollout).where(rollouts.c.state.in_(IN_FORCE)).order_by(rollouts.c.number)
        with self._db.reading() as tx:
            return list(tx.execute(query).scalars())

    def watched(self, most: int) -> dict[str, tuple[RolloutState, dict[str, int]]]:
        """The newest that have not ended and the last that has: state, and devices by state."""
        ended = sa.select(sa.func.max(rollouts.c.number)).where(rollouts.c.state.in_(ENDED)).scalar_subquery()
        query = sa.select(rollouts.c.rollout, rollouts.c.state).order_by(rollouts.c.number.desc()).limit(most)
        with self._db.reading() as tx:
            rows = tx.execute(query.where(rollouts.c.state.in_(IN_FORCE) | (rollouts.c.number == ended)))
            states: dict[str, RolloutState] = {row.rollout: row.state for row in rows}
        tallies = self.tallies(states) if states else {}
        return {name: (state, tallies[name]) for name, state in states.items()}

    def offers(self, path: str) -> list[str]:
        """Rollouts in force that install this."""
        query = sa.select(rollouts.c.rollout).join(rollout_targets, rollout_targets.c.rollout == rollouts.c.rollout)
        query = query.where(rollouts.c.state.in_(IN_FORCE), rollout_targets.c.path == path)
        with self._db.reading() as tx:
            return list(tx.execute(query.order_by(rollouts.c.number)).scalars())

    def tallies(self, names: Iterable[str]) -> dict[str, dict[str, int]]:
        """Devices by rollout and state."""
        found: dict[str, dict[str, int]] = {name: {} for name in names}
        columns = (rollout_devices.c.rollout, rollout_devices.c.state)
        query = sa.select(*columns, sa.func.count().label("devices")).where(columns[0].in_(list(found)))
        with self._db.reading() as tx:
            for row in tx.execute(query.group_by(*columns)):
                found[row.rollout][row.state] = row.devices
        return found

    def targets(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Paths of what rollouts install."""
        found: dict[str, list[str]] = {name: [] for name in names}
        query = sa.select(rollout_targets.c.rollout, rollout_targets.c.path).order_by(rollout_targets.c.path)
        with self._db.reading() as tx:
            for row in tx.execute(query.where(rollout_targets.c.rollout.in_(list(found)))):
                found[row.rollout].append(row.path)
        return found

    def whole(self, name: str) -> tuple[Rollout, dict[str, Member], list[Device]]:
        """A rollout, its devices, and all devices that said what they run."""
        self.get(name)
        with self._db.reading() as tx:
            return read_rollout(tx, name), read_members(tx, name), read_devices(tx)

    def installed(self, names: Iterable[str]) -> dict[str, InstallationRow]:
        """What devices said last of what they run, by device."""
        query = InstallationRow.select(installations).where(installations.c.device.in_(list(names)))
        with self._db.reading() as tx:
            return {row.device: row for row in InstallationRow.read(tx, query)}

    def asked(self) -> list[AskedRow]:
        """Devices that are here and have not answered, with what they were asked to install."""
        same = sa.and_(
            rollout_targets.c.rollout == rollout_devices.c.rollout, rollout_targets.c.path == rollout_devices.c.path
        )
        query = (
            sa.select(
                rollout_devices.c.rollout,
                rollout_devices.c.device,
                rollout_targets.c.kind,
                rollout_targets.c.path,
                rollout_targets.c.identity,
                rollout_devices.c.attempt,
            )
            .join(rollout_targets, same)
            .join(rollouts, rollouts.c.rollout == rollout_devices.c.rollout)
            .join(devices, devices.c.device == rollout_devices.c.device)
            .where(rollouts.c.state.in_(OFFERING), rollout_devices.c.state == "asked")
            .where(devices.c.online, devices.c.standing == "approved")
            .order_by(rollout_devices.c.device)
        )
        with self._db.reading() as tx:
            rows = AskedRow.read(tx, query)
        return [replace(row, rollout=told_name(row.rollout, row.attempt)) for row in rows]
