"""The coordinator's database: SQLite in a folder or PostgreSQL by URL, migrated at the start, fenced by an epoch."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from auricle.errors import StorageError, extra_command
from auricle.files import make_private
from auricle_cloud.storage.database_errors import (
    BusyDatabaseError,
    NoDatabaseError,
    SupersededError,
)
from auricle_cloud.storage.schema import meta

BUSY_SECONDS = 10
LOG_PAGES = 128
"""Of 4 kB, after which the write-ahead log is folded into the database: it takes half a megabyte, and not four."""
CACHE_KB, STATEMENTS = 256, 32
"""Of each connection, of which there is one for each thread that works at the same time: pages that it keeps, and
statements that it need not read again. SQLite's own 2,000 kB and Python's 128 statements take 5 MB for each."""
MIGRATING = 0x41555249
PLANNING = MIGRATING + 1
ROLLING = MIGRATING + 2
TOKENS = MIGRATING + 3
"""Names of the locks under which PostgreSQL databases are migrated, numbers of rounds given out, rollouts changed, and
tokens revoked."""
VERSIONS = Path(__file__).parent / "migrations" / "versions"
"""Read here without alembic, which takes longer to load than most commands take."""

SWEEPS = "sweeps"
"""The key of `meta` that counts how often files were removed that no row named."""
PULSE = "pulse"
"""The key of `meta` under which a coordinator says that it works."""


BEAT_SECONDS = 10.0
"""Seconds between two signs of life of a coordinator."""


class Pulse(msgspec.Struct, frozen=True):
    """What a coordinator says of itself every few seconds."""

    at: float
    running: bool = True
    connected: bool = True
    problem: str = ""
    """Why it is not connected to its broker."""
    fewest: int = 1
    """Devices without which no round of it begins."""
    needs: tuple[str, ...] = ()
    """What a device has to be able to do for its rounds."""
    place: str = ""
    """Machine and state folder of the coordinator."""


class Database:
    """Transactions on one database.

    Parameters
    ----------
    place
        A SQLite file, made when it is not there, or a URL `postgresql://user:password@host/name`.
    must_exist
        Refuse to make a SQLite file: for commands that only look.
    probe
        Called with `before` and `after` the name of each change of a round's state: tests end the process there.
    durable
        What was committed to SQLite survives a power cut; without, it survives the end of the process alone.
        PostgreSQL decides for itself.

    Raises
    ------
    StorageError
        It cannot be opened or migrated.
    """

    def __init__(
        self,
        place: Path | str,
        *,
        must_exist: bool = False,
        probe: Callable[[str], None] = lambda _: None,
        durable: bool = True,
    ) -> None:
        self.probe = probe
        self._url = _url(place, must_exist=must_exist)
        self.name = self._url.render_as_string(hide_password=True)
        self.epoch: int | None = None
        """Set by `take_over`: from then on every writing transaction of this object checks it. Or by `follow`."""
        self._follows, self._sweeps = False, ""
        self._engine = _engine(self._url, durable=durable)
        self._insert = sqlite.insert if self._url.get_backend_name() == "sqlite" else postgresql.insert
        with self._translate_errors():
            self._refuse_another_programs()
            self._upgrade()

    def _refuse_another_programs(self) -> None:
        if self._url.get_backend_name() == "sqlite":
            tables = _tables_of(Path(self._url.database or ""))
        else:
            with self._engine.connect() as connection:
                tables = sa.inspect(connection).get_table_names()
        if tables and not {"alembic_version", "devices"} & {*tables}:  # the first version kept no alembic_version
            raise StorageError(f"The database {self.name} is of another program: name a coordinator's, or a new one.")

    def _upgrade(self) -> None:
        """Migrate; of several that start at once on PostgreSQL one does, and the others wait for it."""
        with self._engine.connect() as gate:
            self.hold(gate, MIGRATING)
            with self._engine.connect() as connection:
                if revision_of(connection) == newest():
                    return
            from alembic.util import CommandError  # loaded only by what migrates

            from auricle_cloud.storage import migrations

            try:
                migrations.upgrade(self._engine)
            except CommandError as error:
                raise StorageError(
                    f"The database {self.name} is of a newer version: upgrade Auricle ({error})."
                ) from error

    @property
    def is_shared(self) -> bool:
        """Whether several machines may write to it: PostgreSQL."""
        return self._url.get_backend_name() != "sqlite"

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            why = str(error.orig).strip().splitlines()
            if "database is locked" in why:
                raise BusyDatabaseError(f"The database {self.name} is held by another program: try again.") from error
            raise StorageError(f"The database {self.name} cannot take this: {why[0] if why else error}.") from error
        except (sqlite3.Error, sa.exc.SQLAlchemyError) as error:
            raise StorageError(f"The database {self.name} cannot be used: {error}.") from error

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that changes nothing."""
        with self._translate_errors(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that is committed at the end, or not at all.

        Raises
        ------
        SupersededError
            A coordinator started after the one that holds this object.
        StorageError
            The database cannot take it, e.g. because its disk is full.
        """
        with self._translate_errors(), self._engine.execution_options(auricle_writes=True).begin() as connection:
            if self._follows:
                self._keep_up(connection)
            elif self.epoch is not None and self._epoch(connection) != self.epoch:
                raise SupersededError("A newer coordinator has taken over this database: this one stops.")
            yield connection

    def follow(self) -> None:
        """From now on write beside who leads, in its epoch."""
        self._follows = True
        with self.writing():
            pass

    @property
    def mark(self) -> tuple[int | None, str]:
        """Epoch and removals of files as of the last transaction here: another one by the next, if there were any."""
        return self.epoch, self._sweeps

    def _keep_up(self, tx: sa.Connection) -> None:
        """Take up who leads, and that files were removed; both are held off until the commit (FOR SHARE)."""
        query = sa.select(meta.c.key, meta.c.value).where(meta.c.key.in_(("epoch", SWEEPS))).with_for_update(read=True)
        now = {str(row.key): str(row.value) for row in tx.execute(query)}
        self.epoch, self._sweeps = int(now.get("epoch", 0)), now.get(SWEEPS, "")

    @contextmanager
    def sweeping(self) -> Iterator[None]:
        """Remove files that no row names, while nobody who follows commits a row that names one.

        Who kept a file before that, and commits after it, sees another `mark` and keeps it again.
        """
        with self.writing() as tx:
            self.insert_missing(tx, meta, key=SWEEPS, value="0")
            counted = sa.cast(sa.cast(meta.c.value, sa.Integer) + 1, sa.Text)
            tx.execute(sa.update(meta).where(meta.c.key == SWEEPS).values(value=counted))
            yield

    def take_over(self) -> int:
        """Count this start, so that every coordinator process before it is fenced off; the new epoch."""
        self.epoch = None
        with self.writing() as tx:
            self.insert_missing(tx, meta, key="epoch", value="0")
            statement = sa.update(meta).where(meta.c.key == "epoch")
            tx.execute(statement.values(value=sa.cast(sa.cast(meta.c.value, sa.Integer) + 1, sa.Text)))
            self.epoch = self._epoch(tx)
        return self.epoch

    def beat(self, pulse: Pulse) -> None:
        """Write down that a coordinator works, or has stopped."""
        with self.writing() as tx:
            self.upsert(tx, meta, {"key": PULSE}, {"value": msgspec.json.encode(pulse).decode()})

    def pulse(self) -> Pulse | None:
        """The coordinator's last word; None where it never wrote one."""
        with self.reading() as tx:
            value = tx.execute(sa.select(meta.c.value).where(meta.c.key == PULSE)).scalar()
        return None if value is None else msgspec.json.decode(value, type=Pulse)

    @staticmethod
    def _epoch(tx: sa.Connection) -> int:
        # FOR SHARE (which SQLite leaves out: it has one writer) holds off a take-over until this commit.
        row = tx.execute(sa.select(meta.c.value).where(meta.c.key == "epoch").with_for_update(read=True)).scalar()
        return int(row or 0)

    @staticmethod
    def hold(tx: sa.Connection, lock: int) -> None:
        """Wait until nobody else holds this lock, and hold it to the end of the transaction; SQLite has one writer."""
        if tx.dialect.name == "postgresql":
            tx.execute(sa.select(sa.func.pg_advisory_xact_lock(lock)))

    def insert_missing(self, tx: sa.Connection, table: sa.Table, **values: object) -> bool:
        """Insert a row unless its key is there; whether it was inserted."""
        statement = self._insert(table).values(**values).on_conflict_do_nothing()
        # Without the option SQLAlchemy keeps no count of an INSERT, and on PostgreSQL this would always say no.
        return tx.execute(statement.execution_options(preserve_rowcount=True)).rowcount > 0

    def insert_all_missing(self, tx: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, object]]) -> int:
        """Insert the rows whose keys are not there; how many were inserted."""
        if not rows:
            return 0
        statement = self._insert(table).on_conflict_do_nothing().execution_options(preserve_rowcount=True)
        return tx.execute(statement, list(rows)).rowcount

    def upsert(
        self, tx: sa.Connection, table: sa.Table, keys: Mapping[str, object], values: Mapping[str, object]
    ) -> None:
        """Insert a row, or set `values` in the one of this key."""
        statement = self._insert(table).values(**keys, **values)
        tx.execute(statement.on_conflict_do_update(index_elements=list(keys), set_=dict(values)))


