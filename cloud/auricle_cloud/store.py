"""The coordinator's memory in SQL: devices, rounds, updates, models. Every change of state is one transaction."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from auricle.errors import StorageError
from auricle.messages import Register, Update

metadata = sa.MetaData()
meta = sa.Table("meta", metadata, sa.Column("key", sa.Text, primary_key=True), sa.Column("value", sa.Text))
devices = sa.Table(
    "devices",
    metadata,
    sa.Column("device", sa.Text, primary_key=True),
    sa.Column("public_key", sa.LargeBinary, nullable=False),
    sa.Column("boot", sa.Text, nullable=False),
    sa.Column("online", sa.Boolean, nullable=False),
    sa.Column("pack", sa.Text, nullable=False),
    sa.Column("architecture", sa.Text, nullable=False),
    sa.Column("samples", sa.Integer, nullable=False),
    sa.Column("first_seen", sa.Float, nullable=False),
    sa.Column("last_seen", sa.Float, nullable=False),
)
rounds = sa.Table(
    "rounds",
    metadata,
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("round", sa.Integer, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("base", sa.Text, nullable=False),
    sa.Column("cohort", sa.Text, nullable=False),
    sa.Column("plan", sa.LargeBinary, nullable=False),
    sa.Column("opened", sa.Float, nullable=False),
    sa.Column("closed", sa.Float),
    sa.Column("report", sa.Text),
)
updates = sa.Table(
    "updates",
    metadata,
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("round", sa.Integer, primary_key=True),
    sa.Column("device", sa.Text, primary_key=True),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("codec", sa.Text, nullable=False),
    sa.Column("samples", sa.Integer, nullable=False),
    sa.Column("loss", sa.Float),
    sa.Column("steps", sa.Integer, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("personal_accuracy", sa.Float),
    sa.Column("plugin_accuracy", sa.Float),
    sa.Column("held_out", sa.Integer, nullable=False),
    sa.Column("received", sa.Float, nullable=False),
)
models = sa.Table(
    "models",
    metadata,
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("blob", sa.Text, nullable=False),
    sa.Column("optimizer", sa.Text),
    sa.Column("created", sa.Float, nullable=False),
)


class Store:
    """State of one coordinator in SQLite (write-ahead log, full synchronisation).

    Parameters
    ----------
    path
        The database file; made when it is not there.
    must_exist
        Refuse to make it: for commands that only look.

    Raises
    ------
    StorageError
        It cannot be opened, or the disk is full.
    """

    def __init__(self, path: Path, *, must_exist: bool = False) -> None:
        self._path = path
        if must_exist and not path.is_file():
            raise StorageError(f"There is no coordinator's database at {path}.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{path.parent} cannot be made ({error.strerror}).") from error
        self._engine = sa.create_engine(sa.URL.create("sqlite", database=str(path)))

        @sa.event.listens_for(self._engine, "connect")
        def _pragmas(connection: Any, _record: Any) -> None:
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000"):
                connection.execute(f"PRAGMA {pragma}")

        with self._transaction() as tx:
            metadata.create_all(tx)

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except sa.exc.DBAPIError as error:
            raise StorageError(f"The database {self._path} cannot take this: {error.orig}.") from error
        except sqlite3.Error as error:
            raise StorageError(f"The database {self._path} cannot be opened: {error}.") from error

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    # -- coordinator

    def next_epoch(self) -> int:
        """Count this start: each coordinator process has a higher epoch than any before it."""
        with self._transaction() as tx:
            row = tx.execute(sa.select(meta.c.value).where(meta.c.key == "epoch")).scalar()
            epoch = int(row or 0) + 1
            tx.execute(insert(meta).values(key="epoch", value=str(epoch)).on_conflict_do_update(
                index_elements=["key"], set_={"value": str(epoch)}))  # fmt: skip
        return epoch

    # -- devices

    def register(self, message: Register) -> bool:
        """Enter or refresh a device; False when its name is taken by another key."""
        now = time.time()
        with self._transaction() as tx:
            known = tx.execute(sa.select(devices.c.public_key).where(devices.c.device == message.device)).scalar()
            if known is not None and known != message.public_key:
                return False
            fresh = {
                "boot": message.boot, "online": True, "pack": message.pack, "architecture": message.architecture,
                "samples": message.samples, "last_seen": now,
            }  # fmt: skip
            statement = insert(devices).values(
                device=message.device, public_key=message.public_key, first_seen=now, **fresh
            )
            tx.execute(statement.on_conflict_do_update(index_elements=["device"], set_=fresh))
        return True

    def presence(self, device: str, boot: str, *, online: bool) -> None:
        """Note a birth or a will; a will counts only for the boot of the last birth."""
        with self._transaction() as tx:
            row = sa.update(devices).where(devices.c.device == device)
            if online:
                tx.execute(row.values(boot=boot, online=True, last_seen=time.time()))
            else:
                tx.execute(row.where(devices.c.boot == boot).values(online=False))

    def devices(self) -> list[dict[str, Any]]:
        """Every known device, by name."""
        with self._transaction() as tx:
            return [dict(row) for row in tx.execute(sa.select(devices).order_by(devices.c.device)).mappings()]

    # -- rounds

    def open_round(self, task: str, number: int, base: str, cohort: Sequence[str], plan: bytes) -> None:
        """Enter a round with its cohort; from now on it is collecting."""
        with self._transaction() as tx:
            tx.execute(rounds.insert().values(
                task=task, round=number, state="collecting", base=base, cohort=json.dumps(list(cohort)), plan=plan,
                opened=time.time()))  # fmt: skip

    def last_round(self, task: str) -> dict[str, Any] | None:
        """The newest round of a task."""
        with self._transaction() as tx:
            query = sa.select(rounds).where(rounds.c.task == task).order_by(rounds.c.round.desc()).limit(1)
            row = tx.execute(query).mappings().first()
        return None if row is None else {**row, "cohort": json.loads(row["cohort"])}

    def verdict(self, update: Update) -> str:
        """What counting an update would say: accepted, duplicate, conflict, late or rejected. Nothing is changed."""
        with self._transaction() as tx:
            return self._verdict(tx, update)

    def count_update(self, update: Update) -> str:
        """Count an update whose body is stored, if it may be; its verdict."""
        names = [column.name for column in updates.columns if column.name not in ("received", "loss")]
        values = {name: getattr(update, name) for name in names}
        loss = update.loss if update.loss == update.loss else None
        with self._transaction() as tx:
            verdict = self._verdict(tx, update)
            if verdict == "accepted":
                statement = insert(updates).values(**values, loss=loss, received=time.time())
                tx.execute(statement.on_conflict_do_nothing())
        return verdict

    @staticmethod
    def _verdict(tx: sa.Connection, update: Update) -> str:
        key = (rounds.c.task == update.task) & (rounds.c.round == update.round)
        row = tx.execute(sa.select(rounds.c.state, rounds.c.cohort, rounds.c.base).where(key)).first()
        same = (updates.c.task == update.task) & (updates.c.round == update.round) & (
            updates.c.device == update.device)  # fmt: skip
        counted = tx.execute(sa.select(updates.c.body).where(same)).scalar()
        if counted is not None:
            return "duplicate" if counted == update.body else "conflict"
        if row is None:
            return "rejected:round"
        if row.state != "collecting":
            return "late"
        if update.device not in json.loads(row.cohort):
            return "rejected:not invited"
        return "accepted" if update.base == row.base else "rejected:base"

    def counted(self, task: str, number: int) -> list[dict[str, Any]]:
        """The updates that count in a round, by device."""
        query = sa.select(updates).where((updates.c.task == task) & (updates.c.round == number))
        with self._transaction() as tx:
            return [dict(row) for row in tx.execute(query.order_by(updates.c.device)).mappings()]

    def set_state(self, task: str, number: int, state: str, report: Mapping[str, Any] | None = None) -> None:
        """Move a round to its next state."""
        key = (rounds.c.task == task) & (rounds.c.round == number)
        values: dict[str, Any] = {"state": state}
        if state in ("closing", "aborted"):
            values["closed"] = time.time()
        if report is not None:
            values["report"] = json.dumps(report)
        with self._transaction() as tx:
            tx.execute(sa.update(rounds).where(key).values(**values))

    def report(self, task: str, number: int) -> dict[str, Any]:
        """What a finished round did; StorageError when it is not there or not finished."""
        query = sa.select(rounds.c.report).where((rounds.c.task == task) & (rounds.c.round == number))
        with self._transaction() as tx:
            text = tx.execute(query).scalar()
        if text is None:
            raise StorageError(f"Round {number} of {task} has no report: it was not run, or is not finished.")
        report: dict[str, Any] = json.loads(text)
        return report

    # -- models

    def add_model(
        self, task: str, version: int, blob: str, optimizer: str | None, report: Mapping[str, Any] | None
    ) -> None:
        """Enter a model; with a report, the round that made it is aggregated in the same transaction."""
        with self._transaction() as tx:
            tx.execute(insert(models).values(
                task=task, version=version, blob=blob, optimizer=optimizer, created=time.time()
            ).on_conflict_do_nothing())  # fmt: skip
            if report is not None:
                key = (rounds.c.task == task) & (rounds.c.round == version)
                tx.execute(sa.update(rounds).where(key).values(state="aggregated", report=json.dumps(report)))

    def kept_blobs(self, task: str) -> set[str]:
        """Blobs that some model of a task is made of: its weights and its optimiser's state."""
        with self._transaction() as tx:
            rows = tx.execute(sa.select(models.c.blob, models.c.optimizer).where(models.c.task == task)).all()
        return {blob for row in rows for blob in row if blob is not None}

    def current_model(self, task: str) -> dict[str, Any] | None:
        """The newest model of a task."""
        query = sa.select(models).where(models.c.task == task).order_by(models.c.version.desc()).limit(1)
        with self._transaction() as tx:
            row = tx.execute(query).mappings().first()
        return None if row is None else dict(row)
