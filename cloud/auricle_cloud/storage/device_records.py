"""Devices in the database: who they are, whether they may take part, and how often they did."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence

import sqlalchemy as sa

from auricle.errors import StorageError, nearest
from auricle.wire.messages import DeviceState, Register
from auricle.wire.update_codec import MOVES
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.journal import note, note_each
from auricle_cloud.storage.rows import DeviceRow, RefusalRow, Standing
from auricle_cloud.storage.schema import claims, devices, hearing, personal_models, refusals

AT_ONCE = 1000
"""Names that one query asks for."""
_UNHEARD = ~devices.c.online & devices.c.offline_since.is_(None)


class Devices:
    """The devices of one coordinator."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def register(self, message: Register, standing: Standing) -> bool:
        """Enter or refresh a device; False when its name is taken by another key."""
        with self._db.writing() as tx:
            return self.enter(tx, message, standing)

    def enter(self, tx: sa.Connection, message: Register, standing: Standing, *, approve_claimed: bool = False) -> bool:
        """Enter or refresh a device in a transaction; False when its name is taken by another key.

        A new one gets this `standing`, or is approved if it has exchanged a token that an operator made for its name;
        a known one keeps its own.
        """
        now = time.time()
        if approve_claimed and standing == "pending":
            used = sa.select(claims.c.used).where((claims.c.device == message.device) & claims.c.used.is_not(None))
            standing = "pending" if tx.execute(used).first() is None else "approved"
        fresh = {
            "boot": message.boot,
            "online": True,
            "pack": message.pack,
            "architecture": message.architecture,
            "samples": message.samples,
            "agent": message.agent,
            "capabilities": " ".join((*message.capabilities, *(codec for codec in MOVES if codec in message.codecs))),
            "last_seen": now,
            "offline_since": None,
        }
        added = {"public_key": message.public_key, "first_seen": now, "standing": standing}
        if self._db.insert_missing(tx, devices, device=message.device, **added, **fresh):
            note(tx, "registered", device=message.device, detail=standing)
            return True
        own = (devices.c.device == message.device) & (devices.c.public_key == message.public_key)
        return tx.execute(sa.update(devices).where(own).values(**fresh)).rowcount > 0

    @staticmethod
    def rekey(tx: sa.Connection, device: str, public_key: bytes) -> None:
        """Believe this key, and the one before no more; everything else about the device stays."""
        tx.execute(sa.update(devices).where(devices.c.device == device).values(public_key=public_key))
        tx.execute(sa.delete(hearing).where(hearing.c.device == device))  # the new board counts its reports from 1

    def presence(self, message: DeviceState, *, kept: bool = False) -> None:
        """Note a birth or a will; a will counts only for the boot of the last birth.

        Parameters
        ----------
        kept
            The broker had kept it: a birth then says how the device was when it was last here, not that it is.
        """
        with self._db.writing() as tx:
            self.notice(tx, message, kept=kept)

    @staticmethod
    def notice(tx: sa.Connection, message: DeviceState, *, kept: bool = False) -> None:
        """Note a birth or a will in a transaction; parameters as of `presence`."""
        row = sa.update(devices).where(devices.c.device == message.device)
        now = time.time()
        if message.online:
            # PostgreSQL's texts hold no NUL: with one in it this could never be written, and would be sent for ever.
            gate = {"gate": message.gate, "gate_reason": message.gate_reason.replace("\0", "")}
            tx.execute(row.values(boot=message.boot, sensitivity_now=message.sensitivity, **gate))
            if not kept:
                Devices.heard_again(tx, message.device, now)
        else:
            unheard = sa.func.coalesce(devices.c.offline_since, devices.c.last_seen)
            since = sa.case((devices.c.online, now), else_=unheard)
            tx.execute(row.where(devices.c.boot == message.boot).values(online=False, offline_since=since))

    @staticmethod
    def heard_again(tx: sa.Connection, device: str, at: float) -> None:
        """Note in a transaction that a device is here: a message of it came."""
        row = sa.update(devices).where((devices.c.device == device) & (devices.c.standing != "revoked"))
        tx.execute(row.values(online=True, offline_since=None, last_seen=at))

    def heard(self, times: Mapping[str, float]) -> None:
        """Note when the last message of these devices came."""
        rows = [{"name": name, "at": at} for name, at in times.items()]
        if rows:
            with self._db.writing() as tx:
                change = sa.update(devices).where(devices.c.device == sa.bindparam("name"))
                tx.execute(change.values(last_seen=sa.bindparam("at")), rows)

    def forget_presence(self) -> None:
        """Believe no device to be here until it is heard: a coordinator has started, or leaves."""
        with self._db.writing() as tx:
            tx.execute(sa.update(devices).where(devices.c.online).values(online=False, offline_since=None))

    def unheard(self) -> set[str]:
        """Approved devices of which nobody knows yet whether they are here."""
        query = sa.select(devices.c.device).where(_UNHEARD & (devices.c.standing == "approved"))
        with self._db.reading() as tx:
            return set(tx.execute(query).scalars())

    def give_up_unheard(self) -> None:
        """Devices that nobody heard since the coordinator started are offline, since their last message."""
        with self._db.writing() as tx:
            tx.execute(sa.update(devices).where(_UNHEARD).values(offline_since=devices.c.last_seen))

    def all(self) -> list[DeviceRow]:
        """Every known device, by name."""
        with self._db.reading() as tx:
            return DeviceRow.read(tx, DeviceRow.select(devices).order_by(devices.c.device))

    def tally(self) -> dict[tuple[Standing, bool], int]:
        """How many devices are known of each standing, and online or not."""
        kinds = (devices.c.standing, devices.c.online)
        with self._db.reading() as tx:
            found = tx.execute(sa.select(*kinds, sa.func.count()).group_by(*kinds))
            return {(standing, bool(online)): count for standing, online, count in found}

    def how_many(self) -> int:
        """How many devices are known."""
        with self._db.reading() as tx:
            return tx.execute(sa.select(sa.func.count()).select_from(devices)).scalar() or 0

    def approved(self) -> set[str]:
        """Names of the devices that may take part."""
        with self._db.reading() as tx:
            return set(tx.execute(sa.select(devices.c.device).where(devices.c.standing == "approved")).scalars())

    def not_gone(self) -> set[str]:
        """Names of the devices that are here, or of which nobody knows yet."""
        with self._db.reading() as tx:
            return set(tx.execute(sa.select(devices.c.device).where(devices.c.online | _UNHEARD)).scalars())

    def get(self, name: str) -> DeviceRow:
        """One device; StorageError with a hint when it is not known."""
        with self._db.reading() as tx:
            row = DeviceRow.first(tx, DeviceRow.select(devices).where(devices.c.device == name))
            if row is None:
                raise self._unknown(tx, name)
            return row

    def several(self, names: Sequence[str]) -> list[DeviceRow | None]:
        """Some devices in this order; None for one that is not known."""
        with self._db.reading() as tx:
            rows = DeviceRow.read(tx, DeviceRow.select(devices).where(devices.c.device.in_(names)))
        known = {row.device: row for row in rows}
        return [known.get(name) for name in names]

    @staticmethod
    def _unknown(tx: sa.Connection, name: str) -> StorageError:
        names = tx.execute(sa.select(devices.c.device)).scalars().all()
        return StorageError(f'There is no device "{name}"; {nearest(name, names) if names else "none registered yet."}')

    def keys(self) -> dict[str, bytes]:
        """Public keys by device; those of revoked ones are left out."""
        query = sa.select(devices.c.device, devices.c.public_key).where(devices.c.standing != "revoked")
        with self._db.reading() as tx:
            return {device: bytes(key) for device, key in tx.execute(query)}

    def revoked(self) -> set[str]:
        """Devices whose key is not trusted any more."""
        with self._db.reading() as tx:
            return set(tx.execute(sa.select(devices.c.device).where(devices.c.standing == "revoked")).scalars())

    def able(self, names: Iterable[str], capability: str) -> set[str]:
        """Those of these devices that said this capability when they registered last."""
        wanted, found = sorted(names), set[str]()
        with self._db.reading() as tx:
            for start in range(0, len(wanted), AT_ONCE):
                asked = devices.c.device.in_(wanted[start : start + AT_ONCE])
                rows = tx.execute(sa.select(devices.c.device, devices.c.capabilities).where(asked))
                found |= {row.device for row in rows if capability in row.capabilities.split()}
        return found

    def registered(self, names: Collection[str]) -> dict[str, int]:
        """Training clips that these devices said they had when they registered last; of those that are known."""
        with self._db.reading() as tx:
            rows = tx.execute(sa.select(devices.c.device, devices.c.samples))
            return {row.device: row.samples for row in rows if row.device in names}

    def registered_of_all(self) -> list[int]:
        """Training clips that each approved device said it had when it registered last."""
        query = sa.select(devices.c.samples).where(devices.c.standing == "approved")
        with self._db.reading() as tx:
            return list(tx.execute(query.order_by(devices.c.device)).scalars())

    def set_standing(self, names: Iterable[str], standing: Standing, *, who: str, reason: str = "") -> list[str]:
        """Approve, quarantine or revoke devices, all or none of them; those whose standing changed.

        Raises
        ------
        StorageError
            A device is not known, or was revoked: its key is not trusted again, it has to register under a new name.
        """
        wanted = sorted(set(names))
        changed: list[str] = []
        with self._db.writing() as tx:
            for start in range(0, len(wanted), AT_ONCE):
                changed += self._set_standing(tx, wanted[start : start + AT_ONCE], standing, reason)
            note_each(tx, standing, changed, who=who, detail=reason)
        return changed

    def _set_standing(self, tx: sa.Connection, names: Sequence[str], standing: Standing, reason: str) -> list[str]:
        query = sa.select(devices.c.device, devices.c.standing).where(devices.c.device.in_(names))
        before = {row.device: row.standing for row in tx.execute(query)}
        for name in names:
            if name not in before:
                raise self._unknown(tx, name)
            if before[name] == "revoked" != standing:
                raise StorageError(f"{name} was revoked for good: register the device under a new name.")
        changed = [name for name in names if before[name] != standing]
        change = sa.update(devices).where(devices.c.device.in_(changed)).values(standing=standing, reason=reason[:200])
        # A revoked one may be connected still, and is not heard any more.
        gone = {"online": False, "offline_since": sa.func.coalesce(devices.c.offline_since, time.time())}
        tx.execute(change.values(**gone) if standing == "revoked" else change)
        return changed

    def forget(self, name: str, *, who: str, reason: str = "") -> None:
        """Forget a device that has left; its rounds, and what it was given, stay known.

        The token that it used lets nobody else in: who registers under its name is new.

        Raises
        ------
        StorageError
            It is not known, is online, or was revoked: a revoked one that is forgotten could come back.
        """
        row = self.get(name)
        if row.standing == "revoked":
            raise StorageError(f"{name} was revoked for good: if it were forgotten, it could come back.")
        if row.online:
            raise StorageError(f"{name} is online: stop its agent first, or it registers again at once.")
        with self._db.writing() as tx:
            for table in (devices, hearing, refusals, personal_models):
                tx.execute(sa.delete(table).where(table.c.device == name))
            tx.execute(sa.delete(claims).where((claims.c.device == name) & claims.c.used.is_not(None)))
            note(tx, "forgotten", device=name, who=who, detail=reason)

    def set_label(self, name: str, label: str, *, who: str) -> None:
        """Give a device a name for people; StorageError when it is not known."""
        self.get(name)
        with self._db.writing() as tx:
            tx.execute(sa.update(devices).where(devices.c.device == name).values(label=label[:200]))
            note(tx, "labelled", device=name, who=who, detail=label)

    def set_sensitivity(self, names: Iterable[str], step: int, *, who: str, reason: str = "") -> None:
        """What devices are to be told of how much to hear; StorageError when one is not known: then none changes."""
        wanted = sorted(set(names))
        with self._db.writing() as tx:
            for start in range(0, len(wanted), AT_ONCE):
                part = wanted[start : start + AT_ONCE]
                known = set(tx.execute(sa.select(devices.c.device).where(devices.c.device.in_(part))).scalars())
                for name in part:
                    if name not in known:
                        raise self._unknown(tx, name)
                tx.execute(sa.update(devices).where(devices.c.device.in_(part)).values(sensitivity=step))
            note_each(tx, "sensitivity", wanted, who=who, detail=f"{step:+d} {reason}".strip())

    def of_label(self, label: str) -> list[str]:
        """Devices that have exactly this label, by name."""
        query = sa.select(devices.c.device).where(devices.c.label == label).order_by(devices.c.device)
        with self._db.reading() as tx:
            return list(tx.execute(query).scalars())

    def untuned(self) -> dict[str, int]:
        """The sensitivity wanted of devices that are here, take one, and have another in effect."""
        query = (
            sa.select(devices.c.device, devices.c.sensitivity)
            .where(
                devices.c.online, devices.c.standing == "approved", devices.c.sensitivity != devices.c.sensitivity_now
            )
            .order_by(devices.c.device)
        )
        with self._db.reading() as tx:
            return {row.device: row.sensitivity for row in tx.execute(query)}

    def add_refusals(self, counted: Mapping[tuple[str, str], tuple[int, str]]) -> None:
        """Add up refused frames: how many and the last detail, by device and reason code."""
        now = time.time()
        with self._db.writing() as tx:
            for (device, code), (count, detail) in counted.items():
                key = (refusals.c.device == device) & (refusals.c.code == code)
                self._db.insert_missing(tx, refusals, device=device, code=code, count=0, last=now, detail="")
                values = {"count": refusals.c.count + count, "last": now, "detail": detail[:200]}
                tx.execute(sa.update(refusals).where(key).values(**values))

    def refusals(self, device: str | None = None) -> list[RefusalRow]:
        """Refused frames by device and reason, of one device or of all."""
        query = RefusalRow.select(refusals).order_by(refusals.c.device, refusals.c.code)
        with self._db.reading() as tx:
            return RefusalRow.read(tx, query if device is None else query.where(refusals.c.device == device))
