"""The database under the coordinator's records: opening, writing, fencing; on SQLite and on PostgreSQL."""

from __future__ import annotations

import os
import socket
import sqlite3
import stat
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.cloud.arrivals import BASE, begin, open_round, update
from tests.cloud.postgres import Server

from auricle.errors import StorageError
from auricle_cloud.storage.database import LOG_PAGES, Database
from auricle_cloud.storage.database_errors import SupersededError
from auricle_cloud.storage.journal import note
from auricle_cloud.storage.schema import events, meta
from auricle_cloud.storage.store import Store

WAIT = 20.0
Pair = tuple[Database, Database]
Opened = Callable[[Path | str], Database]

pytestmark = pytest.mark.migrates


def kinds(database: Database) -> list[str]:
    with database.reading() as tx:
        return list(tx.execute(sa.select(events.c.kind).order_by(events.c.id)).scalars())


@pytest.fixture
def opened(request: pytest.FixtureRequest) -> Opened:
    """Databases that are closed in the end."""

    def make(place: Path | str) -> Database:
        database = Database(place)
        request.addfinalizer(database.close)
        return database

    return make


@pytest.fixture
def pair(place: Path | str, opened: Opened) -> Pair:
    """Two processes at one database."""
    return opened(place), opened(place)


# -- opening


def test_each_start_has_a_higher_epoch(place: Path | str, opened: Opened) -> None:
    assert [opened(place).take_over() for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("name", ["a?b", "a%20b", "a#b", "a b", "ä"])
def test_any_folder_name_will_do(tmp_path: Path, name: str, opened: Opened) -> None:
    opened(tmp_path / name / "c.db").take_over()
    assert (tmp_path / name / "c.db").is_file()


@pytest.mark.slow
def test_nobody_but_its_user_reads_a_database_or_what_an_older_version_left_open(tmp_path: Path) -> None:
    path, older = tmp_path / "state" / "c.db", tmp_path / "older.db"
    os.umask(0o022)
    Store(older).close()
    older.chmod(0o644)
    stores = [Store(path), Store(older)]
    for store in stores:
        store.journal.note("x")
    made = [*path.parent.iterdir(), *tmp_path.glob("older.db*")]
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in made}
    for store in stores:
        store.close()

    assert "c.db-wal" in modes
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    broken, folder = tmp_path / "broken.db", tmp_path / "folder.db"
    broken.write_bytes(b"this is not a database, whatever its name says" * 100)
    folder.mkdir()
    for path, must_exist in ((broken, False), (folder, False), (tmp_path / "none.db", True), (broken / "c.db", False)):
        with pytest.raises(StorageError):
            Store(path, must_exist=must_exist)


@pytest.mark.parametrize("url", ["mysql://root@localhost/x", "postgresql:/x://", "://", "postgresql://host:port/x"])
def test_a_url_that_leads_nowhere_is_refused(url: str) -> None:
    with pytest.raises(StorageError, match=r"storage|read"):
        Database(url)


def test_a_server_that_does_not_answer_is_a_storage_error_and_the_password_stays_secret(server: Server) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: nobody can answer there
        url = f"postgresql://ana:s3cret@127.0.0.1:{taken.getsockname()[1]}/x"
        with pytest.raises(StorageError, match=r"\*\*\*") as said:
            Database(url)
    assert "s3cret" not in str(said.value)


def test_a_server_that_goes_away_is_a_storage_error(server: Server, opened: Opened) -> None:
    url = server.migrated()
    database = opened(url)
    server.drop(url)
    for transaction in (database.reading, database.writing):
        with pytest.raises(StorageError, match="exist"), transaction():
            pass


def test_a_connection_that_was_cut_is_made_anew(server: Server) -> None:
    url = server.migrated()
    database = Database(url)
    database.take_over()
    server.cut(url)
    assert database.take_over() == 2
    database.close()
    server.drop(url)


