"""One coordinator serves a state: the lock of its folder, and signs of life in a database that several may reach."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from tests.cloud.filled_store import fill
from typer.testing import CliRunner

from auricle.errors import REFUSED_CODE, StorageError
from auricle_cloud.commands import app
from auricle_cloud.storage import state_folders
from auricle_cloud.storage.database import Pulse
from auricle_cloud.storage.state_folders import ServedError, place_of, serving
from auricle_cloud.storage.store import Store


def test_a_folder_is_served_once_and_free_when_it_ends(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with serving(folder, take_over=False):
        with pytest.raises(ServedError, match="--take-over") as refused, serving(folder, take_over=False):
            pass
        assert refused.value.exit_code == REFUSED_CODE
        with serving(folder, take_over=True):
            pass
    with serving(folder, take_over=False):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(StorageError), serving(tmp_path / "file", take_over=False):
        pass


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of life every second."""
    monkeypatch.setattr(state_folders, "BEAT_SECONDS", 1.0)


def test_beside_a_coordinator_of_another_machine_that_lives_none_starts(tmp_path: Path, quick: None) -> None:
    store, ended = Store(tmp_path / "shared.db"), threading.Event()
    store.database.beat(Pulse(time.time(), place="elsewhere:/state"))

    def live() -> None:
        while not ended.wait(0.05):
            store.database.beat(Pulse(time.time(), place="elsewhere:/state"))

    living = threading.Thread(target=live)
    living.start()
    try:
        with pytest.raises(ServedError, match="--take-over"):
            state_folders.require_unserved(str(tmp_path / "shared.db"), tmp_path / "here")
    finally:
        ended.set()
        living.join()
        store.close()


@pytest.mark.parametrize(
    "pulse",
    [
        None,
        Pulse(time.time(), running=False, place="elsewhere:/state"),
        Pulse(time.time() - 1000, place="elsewhere:/state"),
        Pulse(time.time() + 60, place="elsewhere:/state"),
    ],
)
def test_a_dead_one_is_replaced(tmp_path: Path, pulse: Pulse | None, quick: None) -> None:
    store = Store(tmp_path / "shared.db")
    if pulse is not None:
        store.database.beat(pulse)
    store.close()

    state_folders.require_unserved(str(tmp_path / "shared.db"), tmp_path / "here")


def test_one_of_the_same_folder_is_dead_since_its_lock_is_free(tmp_path: Path) -> None:
    store = Store(tmp_path / "shared.db")
    store.database.beat(Pulse(time.time(), place=place_of(tmp_path / "here")))
    store.close()
    began = time.monotonic()

    state_folders.require_unserved(str(tmp_path / "shared.db"), tmp_path / "here")

    assert time.monotonic() - began < state_folders.BEAT_SECONDS


def test_without_a_coordinator_that_comes_first_and_the_doctor_finds_it_bad(tmp_path: Path) -> None:
    filled = fill(tmp_path)
    filled.store.database.beat(Pulse(time.time() - 100))
    do = filled.operations()
    (first,) = do.overview().trouble
    assert "auricle cloud serve" in first
    assert do.list_devices().trouble == do.start_rounds().trouble == [first]
    state = ["--state", str(filled.folder)]
    for command in (["overview"], ["devices", "list"], ["rounds", "start"]):
        said = CliRunner().invoke(app, [*command, *state]).stdout
        assert said.startswith("No coordinator has run") and said.count("No coordinator has run") == 1
    doctor = CliRunner().invoke(app, ["doctor", *state], standalone_mode=False)
    verdicts = {line.split()[1]: line.split()[0] for line in doctor.stdout.splitlines() if len(line.split()) > 1}
    assert verdicts["coordinator"] == "bad"
    assert doctor.return_value == 1

    filled.store.database.beat(Pulse(time.time()))
    assert do.overview().trouble == do.list_devices().trouble == do.start_rounds().trouble == []
