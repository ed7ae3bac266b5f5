"""Who trains a virtual fleet: the same weights in threads and in any number of processes, and none left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fleet.test_virtual import as_bytes, virtual

from auricle.errors import AuricleError
from auricle.speech.row_store import RowStore, Spill
from auricle_fleet import FleetRun, Group
from auricle_fleet.population.fleet_clips import FleetClips
from auricle_fleet.virtual import local_crew
from auricle_fleet.virtual.checkpoint import DeviceStates
from auricle_learning.training.train import LocalState

DIVERSE = {
    "groups": (
        Group(name="loud", noise_db=10.0, label_errors=0.3),
        Group(name="together", count=2, attack="alie", strength=1.0),
    ),
    "devices": 4,
    "local": "crnn-lite,crnn-base",
}


@pytest.mark.slow
@pytest.mark.parametrize("changes", [DIVERSE, {"method": "scaffold", "preset": "fedavg", "codec": "top-k"}])
def test_processes_make_the_same_model_however_many_they_are(tmp_path: Path, changes: dict[str, Any]) -> None:
    pytest.importorskip("espeakng_loader")
    runs = [FleetRun(virtual(**changes, processes=count), tmp_path / str(count)).run() for count in (1, 2)]
    assert len({as_bytes(run) for run in runs}) == 1
    assert runs[0].rounds[-1].personal == runs[1].rounds[-1].personal


@pytest.mark.slow
def test_devices_in_processes_keep_the_best_states_that_those_of_one_process_keep(tmp_path: Path) -> None:
    pytest.importorskip("espeakng_loader")
    told = {"words": "gsc12", "takes": 1, "start": "pack", "judge_share": 1.0, "judge_minutes": 1.0, "rounds": 1}
    runs = [FleetRun(virtual(**told, processes=count), tmp_path / str(count)).run() for count in (1, 2)]
    assert as_bytes(runs[0]) == as_bytes(runs[1])
    kept = [sorted((tmp_path / f"{count}/state/virtual/devices").rglob("best.safetensors")) for count in (1, 2)]
    assert len(kept[0]) == 4
    assert [file.read_bytes() for file in kept[0]] == [file.read_bytes() for file in kept[1]]


@pytest.mark.slow
def test_a_process_that_is_killed_is_said_and_the_run_goes_on_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("espeakng_loader")
    whole = FleetRun(virtual(processes=2), tmp_path / "whole").run()
    begun = local_crew.ProcessCrew.answers

    def answers(self: Any, call: Any, asked: Any) -> Any:
        if call.invite.round == 2:
            os.kill(next(iter(self._workers._processes)), signal.SIGKILL)
        yield from begun(self, call, asked)

    with monkeypatch.context() as patched:
        patched.setattr(local_crew.ProcessCrew, "answers", answers)
        with pytest.raises(AuricleError, match="--resume"):
            FleetRun(virtual(processes=2), tmp_path / "killed").run()
    assert as_bytes(FleetRun.resume(tmp_path / "killed").run()) == as_bytes(whole)


SCRIPT = """
import sys
from auricle_fleet import FleetRun, FleetSettings

settings = FleetSettings(
    words="yes,no", devices=4, unseen=2, takes=3, min_clips=4, rounds=int(sys.argv[2]), local="crnn-lite", processes=2
)
FleetRun(settings, sys.argv[1], on_round=lambda row: print(row.round, flush=True)).run()
"""


def children(pid: int) -> list[int]:
    return [int(word) for task in Path(f"/proc/{pid}/task").glob("*/children") for word in task.read_text().split()]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_a_script_needs_no_guard_and_a_run_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    pytest.importorskip("espeakng_loader")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script, tmp_path / "whole", "2"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, ["1", "2"]), done.stderr
    with subprocess.Popen([sys.executable, script, tmp_path / "killed", "1000"], stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        run.stdout.readline()
        own = children(run.pid)
        assert len(own) >= 2
        run.kill()
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in own) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in own)


@pytest.mark.parametrize("above", [0, 1 << 30], ids=["in a file", "in memory"])
def test_clips_are_lent_to_other_processes(tmp_path: Path, above: int) -> None:
    rows = RowStore(4, (3, 2), np.float32, Spill(tmp_path, above))
    rows.put(np.arange(24, dtype=np.float32).reshape(4, 3, 2))
    bounds = np.array([[0, 2, 3], [3, 4, 5]])
    order, targets = np.array([0, 2, 1, 3, 0]), np.array([5, 6, 7, 8])
    clips = FleetClips(rows.finish(), targets, ("ana", "bo"), bounds, None, order, None, rows.file)
    lent = clips.lent()
    for each in (clips, lent.opened()):
        (_, ana), (speaker, bo) = each
        assert (speaker, len(each)) == ("bo", 2)
        assert ana.train.targets.tolist() == [5, 7] and ana.held_out.energies.tolist() == [[[6, 7], [8, 9], [10, 11]]]
        assert bo.train.energies[0, 0, 0] == 18 and bo.held_out.targets.tolist() == [5]
    assert clips.counts.tolist() == [[2, 1], [1, 1]]


def test_another_voice_hears_between_the_bands() -> None:
    rows = np.zeros((1, 1, 8), np.float32)
    rows[0, 0, 4] = 1.0
    bounds = np.array([[0, 1, 1], [0, 1, 1]])
    clips = FleetClips(rows, np.array([0]), ("ana", "ana-2"), bounds, None, np.array([0]), np.array([1.0, 0.8]))
    assert clips[0][1].train.energies[0, 0].tolist() == rows[0, 0].tolist()
    assert clips[1][1].train.energies[0, 0].tolist() == pytest.approx([0, 0, 0, 0, 0.2, 1.0, 0.2, 0])


def state(value: float) -> LocalState:
    return LocalState(np.full(250, value, np.float32))


def test_states_that_the_checkpoint_has_make_room_and_come_back() -> None:
    disk: dict[str, LocalState] = {}
    states = DeviceStates(disk.get, room=2000)  # two states
    assert states.get("a") is None
    for number, name in enumerate("abc"):
        states.put(name, state(number))
    assert states.is_full and sorted(states.unkept()) == ["a", "b", "c"]
    disk.update(states.unkept())
    states.settle()
    assert not states.is_full and not states.unkept()
    assert [float(states.get(name).weights[0]) for name in "abc"] == [0.0, 1.0, 2.0]  # type: ignore[union-attr]
    states.put("a", state(7.0))
    assert list(states.unkept()) == ["a"]
    assert float(states.get("a").weights[0]) == 7.0  # type: ignore[union-attr]
