"""Databases for the coordinator's tests: SQLite and, where it is installed, a real PostgreSQL."""

from __future__ import annotations

import itertools
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.cloud.desk import Desk
from tests.cloud.filled_store import Filled, fill
from tests.cloud.postgres import Server
from tests.system.conftest import pytest_pyfunc_call as pytest_pyfunc_call

from auricle.process.cli import main
from auricle_cloud.ota.repository import Repository
from auricle_cloud.storage import migrations
from auricle_cloud.storage.store import Store

EITHER = ("sqlite", pytest.param("postgresql", marks=pytest.mark.slow))
"""The fast tests need no server."""


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite database with the newest tables, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "c.db"
    Store(path).close()
    return path


@pytest.fixture(autouse=True)
def tables_are_copied(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new SQLite database gets its tables from one that was migrated once, a tenth of the work of the migrations.

    A test that asks for an `empty` database, or is marked `migrates`, has the migrations run.
    """
    if "empty" in request.fixturenames or request.node.get_closest_marker("migrates"):
        return
    template: Path = request.getfixturevalue("migrated_file")

    migrate = migrations.upgrade

    def copied(engine: sa.Engine) -> None:
        if engine.dialect.name != "sqlite" or sa.inspect(engine).get_table_names():
            migrate(engine)
            return
        with closing(sqlite3.connect(template)) as source, closing(sqlite3.connect(str(engine.url.database))) as target:
            source.backup(target)

    monkeypatch.setattr(migrations, "upgrade", copied)


@pytest.fixture(params=EITHER)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | str]:
    """Where a database may be made, on either system."""
    if request.param == "sqlite":
        yield tmp_path / "c.db"
        return
    server: Server = request.getfixturevalue("server")
    url = server.empty()
    yield url
    server.drop(url)


@pytest.fixture(params=EITHER)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | str]:
    """A database with the newest tables and nothing in them, on either system."""
    if request.param == "sqlite":
        yield Path(shutil.copy(request.getfixturevalue("migrated_file"), tmp_path / "c.db"))
        return
    server: Server = request.getfixturevalue("server")
    url = server.lend()
    yield url
    server.take_back(url)


@pytest.fixture
def store(place: Path | str) -> Iterator[Store]:
    """An empty coordinator's store, on either system."""
    store = Store(place)
    yield store
    store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB; only root may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if mount is None or subprocess.run([mount, *options], capture_output=True).returncode != 0:
        pytest.skip("no permission to mount a small file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def make(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Desk]:
    numbers = itertools.count()

    def build(*arguments: Any, **options: Any) -> Desk:
        desk = Desk(tmp_path / str(next(numbers)), *arguments, **options)
        request.addfinalizer(desk.close)
        return desk

    return build


@pytest.fixture
def desk(make: Callable[..., Desk]) -> Desk:
    return make()


@pytest.fixture
def either(place: Path | str, make: Callable[..., Desk]) -> Desk:
    """A desk on either database."""
    return make(place=place)


@pytest.fixture(scope="session")
def runtime() -> Any:
    """What the devices of a `coordinator_site` train with."""
    from auricle.packs.pack import load_pack
    from auricle_learning.runtimes import StepRuntime

    return StepRuntime(load_pack("digits"))


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    """A coordinator's state after two rounds."""
    made = fill(tmp_path / "state")
    yield made
    made.store.close()


@pytest.fixture
def enrol(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Any]:
    """What `auricle cloud enrol` answers in JSON; the state is the test's folder unless it is named."""

    def run(command: str, *words: object) -> Any:
        capsys.readouterr()
        state = () if "--state" in words else ("--state", tmp_path)
        code = main(["cloud", "enrol", command, *map(str, (*state, *words)), "--json"])
        told = capsys.readouterr()
        assert code == 0, told.err
        return json.loads(told.out)

    return run


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Where the keys of a repository of releases lie."""
    return tmp_path / "keys"


@pytest.fixture
def repository(tmp_path: Path, keys: Path) -> Repository:
    """One with new keys and nothing released."""
    return Repository.create(tmp_path / "releases", keys)
