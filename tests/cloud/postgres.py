"""A PostgreSQL server of the tests' own: real, private, gone at the end."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from auricle_cloud.storage.database import Database
from auricle_cloud.storage.schema import metadata

USER = "auricle"
START_SECONDS = 60


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`; None where PostgreSQL is not installed."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


class Server:
    """A cluster in a temporary folder, reached by a socket in it; nothing of it outlives `stop`."""

    def __init__(self, place: Path) -> None:
        # Not in pytest's folder: the user the server runs as may not look into it, and a socket's path must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="auricle-pg-"))
        self._log = (self.folder / "log").open("wb")
        self._who = _unprivileged(self.folder)
        self._numbers = itertools.count(1)
        self._migrated = False
        self._idle: list[str] = []
        data = str(self.folder / "data")
        made = self._run([place / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "-N"])
        assert made.wait(START_SECONDS) == 0, self._said()
        options = ["listen_addresses=", f"unix_socket_directories={self.folder}", "fsync=off", "max_connections=60"]
        options.append("shared_buffers=16MB")
        self._process = self._run([place / "postgres", "-D", data, *(text for o in options for text in ("-c", o))])
        self._wait_ready()

    def _run(self, command: list[Any]) -> subprocess.Popen[bytes]:
        channels = {"stdin": subprocess.DEVNULL, "stdout": self._log, "stderr": self._log}
        environment = {"PATH": os.environ["PATH"], "TZ": "UTC"}
        given = {**channels, **self._who, "env": environment}
        return subprocess.Popen(command, cwd=self.folder, start_new_session=True, **given)

    def _said(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    def _wait_ready(self) -> None:
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                self.ask("SELECT 1")
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, self._said()
                assert time.monotonic() < until, self._said()
                try:
                    self._process.wait(0.05)
                except subprocess.TimeoutExpired:
                    continue

    def ask(self, statement: str | sql.Composed, *values: object, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a statement outside of any transaction; its rows."""
        query = sql.SQL(statement) if isinstance(statement, str) else statement
        with psycopg.connect(host=str(self.folder), user=USER, dbname=database, autocommit=True) as connection:
            cursor = connection.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    def url(self, database: str) -> str:
        """How a coordinator is told to use this database."""
        return f"postgresql://{USER}@/{database}?host={self.folder}"

    def empty(self) -> str:
        """The URL of a new database without tables."""
        return self._create("template1")

    def migrated(self) -> str:
        """The URL of a new database with the newest tables, copied from one that was migrated once."""
        if not self._migrated:
            Database(self._create("template1", "migrated")).close()
            self._migrated = True
        return self._create("migrated")

    def lend(self) -> str:
        """The URL of a database with the newest tables and nothing in them, for `take_back`."""
        return self._idle.pop() if self._idle else self.migrated()

    def take_back(self, url: str) -> None:
        """Empty a database for the next test, a tenth of the work of a new one; where tables are gone, drop it."""
        self.cut(url)
        try:
            for table in metadata.tables:
                self.ask(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)), database=_name(url))
        except psycopg.errors.UndefinedTable:
            self.drop(url)
        else:
            self._idle.append(url)

    def cut(self, url: str) -> None:
        """End all connections to a database."""
        self.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", _name(url))

    def _create(self, template: str, name: str = "") -> str:
        name = name or f"test{next(self._numbers)}"
        names = sql.Identifier(name), sql.Identifier(template)
        self.ask(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))
        return self.url(name)

    def drop(self, url: str) -> None:
        """Forget a database, whoever is connected."""
        self.ask(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(_name(url))))

    def wait_blocked(self, url: str, seconds: float = 20.0) -> None:
        """Return once a connection to a database waits for a lock that another one holds."""
        query = "SELECT pg_sleep(0.01), count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
        until = time.monotonic() + seconds
        while not self.ask(query, _name(url))[0][1]:
            assert time.monotonic() < until, "nobody waits for a lock"

    def stop(self) -> None:
        """End the server by its process id and remove everything."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _name(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def _unprivileged(folder: Path) -> dict[str, Any]:
    """As whom to run the server, which refuses to be root; the folder becomes theirs."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    who = names.get("postgres") or names["nobody"]
    os.chown(folder, who.pw_uid, who.pw_gid)
    folder.chmod(0o755)
    return {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}
