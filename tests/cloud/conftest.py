"""Databases for the coordinator's tests: SQLite and, where it is installed, a real PostgreSQL."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cloud.desk import Desk
from tests.cloud.postgres import Server

from auricle_cloud.storage.store import Store


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite database with the newest tables, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "c.db"
    Store(path).close()
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | str]:
    """Where a database may be made, on either system."""
    if request.param == "sqlite":
        yield tmp_path / "c.db"
        return
    server: Server = request.getfixturevalue("server")
    url = server.empty()
    yield url
    server.drop(url)


@pytest.fixture(params=["sqlite", "postgresql"])
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