def test_sqlite_synchronises_every_commit_to_its_small_log(tmp_path: Path, opened: Opened) -> None:
    database = opened(tmp_path / "c.db")
    with database.writing() as tx:
        said = [tx.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
    for number in range(80):
        with database.writing() as tx:
            database.upsert(tx, meta, {"key": "large"}, {"value": str(number) * 10_000})
    assert said == ["wal", 2]
    assert 0 < (tmp_path / "c.db-wal").stat().st_size < 2 * LOG_PAGES * 4096


# -- writing


def test_a_transaction_is_whole_or_absent(pair: Pair) -> None:
    database, _ = pair

    with pytest.raises(ZeroDivisionError), database.writing() as tx:
        note(tx, "lost")
        raise ZeroDivisionError
    with pytest.raises(StorageError, match=r"NULL|null"), database.writing() as tx:
        note(tx, "lost too")
        tx.execute(events.insert().values(kind=None, at=0))
    with database.writing() as tx:
        note(tx, "kept")

    assert kinds(database) == ["kept"]


def test_nobody_reads_what_is_not_committed(pair: Pair) -> None:
    one, other = pair
    with one.writing() as tx:
        note(tx, "soon")
        before = kinds(other)
    assert (before, kinds(other)) == ([], ["soon"])


def test_inserting_what_is_there_and_setting_it(pair: Pair) -> None:
    database, _ = pair

    with database.writing() as tx:
        said = [database.insert_missing(tx, meta, key="k", value=value) for value in ("first", "second")]
        database.insert_all_missing(tx, meta, [{"key": "k", "value": "third"}, {"key": "l", "value": "x"}])
        database.insert_all_missing(tx, meta, [])
        database.upsert(tx, meta, {"key": "l"}, {"value": "y"})
        database.upsert(tx, meta, {"key": "m"}, {"value": "z"})
        rows = tx.execute(sa.select(meta.c.key, meta.c.value).order_by(meta.c.key)).all()

    assert said == [True, False]
    assert [tuple(row) for row in rows] == [("k", "first"), ("l", "y"), ("m", "z")]


# -- fencing


def test_who_was_overtaken_writes_nothing_any_more_but_reads(place: Path | str) -> None:
    old, new = Store(place), Store(place)
    old.database.take_over()
    begin(old)
    open_round(old, ["dev-a"])
    new.database.take_over()

    attempts: list[Callable[[], object]] = [
        lambda: old.updates.count([update()]),
        lambda: old.rounds.move("t", 1, "collecting", "closing"),
        lambda: old.rounds.plan("t", 1),
        lambda: old.journal.note("anything"),
        lambda: old.models.promote("t", 0, who="ana"),
    ]
    for attempt in attempts:
        with pytest.raises(SupersededError, match="taken"):
            attempt()

    assert old.updates.counted("t", 1) == []
    assert old.rounds.get("t", 1).state == "collecting"
    assert [verdict.code for verdict in new.updates.count([update()])] == ["accepted"]
    old.close()
    new.close()


def test_commands_that_never_took_over_write_beside_the_coordinator(pair: Pair) -> None:
    coordinator, command = pair
    coordinator.take_over()
    with command.writing() as tx:
        note(tx, "by hand")
    with coordinator.writing() as tx:
        note(tx, "by the coordinator")
    assert kinds(coordinator) == ["by hand", "by the coordinator"]


def test_a_take_over_waits_for_an_open_transaction(
    pair: Pair, place: Path | str, request: pytest.FixtureRequest
) -> None:
    old, new = pair
    old.take_over()
    opened, go_on = threading.Event(), threading.Event()

    def write() -> None:
        with old.writing() as tx:
            note(tx, "in time")
            opened.set()
            assert go_on.wait(WAIT)

    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(write)
        assert opened.wait(WAIT)
        taking = pool.submit(new.take_over)
        _wait_blocked(place, request, taking)
        before = (taking.done(), kinds(new))
        go_on.set()
        writing.result(WAIT)
        epoch = taking.result(WAIT)

    assert before == (False, [])
    assert (epoch, kinds(new)) == (2, ["in time"])
    with pytest.raises(SupersededError), old.writing() as tx:
        note(tx, "too late")
    assert kinds(new) == ["in time"]


def test_who_writes_during_a_take_over_is_fenced_off(
    pair: Pair, place: Path | str, request: pytest.FixtureRequest
) -> None:
    old, new = pair
    old.take_over()

    def write() -> None:
        with old.writing() as tx:
            note(tx, "too late")

    with ThreadPoolExecutor(1) as pool:
        with new.writing() as tx:
            tx.execute(sa.update(meta).where(meta.c.key == "epoch").values(value="2"))
            writing = pool.submit(write)
            _wait_blocked(place, request, writing)
            assert not writing.done()
        with pytest.raises(SupersededError):
            writing.result(WAIT)

    assert kinds(new) == []


def _wait_blocked(place: Path | str, request: pytest.FixtureRequest, task: Future[Any]) -> None:
    """Until somebody waits for a lock; SQLite does not tell, so it is given a moment in which to fail."""
    if isinstance(place, Path):
        assert not wait([task], 0.2).done
        return
    server: Server = request.getfixturevalue("server")
    server.wait_blocked(place)


# -- a full disk


def test_a_full_database_is_a_storage_error_and_counts_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "c.db")
    begin(store)
    open_round(store, ["dev-a"])
    with sqlite3.connect(tmp_path / "c.db") as other:
        other.execute("CREATE TRIGGER full BEFORE INSERT ON updates BEGIN SELECT RAISE(ABORT, 'disk is full'); END")

    with pytest.raises(StorageError, match="disk is full"):
        store.updates.count([update()])

    assert store.updates.counted("t", 1) == []
    store.close()


@pytest.mark.slow
def test_a_disk_that_fills_up_counts_whole_transactions_and_harms_nothing(tmp_path: Path) -> None:
    devices = [f"dev-{i:04}" for i in range(400)]
    store = Store(tmp_path / "c.db")
    begin(store, devices)
    open_round(store, devices)
    _limit_pages(store, 4)

    counted = []
    with pytest.raises(StorageError, match="full"):
        for start in range(0, len(devices), 20):
            some = devices[start : start + 20]
            store.updates.count([update(name) for name in some])
            counted += some

    assert 0 < len(counted) < len(devices)
    assert [row.device for row in store.updates.counted("t", 1)] == counted
    assert [v.code for v in store.updates.judge([update(counted[-1])])] == ["duplicate"]
    store.close()
    with sqlite3.connect(tmp_path / "c.db") as plain:
        assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    again = Store(tmp_path / "c.db")
    rest = [update(name) for name in devices if name not in counted]
    assert {verdict.code for verdict in again.updates.count(rest)} == {"accepted"}
    again.close()


def _limit_pages(store: Store, more: int) -> None:
    """Let the database grow by so many pages, on every connection."""

    def limit(connection: sqlite3.Connection, *_: object) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages + more}")

    engine = store.database._engine
    engine.dispose()
    sa.event.listen(engine, "connect", limit)


def test_names_are_data_whatever_is_in_them(place: Path | str) -> None:
    store, names = Store(place), {"keywords", "Keywords", 'it\'s "new"; DROP TABLE models', "schlüssel"}
    for task in names:
        store.models.begin(task, "c" * 64, BASE)
    assert {row.task for row in store.models.tasks()} == names
    store.close()
