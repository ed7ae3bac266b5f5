"""A backup every night: one, of which the newest stay, and an alarm where it cannot be written."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.cloud.filled_store import Filled, fill

from auricle.errors import StorageError
from auricle.process.clock import VirtualClock
from auricle.wire.identity import Identity
from auricle_cloud.operations.operations import Operations
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.nightly_backup import DONE, FAILED, NightlyBackup, backups_in, how_old
from auricle_cloud.storage.restore import restore_backup
from auricle_cloud.storage.state_folders import KEY
from auricle_cloud.storage.store import FILE, Store

NOON = datetime(2026, 11, 30, 12).timestamp()
DAY = 86_400.0


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    folder = tmp_path / "state"
    folder.mkdir()
    Identity.load_or_create(folder / KEY)
    filled = fill(folder, folder / FILE)
    yield filled
    filled.store.close()


def nightly(filled: Filled, folder: Path, clock: VirtualClock) -> NightlyBackup:
    return NightlyBackup(filled.store, filled.blobs, filled.folder, folder, 3, clock)


def test_one_a_night_and_the_newest_stay(filled: Filled, tmp_path: Path) -> None:
    clock, folder = VirtualClock(NOON), tmp_path / "backups"
    backup = nightly(filled, folder, clock)
    taken: list[str] = []
    for hour in range(4 * 24):  # from noon: at once, and in the first hour from four o'clock on of four nights
        backup.look()
        if (newest := backups_in(folder)[-1].name) not in taken:
            taken.append(newest)
            assert hour == 0 or datetime.fromtimestamp(clock.now()).hour == 4
        clock.sleep(3600.0)
    assert len(taken) == 5
    assert [path.name for path in backups_in(folder)] == taken[-3:]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())
    assert len(filled.store.journal.events(kind=DONE)) == 5
    assert nightly(filled, folder, clock).look() is None, "after a start it knows what is there"
    assert len(backups_in(folder)) == 3

    restore_backup(backups_in(folder)[-1], tmp_path / "other", Blobs(tmp_path / "other" / "blobs"))
    store = Store(tmp_path / "other" / FILE, must_exist=True)
    assert [row.device for row in store.devices.all()] == [row.device for row in filled.store.devices.all()]
    store.close()


def test_what_cannot_be_written_is_an_alarm_once_and_is_tried_again(filled: Filled, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.write_text("not a folder")
    backup = nightly(filled, folder, VirtualClock(time.time()))
    for _ in range(3):
        with pytest.raises(StorageError, match="backups"):
            backup.look()
    (event,) = filled.store.journal.events(kind=FAILED)
    assert Operations(filled.store, filled.blobs, "kws").overview().alarms[0].kind == FAILED
    assert "backups" in event.detail
    folder.unlink()
    backup.look()
    assert len(backups_in(folder)) == 1


def test_doctor_finds_none_and_old_ones_bad(tmp_path: Path) -> None:
    assert how_old(tmp_path, NOON)[0] == "bad"
    begun = datetime.fromtimestamp(NOON)
    (tmp_path / f"auricle-{begun:%Y-%m-%dT%H%M%S}.tar.zst").touch()
    (tmp_path / "auricle-of-mine.tar.zst").touch()
    assert how_old(tmp_path, NOON + DAY) == ("good", f"The newest of 1 backups in {tmp_path} is 24.0 h old.")
    assert how_old(tmp_path, (begun + timedelta(days=3)).timestamp())[0] == "bad"
