"""What an emulated fleet keeps is not synced to the disk unless it is asked to; what boards keep is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.fleet.test_fleet_run import small

from auricle.files import remove_file, write_whole
from auricle.mqtt_link.link import BrokerAddress
from auricle.wire.identity import Identity
from auricle.wire.messages import Update
from auricle.wire.tensor_specs import TensorSpec
from auricle.wire.tensors import TensorTable
from auricle_cloud.settings import RunSettings
from auricle_cloud.storage.blobs import open_blobs
from auricle_cloud.storage.database import Database
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_edge.fleet.secure_sum.kept import Kept, KeptSum
from auricle_edge.fleet.update_delivery import Outbox, Pending
from auricle_edge.training.judge.best import BestStore
from auricle_edge.training.local_store import LocalStore
from auricle_fleet import FleetRun
from auricle_learning.training.train import LocalState

TABLE = TensorTable((TensorSpec("head.weight", (2, 3), "head", 0.5), TensorSpec("head.bias", (2,), "head", 0.5)))
PACK = "a" * 64
PLACE = {"task": "t", "round": 1}
UPDATE = Update(
    fleet="f",
    device="d",
    boot="b",
    **PLACE,
    attempt=1,
    epoch=1,
    base=PACK,
    body=PACK,
    length=4,
    codec="float32",
    samples=1,
    loss=0.5,
    steps=1,
    seconds=0.0,
    personal_accuracy=None,
    plugin_accuracy=None,
    held_out=0,
)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced, by path; writing a file beside itself and its folder are both there."""
    paths: list[str] = []
    real = os.fsync

    def spy(handle: int) -> None:
        paths.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        real(handle)

    monkeypatch.setattr(os, "fsync", spy)
    return paths


def save_local(folder: Path, durable: bool) -> None:
    store = LocalStore(folder, PACK, TABLE, durable=durable)
    for steps in (1, 2, 3):
        store.save(LocalState(np.zeros(8, np.float32), {}, steps))


def deliver(folder: Path, durable: bool) -> None:
    outbox = Outbox(folder, durable=durable)
    outbox.put(Pending(UPDATE, b"body"))
    outbox.clear()


def sum_up(folder: Path, durable: bool) -> None:
    kept = KeptSum(folder, durable=durable)
    kept.put(Kept(**PLACE, sum="s", secrets=None))
    kept.forget()


def write(folder: Path, durable: bool) -> None:
    write_whole(folder / "file", b"x", durable=durable)
    remove_file(folder / "file", durable=durable)


def put(folder: Path, durable: bool) -> None:
    open_blobs(folder, durable=durable).put_all([bytes([i]) for i in range(9)])


KEEPERS: dict[str, tuple[Callable[[Path, bool], object], int]] = {
    "file": (write, 3),
    "identity": (lambda folder, durable: Identity.load_or_create(folder / "key", durable=durable), 2),
    "local states": (save_local, 8),
    "best states": (lambda f, durable: BestStore(f, PACK, {"plug-in": TABLE}, durable=durable).save({}), 2),
    "outbox": (deliver, 3),
    "secure sum": (sum_up, 3),
    "blobs": (put, 3),
}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs the names of open files")
@pytest.mark.parametrize("what", KEEPERS)
def test_all_that_a_device_and_a_coordinator_keep_is_synced_or_not(
    what: str, tmp_path: Path, synced: list[str]
) -> None:
    keep, syncs = KEEPERS[what]
    tmp_path.joinpath("without").mkdir()
    keep(tmp_path / "without", False)
    assert synced == []
    tmp_path.joinpath("with").mkdir()
    keep(tmp_path / "with", True)
    assert len(synced) == syncs


def test_commits_are_synced_or_not(tmp_path: Path) -> None:
    for durable, synchronous in ((True, 2), (False, 0)):
        database = Database(tmp_path / f"{durable}.db", durable=durable)
        with database.writing() as tx:
            assert tx.exec_driver_sql("PRAGMA synchronous").scalar() == synchronous
            assert tx.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        database.close()


def test_boards_and_coordinators_sync_unless_they_are_told_otherwise(tmp_path: Path) -> None:
    nowhere = BrokerAddress("127.0.0.1", 1)
    assert AgentSettings("d", "f", nowhere, tmp_path, b"").durable
    assert RunSettings("f", nowhere, tmp_path).durable
    assert not small().durable


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs the names of open files")
@pytest.mark.parametrize("durable", [False, True])
def test_a_live_run_syncs_its_state_only_where_it_is_asked_to(durable: bool, tmp_path: Path, synced: list[str]) -> None:
    pytest.importorskip("espeakng_loader")
    FleetRun(small(devices=2, rounds=1, durable=durable), tmp_path / "run").run()
    state = tmp_path / "run" / "state"
    for part in ("devices", "coordinator"):
        assert any(path.startswith(str(state / part)) for path in synced) == durable
