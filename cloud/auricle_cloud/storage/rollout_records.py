"""Rollouts in the database: started, moved, and what devices say of themselves. Every change is one transaction.

Whoever changes a rollout or its devices holds one lock, so that nothing is decided on what has changed meanwhile.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

import sqlalchemy as sa

from auricle.errors import StorageError
from auricle.wire.messages import Release
from auricle_cloud.states.rollout import ERRORS, IN_FORCE, TRANSITIONS, Installable, Released, RolloutState, label
from auricle_cloud.states.rollout_plan import Rollout, Step
from auricle_cloud.storage.database import ROLLING
from auricle_cloud.storage.journal import note, note_each
from auricle_cloud.storage.release_records import RolloutDeviceRow
from auricle_cloud.storage.rollout_reader import RolloutReader
from auricle_cloud.storage.rollout_rows import heard, planned_step, read_rollout
from auricle_cloud.storage.schema import installations, rollout_devices, rollout_targets, rollouts


class Rollouts(RolloutReader):
    """All rollouts of one coordinator."""

    # -- by operators

    def start(
        self,
        targets: Sequence[Released],
        *,
        label: str | None,
        stages: Sequence[float],
        errors: float,
        minimum: int,
        soak: float,
        deadline: float,
        replacing: bool,
        who: str,
        hearing_hours: float | None = None,
    ) -> str:
        """Start a rollout; its name.

        Parameters
        ----------
        targets
            Releases, one for each board and system, or one pack.
        label
            Only devices of this label; None: all.
        replacing
            End rollouts that are under way for the same devices; finished ones of the same kind end in any case.

        hearing_hours
            Hours of reports of hearing that a stage waits for; None: it does not.

        Raises
        ------
        StorageError
            Another rollout is under way for some of the devices.
        """
        self._db.probe("before rollout started")
        with self._db.writing() as tx:
            self._db.hold(tx, ROLLING)
            number = (tx.execute(sa.select(sa.func.max(rollouts.c.number))).scalar() or 0) + 1
            # Devices remember names: after a restore the same number may come again, and must not be the same name.
            name = f"r{number}-{secrets.token_hex(2)}"
            for other in self._in_the_way(tx, targets, label, replacing):
                self._end(tx, other.rollout, "replaced", who, f"by {name}")
            row = {
                "rollout": name,
                "number": number,
                "state": "running",
                "label": label,
                "stages": list(stages),
                "stage": 0,
                "errors": errors,
                "minimum": minimum,
                "soak": soak,
                "deadline": deadline,
                "who": who,
                "started": time.time(),
                "hearing_hours": hearing_hours,
            }
            tx.execute(rollouts.insert().values(**row))
            tx.execute(
                rollout_targets.insert(),
                [{"rollout": name, **{key: getattr(t, key) for key in Installable.__struct_fields__}} for t in targets],
            )
            note(tx, "rollout started", who=who, detail=f"{name}: {', '.join(t.path for t in targets)}")
        self._db.probe("after rollout started")
        return name

    @staticmethod
    def _in_the_way(
        tx: sa.Connection, targets: Sequence[Released], label: str | None, replacing: bool
    ) -> list[Rollout]:
        """Rollouts for the same devices; refuses one that is under way, unless it is to be replaced."""
        names = tx.execute(sa.select(rollouts.c.rollout).where(rollouts.c.state.in_(IN_FORCE))).scalars().all()
        places = {(t.board, t.os) for t in targets}
        packs = any(t.kind == "pack" for t in targets)
        found = []
        for other in (read_rollout(tx, name) for name in names):
            theirs = {(t.board, t.os) for t in other.targets}
            their_packs = any(t.kind == "pack" for t in other.targets)
            meets = packs or their_packs or bool(theirs & places)
            if other.state == "finished":
                meets = packs == their_packs and bool(theirs & places)
            if meets and (label is None or other.label is None or label == other.label):
                if other.state != "finished" and not replacing:
                    raise StorageError(
                        f"The rollout {other.rollout} is {other.state} for some of these devices: abort it, or start "
                        "this one with --replace."
                    )
                found.append(other)
        return found

    def pause(self, name: str, *, who: str, reason: str = "") -> None:
        """Ask no more devices, until it is resumed."""
        self._change(
            name, ("running", "finished"), "paused", who=who, reason=reason or f"{who} paused it", settled=None
        )

    def resume(self, name: str, *, who: str, retry: bool = False) -> None:
        """Go on: errors so far, and what was reported of hearing, are forgiven, or devices that failed asked again."""
        passed = {} if retry else {"hearing_passed": rollouts.c.stage}
        with self._changing(name, ("paused",), "running", who=who, reason="", settled=None, **passed) as tx:
            own = (rollout_devices.c.rollout == name) & rollout_devices.c.state.in_(ERRORS)
            again = {
                "state": "waiting",
                "attempt": rollout_devices.c.attempt + 1,
                "step": "",
                "reason": "",
                "heard": None,
                "decided": None,
                "forgiven": False,
                "entered": time.time(),
            }
            tx.execute(sa.update(rollout_devices).where(own).values(**(again if retry else {"forgiven": True})))

    def abort(self, name: str, *, who: str, reason: str = "") -> None:
        """End it: nobody is asked any more; devices that have begun continue on their own."""
        self._change(name, IN_FORCE, "aborted", who=who, reason=reason or f"{who} aborted it", ended=time.time())

    def _change(
        self, name: str, of: Sequence[RolloutState], new: RolloutState, *, who: str, reason: str, **values: object
    ) -> None:
        with self._changing(name, of, new, who=who, reason=reason, **values):
            pass

    @contextmanager
    def _changing(
        self, name: str, of: Sequence[RolloutState], new: RolloutState, *, who: str, reason: str, **values: object
    ) -> Iterator[sa.Connection]:
        """The transaction of an operator's change; StorageError where the rollout is in none of these states."""
        was: RolloutState = self.get(name).state
        self._db.probe(f"before {label(was, new)}")
        with self._db.writing() as tx:
            self._db.hold(tx, ROLLING)
            there = rollouts.c.rollout == name
            old = tx.execute(sa.select(rollouts.c.state).where(there)).scalar()
            if old not in of or (old, new) not in TRANSITIONS:
                raise StorageError(f"The rollout {name} is {old}: it cannot become {new}.")
            tx.execute(sa.update(rollouts).where(there).values(state=new, reason=reason, **values))
            note(tx, f"rollout {new}", who=who, detail=f"{name} {reason}".strip())
            yield tx
        self._db.probe(f"after {label(was, new)}")

    @staticmethod
    def _end(tx: sa.Connection, name: str, state: RolloutState, who: str, reason: str) -> None:
        values = {"state": state, "reason": reason, "ended": time.time(), "settled": None}
        tx.execute(sa.update(rollouts).where(rollouts.c.rollout == name).values(**values))
        note(tx, f"rollout {state}", who=who, detail=f"{name} {reason}")

    # -- by the coordinator

    def step(self, name: str, now: float, fleet: str) -> bool:
        """Take a rollout's next step, if there is one; whether there was."""
        with self._db.reading() as tx:
            if not _changes(planned_step(tx, name, now, fleet)):
                return False
        with self._db.writing() as tx:
            self._db.hold(tx, ROLLING)
            step = planned_step(tx, name, now, fleet)
            what = self._apply(tx, name, step)
            # inside of the transaction, for only here it is known what it does
            self._db.probe(f"before {what}")
        self._db.probe(f"after {what}")
        return _changes(step)

    def _apply(self, tx: sa.Connection, name: str, step: Step) -> str:
        for member in step.members:
            row = {key: value for key, value in asdict(member).items() if key != "device"}
            self._db.upsert(tx, rollout_devices, {"rollout": name, "device": member.device}, row)
            if member.state in ("updated", "silent"):
                _tell(tx, name, member.device, member.state, member.reason)
        new = step.rollout
        if new is None:
            return "rollout devices"
        old = tx.execute(sa.select(rollouts.c.state).where(rollouts.c.rollout == name)).scalar()
        values = {"state": new.state, "stage": new.stage, "settled": new.settled, "reason": new.reason}
        before = tx.execute(sa.select(rollouts.c.stage).where(rollouts.c.rollout == name)).scalar()
        tx.execute(sa.update(rollouts).where(rollouts.c.rollout == name).values(**values))
        if new.state == old and new.stage == before:
            return "rollout settled"
        detail = f"{name}: stage {new.stage + 1}" if new.state == old else f"{name}: {new.reason or 'all stages'}"
        note(tx, "rollout stage" if new.state == old else f"rollout {new.state}", detail=detail)
        return label(old, new.state)  # type: ignore[arg-type]

    # -- by devices

    def enter(self, tx: sa.Connection, message: Release) -> list[tuple[str, str]]:
        """Keep what a device says of itself, and what follows for its rollouts: their names and the device's states."""
        self._db.hold(tx, ROLLING)
        now, reason = time.time(), message.reason.replace("\0", "")
        row = {
            "board": message.board,
            "os": message.os,
            "bundle": message.bundle,
            "version": message.version,
            "pack": message.pack,
            "confirmed": message.confirmed,
            "rollout": message.rollout,
            "state": message.state,
            "reason": reason,
            "at": now,
        }
        self._db.upsert(tx, installations, {"device": message.device}, row)
        own = rollout_devices.c.device == message.device
        changed: list[tuple[str, str]] = []
        for member in RolloutDeviceRow.read(tx, RolloutDeviceRow.select(rollout_devices).where(own)):
            values = heard(member, message, reason, now)
            if values:
                key = own & (rollout_devices.c.rollout == member.rollout)
                tx.execute(sa.update(rollout_devices).where(key).values(**values))
                state = values.get("state", member.state)
                if "state" in values:
                    _tell(tx, member.rollout, message.device, state, reason)
                changed.append((member.rollout, state))
        return changed


def _changes(step: Step) -> bool:
    return bool(step.members) or step.rollout is not None


def _tell(tx: sa.Connection, name: str, device: str, state: str, reason: str) -> None:
    kind = "updated" if state == "updated" else f"update {state}"
    note_each(tx, kind, [device], detail=f"{name}: {reason}" if reason else name)