def _url(place: Path | str, *, must_exist: bool) -> sa.URL:
    if isinstance(place, str) and "://" in place:
        try:
            url = sa.make_url(place)
        except (sa.exc.ArgumentError, ValueError) as error:
            raise StorageError(
                "The database's URL cannot be read; write postgresql://user:password@host/name."
            ) from error
        if url.get_backend_name() not in ("postgresql", "sqlite"):
            raise StorageError(f'There is no "{url.get_backend_name()}" storage: use SQLite or a postgresql:// URL.')
        return url.set(drivername="postgresql+psycopg") if url.get_backend_name() == "postgresql" else url
    path = Path(place)
    if must_exist and not (path.is_file() and path.stat().st_size):  # none, or the power went when it was made
        inside = path.parent / "state" / path.name
        hint = f" Did you mean {inside.parent}?" if inside.is_file() else ""
        raise NoDatabaseError(f"There is no coordinator's database at {path}.{hint}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StorageError(f"{path.parent} cannot be made ({error.strerror}).") from error
    with suppress(OSError):  # SQLite says why a folder takes nothing, and reads what is there
        path.touch(0o600)  # and gives its log the same rights
    make_private(path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm"))
    return sa.URL.create("sqlite", database=str(path))


def _tables_of(path: Path) -> list[str]:
    """Tables of a SQLite file, which stays as it is; none where it cannot be read."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    except sqlite3.Error:
        return []


def _engine(url: sa.URL, *, durable: bool) -> sa.Engine:
    try:
        create = partial(sa.create_engine, url, json_serializer=_json, json_deserializer=_read_json)
        if url.get_backend_name() == "sqlite":  # the connection that came back last is taken first: its pages are warm
            engine = create(pool_use_lifo=True, connect_args={"cached_statements": STATEMENTS})
        else:
            engine = create(pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise StorageError(f"PostgreSQL needs psycopg: {extra_command('postgres')}") from error
    if url.get_backend_name() == "sqlite":
        sa.event.listen(engine, "connect", partial(_prepare, synchronous="FULL" if durable else "OFF"))
        sa.event.listen(engine, "begin", _begin)
    return engine


def _json(value: object) -> str:
    """JSON has no NaN and no infinity, and PostgreSQL refuses a report with one: they become null."""
    return msgspec.json.encode(value, enc_hook=float).decode()


def _read_json(text: str | bytes) -> object:
    """What stands in a column; a report that an earlier version wrote may hold a NaN, which Python's reader takes."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(text)


def _prepare(connection: sqlite3.Connection, _record: object, *, synchronous: str) -> None:
    """Write-ahead log, synchronised at every commit (FULL) or never (OFF); transactions begin as `_begin` says."""
    connection.isolation_level = None
    wait, log = f"busy_timeout={BUSY_SECONDS * 1000}", f"wal_autocheckpoint={LOG_PAGES}"
    for pragma in ("journal_mode=WAL", f"synchronous={synchronous}", wait, log, f"cache_size=-{CACHE_KB}"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: sa.Connection) -> None:
    """A writer takes its lock at once: one that read first could be refused it later."""
    writes = connection.get_execution_options().get("auricle_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def revisions() -> set[str]:
    """All that there is a migration to; their files are called `REVISION_subject.py`, with rising numbers."""
    return {path.name.partition("_")[0] for path in VERSIONS.glob("[0-9]*_*.py")}


def newest() -> str:
    """The last revision."""
    return max(revisions())


def revision_of(connection: sa.Connection) -> str | None:
    """The revision of a database; None where its tables have none, or it has no tables."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return found
