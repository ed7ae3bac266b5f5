"""Databases of earlier versions are brought to today's tables with everything that is in them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from tests.cloud.arrivals import register, update

import auricle_cloud.storage.migrations as migrations
from auricle.errors import StorageError
from auricle_cloud.storage.database import newest, revisions
from auricle_cloud.storage.schema import metadata
from auricle_cloud.storage.store import Store

pytestmark = pytest.mark.migrates

OLD = "keywords"
FIRST, SECOND = "1" * 64, "2" * 64


@contextmanager
def opened(place: Path | str) -> Iterator[sa.Engine]:
    url = f"sqlite:///{place}" if isinstance(place, Path) else place.replace("postgresql://", "postgresql+psycopg://")
    engine = sa.create_engine(url)
    yield engine
    engine.dispose()


def at_revision(engine: sa.Engine, revision: str) -> None:
    """The tables of a revision, made by its own migrations."""
    settings = migrations.config()
    with engine.begin() as connection:
        settings.attributes["connection"] = connection
        command.upgrade(settings, revision)


def fill_first(engine: sa.Engine, *, versioned: bool) -> None:
    """Rows as the first coordinators wrote them; those had no table of versions."""
    tables = sa.MetaData()
    tables.reflect(engine)
    device = {"public_key": b"k" * 32, "boot": "b1", "online": True, "pack": "c" * 64, "architecture": "crnn-lite"}
    device |= {"samples": 7, "first_seen": 10.0, "last_seen": 20.0}
    model = {"task": OLD, "version": 0, "blob": FIRST, "optimizer": None, "created": 90.0}
    over = {"task": OLD, "round": 1, "state": "published", "base": FIRST, "cohort": json.dumps(["dev-a", "dev-b"])}
    over |= {"plan": b"p1", "opened": 100.0, "closed": 109.0}
    over["report"] = json.dumps({"rule": "lpa", "updates": [{"loss": None}]})
    under_way = {"round": 2, "state": "collecting", "base": SECOND, "cohort": json.dumps(["dev-b"]), "plan": b"p2"}
    said = {"task": OLD, "attempt": 1, "codec": "float32", "samples": 5, "steps": 3, "seconds": 2.5, "held_out": 4}
    said |= {"received": 101.0, "round": 1, "device": "dev-a", "body": "d" * 64}
    said |= {"loss": 1.5, "personal_accuracy": 0.75, "plugin_accuracy": 0.5}
    unknown = dict.fromkeys(("loss", "personal_accuracy", "plugin_accuracy"))
    rows: dict[str, list[dict[str, Any]]] = {
        "meta": [{"key": "epoch", "value": "41"}],
        "devices": [{"device": name, **device} for name in ("dev-a", "dev-b")],
        "models": [model, {**model, "version": 1, "blob": SECOND, "optimizer": "5" * 64, "created": 110.0}],
        "rounds": [over, {**over, **under_way, "closed": None, "report": None}],
        "updates": [said, {**said, "device": "dev-b", "body": "e" * 64, **unknown}],
    }
    with engine.begin() as connection:
        for name, content in rows.items():
            connection.execute(tables.tables[name].insert(), content)
        if not versioned:
            tables.tables["alembic_version"].drop(connection)


@pytest.fixture
def old(empty: Path | str) -> Path | str:
    """A database of the first coordinators with a finished round and one under way."""
    with opened(empty) as engine:
        at_revision(engine, migrations.FIRST)
        fill_first(engine, versioned=False)
    return empty


def test_the_tables_are_those_of_the_schema(empty: Path | str) -> None:
    has_the_tables_of_the_schema(empty)


@pytest.mark.slow
def test_an_upgraded_database_has_the_same_tables_as_a_new_one(old: Path | str) -> None:
    has_the_tables_of_the_schema(old)


def has_the_tables_of_the_schema(place: Path | str) -> None:
    """Once it was opened."""
    Store(place).close()

    with opened(place) as engine, engine.begin() as connection:
        difference = compare_metadata(MigrationContext.configure(connection), metadata)
        migrated = _shape(connection)
        metadata.drop_all(connection)
        metadata.create_all(connection)
        created = _shape(connection)

    assert difference == []
    assert set(migrated) == {*metadata.tables, "alembic_version"}
    assert migrated == created


def test_a_database_of_the_first_schema_keeps_everything(old: Path | str) -> None:
    store = Store(old, must_exist=isinstance(old, Path))

    devices = store.devices.all()
    assert [(d.device, d.standing, d.gate, d.samples) for d in devices] == [
        ("dev-a", "approved", "train", 7),
        ("dev-b", "approved", "train", 7),
    ]
    assert (bytes(devices[0].public_key), devices[0].online, devices[0].first_seen) == (b"k" * 32, True, 10.0)
    first, second = store.rounds.get(OLD, 1), store.rounds.get(OLD, 2)
    assert (first.state, first.base, first.plan, first.opened) == ("published", FIRST, b"p1", 100.0)
    assert (first.mode, first.planned, first.closed) == ("sync", 100.0, 109.0)
    assert store.rounds.report(OLD, 1) == {"rule": "lpa", "updates": [{"loss": None}]}
    assert (second.state, second.base, second.report) == ("collecting", SECOND, None)
    assert list(store.rounds.invited(OLD, 1)) == ["dev-a", "dev-b"]
    assert {name: row.state for name, row in store.rounds.invited(OLD, 2).items()} == {"dev-b": "invited"}
    counted = store.updates.counted(OLD, 1)
    assert [(u.device, u.body, u.loss, u.counted_in, u.staleness) for u in counted] == [
        ("dev-a", "d" * 64, 1.5, 1, 0),
        ("dev-b", "e" * 64, None, 1, 0),
    ]
    models = [(m.version, m.blob, m.origin, m.round, m.parent) for m in store.models.all(OLD)]
    assert models == [(1, SECOND, "round", 1, 0), (0, FIRST, "first", None, None)]
    assert store.models.get(OLD, 1).optimizer == "5" * 64
    assert store.database.take_over() == 42
    store.close()


def test_the_round_under_way_goes_on_after_the_upgrade(old: Path | str) -> None:
    store = Store(old)
    store.models.begin(OLD, "c" * 64, "9" * 64)

    said = store.updates.count(
        [
            update("dev-b", task=OLD, round=2, base=SECOND),
            update("dev-a", task=OLD, round=2, base=SECOND),
            update("dev-a", task=OLD, round=1, base=FIRST, body="d" * 64),
            update("dev-b", task=OLD, round=1, base=FIRST, body="f" * 64),
        ]
    )
    store.rounds.move(OLD, 2, "collecting", "closing")
    with store.rounds.moving(OLD, 2, "closing", "aggregated", report={"made": 2}) as tx:
        version = store.models.add(tx, OLD, "3" * 64, optimizer=None, origin="round", number=2)

    assert [verdict.code for verdict in said] == ["accepted", "rejected:not invited", "duplicate", "conflict"]
    # The task's row is new: it points at the newest model there is, not at the first.
    assert (version, store.models.get(OLD, 2).parent, store.models.current(OLD).blob) == (2, 1, "3" * 64)
    assert store.devices.register(register("dev-a", boot="b2"), "pending")
    assert store.devices.get("dev-a").standing == "approved"
    store.close()


@pytest.mark.slow
def test_upgrading_twice_or_from_a_database_that_knows_its_revision_changes_nothing(
    old: Path | str, tmp_path: Path
) -> None:
    with opened(tmp_path / "versioned.db") as engine:
        at_revision(engine, migrations.FIRST)
        fill_first(engine, versioned=True)
    Store(tmp_path / "versioned.db").close()
    Store(old).close()
    first = _dump(old)

    Store(old).close()

    assert _dump(old) == first
    assert _dump(tmp_path / "versioned.db") == first


def test_a_large_number_of_samples_is_kept(empty: Path | str) -> None:
    store = Store(empty)

    store.devices.register(register(samples=1 << 40), "approved")

    assert store.devices.get("dev-a").samples == 1 << 40
    store.close()


@pytest.mark.slow
def test_two_coordinators_that_start_at_once_migrate_once(empty: Path | str) -> None:
    script = "import sys, auricle_cloud.storage.store as s; t = s.Store(sys.argv[1]); t.database.take_over(); t.close()"
    command_line = [sys.executable, "-c", script, str(empty)]

    running = [subprocess.Popen(command_line, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=60)[1] for process in running]

    assert [process.returncode for process in running] == [0, 0], said
    store = Store(empty)
    assert store.database.take_over() == 3
    store.close()


def test_a_migration_that_fails_leaves_the_old_database_as_it_was(old: Path | str) -> None:
    with opened(old) as engine, engine.begin() as connection:
        connection.execute(sa.text("UPDATE rounds SET cohort = 'not JSON' WHERE round = 2"))
    before = _dump(old)

    with pytest.raises((StorageError, ValueError)):
        Store(old)

    assert _dump(old) == before


def test_a_database_of_a_newer_version_is_refused_in_a_sentence(empty: Path | str) -> None:
    Store(empty).close()
    with opened(empty) as engine, engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(StorageError, match="newer version"):
        Store(empty)


def test_there_is_one_line_of_revisions_from_the_first() -> None:
    script = ScriptDirectory.from_config(migrations.config())

    found = [revision.revision for revision in script.walk_revisions()]

    assert script.get_bases() == [migrations.FIRST]
    assert found == sorted(found, reverse=True)
    assert script.get_heads() == [newest()]
    assert {*found} == revisions()


@pytest.mark.slow
def test_no_revision_is_waiting_to_be_written(tmp_path: Path) -> None:
    """What `python -m auricle_cloud.storage.migrations` would write from the schema as it is: nothing to do."""
    package = Path(migrations.__file__).parent
    copy = tmp_path / "auricle_cloud"
    shutil.copytree(package.parent.parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    core = Path(sys.modules["auricle"].__file__ or "").parent.parent

    done = subprocess.run(
        [sys.executable, "-m", "auricle_cloud.storage.migrations", "nothing"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{tmp_path}:{core}", "PATH": ""},
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    (written,) = set((copy / "storage" / "migrations" / "versions").glob("*_nothing.py"))
    body = written.read_text().partition("def upgrade()")[2]
    assert "op." not in body
    assert "pass" in body


def _dump(place: Path | str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, bytes and memory views alike."""
    tables = sa.MetaData()
    with opened(place) as engine:
        tables.reflect(engine)
        with engine.connect() as connection:
            rows = {name: connection.execute(sa.select(table)).all() for name, table in tables.tables.items()}
    return {name: sorted(tuple(map(repr, row)) for row in found) for name, found in rows.items()}


def _shape(connection: sa.Connection) -> dict[str, Any]:
    """Columns with types, defaults and whether they may be empty, keys and indexes of every table."""
    inspector = sa.inspect(connection)
    return {
        name: (
            {c["name"]: (str(c["type"]), c["nullable"], c["default"]) for c in inspector.get_columns(name)},
            sorted(inspector.get_pk_constraint(name)["constrained_columns"]),
            sorted((index["name"] or "", tuple(index["column_names"])) for index in inspector.get_indexes(name)),
            sorted(tuple(unique["column_names"]) for unique in inspector.get_unique_constraints(name)),
        )
        for name in inspector.get_table_names()
    }
