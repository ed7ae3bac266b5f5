"""API tokens and schedules in the database."""

from __future__ import annotations

import hashlib
import re
import secrets
import time

import sqlalchemy as sa

from auricle.errors import SettingsError, StorageError, nearest
from auricle_cloud.storage.access_rows import ROLES, Role, ScheduleRow, TokenRow
from auricle_cloud.storage.database import TOKENS, Database
from auricle_cloud.storage.journal import note
from auricle_cloud.storage.schema import schedules, tokens

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_AT = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]|always")


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise SettingsError(f'The name "{name}" is not allowed: use 1 to 64 letters, digits, dots, hyphens.')
    return name


class Tokens:
    """Who may use the API. Only hashes are kept."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def create(self, name: str, role: str, *, days: float | None = None, who: str = "") -> str:
        """Make a token and return it: it is never shown again.

        Raises
        ------
        SettingsError
            Name, role or lifetime is not allowed.
        StorageError
            The name is taken.
        """
        _check_name(name)
        if role not in ROLES:
            raise SettingsError(f'There is no role "{role}"; {nearest(role, ROLES)}')
        if days is not None and not 0 < days <= 36500:
            raise SettingsError("A token lives more than 0 and at most 36500 days.")
        token = f"auricle_{secrets.token_urlsafe(32)}"
        now = time.time()
        row = {
            "role": role,
            "hash": _hash(token),
            "created": now,
            "expires": None if days is None else now + days * 86400,
        }
        with self._db.writing() as tx:
            if not self._db.insert_missing(tx, tokens, name=name, **row):
                raise StorageError(f'There is already a token "{name}": revoke it first, or choose another name.')
            note(tx, "token created", who=who, detail=f"{name} ({role})")
        return token

    def revoke(self, name: str, *, who: str = "") -> None:
        """Make a token worthless; StorageError when none has this name, or it is the last admin's that can be used."""
        with self._db.writing() as tx:
            self._db.hold(tx, TOKENS)
            if self._admins(tx) == [name]:
                raise StorageError(
                    f'"{name}" is the last token of an admin: make another first, with auricle cloud tokens create '
                    "NAME --role admin."
                )
            if tx.execute(sa.delete(tokens).where(tokens.c.name == name)).rowcount != 1:
                names = tx.execute(sa.select(tokens.c.name)).scalars().all()
                raise StorageError(
                    f'There is no token "{name}"; {nearest(name, names) if names else "none exists yet."}'
                )
            note(tx, "token revoked", who=who, detail=name)

    @staticmethod
    def _admins(tx: sa.Connection) -> list[str]:
        """Whose token is an admin's, and can be used still."""
        lives = tokens.c.expires.is_(None) | (tokens.c.expires >= time.time())
        query = sa.select(tokens.c.name).where((tokens.c.role == "admin") & lives)
        return list(tx.execute(query.order_by(tokens.c.name)).scalars())

    def all(self) -> list[TokenRow]:
        """Names, roles and times of all tokens."""
        with self._db.reading() as tx:
            return TokenRow.read(tx, TokenRow.select(tokens).order_by(tokens.c.name))

    def holder(self, token: str) -> tuple[str, Role] | None:
        """Name and role of a token; None when it is unknown or has expired."""
        with self._db.reading() as tx:
            row = TokenRow.first(tx, TokenRow.select(tokens).where(tokens.c.hash == _hash(token)))
        if row is None or (row.expires is not None and row.expires < time.time()):
            return None
        return row.name, row.role


def _hash(token: str) -> bytes:
    """SHA-256 is enough for 256 random bits."""
    return hashlib.sha256(token.encode()).digest()


class Schedules:
    """When rounds start automatically."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def set(self, name: str, *, task: str, at: str, idle: int, rounds: int, who: str = "") -> None:
        """Enter or change a schedule.

        Parameters
        ----------
        at
            `HH:MM` of every day on the coordinator's clock, or `always`: as soon as no round is planned.
        idle
            Devices that must be ready to train.
        rounds
            Rounds to plan each time.

        Raises
        ------
        SettingsError
            A value is not allowed.
        """
        _check_name(name)
        if not _AT.fullmatch(at):
            raise SettingsError(f'The time "{at}" is not one: write HH:MM, or always.')
        if not 1 <= idle <= 1_000_000 or not 1 <= rounds <= 10_000:
            raise SettingsError("A schedule waits for 1 to 1000000 idle devices and plans 1 to 10000 rounds.")
        with self._db.writing() as tx:
            row = {"task": task, "at": at, "idle": idle, "rounds": rounds, "last": time.time()}
            self._db.upsert(tx, schedules, {"name": name}, row)
            note(tx, "scheduled", task=task, who=who, detail=f"{name}: {rounds} rounds at {at}, {idle} idle")

    def remove(self, name: str, *, who: str = "") -> None:
        """Forget a schedule; StorageError when none has this name."""
        with self._db.writing() as tx:
            if tx.execute(sa.delete(schedules).where(schedules.c.name == name)).rowcount != 1:
                raise StorageError(f'There is no schedule "{name}".')
            note(tx, "schedule removed", who=who, detail=name)

    def all(self) -> list[ScheduleRow]:
        """All schedules by name."""
        with self._db.reading() as tx:
            return ScheduleRow.read(tx, ScheduleRow.select(schedules).order_by(schedules.c.name))

    def ran(self, name: str, at: float) -> None:
        """Note that a schedule has planned its rounds."""
        with self._db.writing() as tx:
            tx.execute(sa.update(schedules).where(schedules.c.name == name).values(last=at))
