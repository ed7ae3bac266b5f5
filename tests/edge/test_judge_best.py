"""The best states on disk: what was kept comes back, after a kill too; what is damaged counts as none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from safetensors.numpy import save

from auricle.wire.tensor_specs import TensorSpec
from auricle.wire.tensors import TensorTable
from auricle_edge.training.judge.best import Best, BestStore
from auricle_edge.training.judge.comparison import Heard

TABLE = TensorTable((TensorSpec("head.weight", (2, 3), "head", 0.5), TensorSpec("head.bias", (2,), "head", 0.5)))
PACK, SOUND = "a" * 64, "b" * 64
HEARD = Heard(np.array([0, 2, 0, 1], np.uint8), np.array([1, 0, 1], np.uint8), 0.25)
BEST = {"plug-in": Best(np.arange(8, dtype=np.float32), SOUND, HEARD)}
NOTE = {
    "pack": PACK,
    "kept": {
        "plug-in": {"sound": SOUND, "hours": 0.25, "seconds": 4, "accepts": [1, 1, 3], "clips": 3, "hits": [0, 2]}
    },
}


def _store(folder: Path, pack: str = PACK) -> BestStore:
    return BestStore(folder, pack, {"plug-in": TABLE, "personal model": TABLE})


def _write(folder: Path, note: object, **tensors: np.ndarray) -> None:
    whole = tensors or {"plug-in": np.arange(8, dtype=np.float32)}
    metadata = {"auricle": msgspec.json.encode(note).decode()}
    (folder / "best.safetensors").write_bytes(save({n.replace("_", "-"): t for n, t in whole.items()}, metadata))


def test_what_was_kept_is_read_by_the_next_process(tmp_path: Path) -> None:
    _store(tmp_path / "device").save(BEST)
    read = _store(tmp_path / "device").read()["plug-in"]
    assert read.weights.tolist() == list(range(8))
    assert (read.sound, read.heard.hours) == (SOUND, 0.25)
    assert read.heard.accepts.tolist() == [0, 2, 0, 1]
    assert read.heard.hits.tolist() == [1, 0, 1]


def test_the_note_is_the_places(tmp_path: Path) -> None:
    _write(tmp_path, NOTE)
    assert _store(tmp_path).read()["plug-in"].heard.accepts.tolist() == [0, 2, 0, 1]


def test_another_packs_states_are_not_used(tmp_path: Path) -> None:
    _store(tmp_path).save(BEST)
    assert _store(tmp_path, "c" * 64).read() == {}
    assert _store(tmp_path / "nowhere").read() == {}


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": 3},
        {"seconds": -1},
        {"seconds": 1 << 30},
        {"clips": 2},
        {"hours": -1.0},
        {"accepts": [-1]},
        {"accepts": [1] * 300},
        {"accepts": "many"},
        {"sound": "b"},
        {"more": 1},
        {"seconds": (1 << 24) + 1},
        {"clips": 1 << 19, "hits": list(range((1 << 18) + 1))},
    ],
    ids=lambda change: str(change)[:40],
)
def test_counts_that_cannot_be_are_no_best_state(tmp_path: Path, change: dict[str, object]) -> None:
    _write(tmp_path, {**NOTE, "kept": {"plug-in": {**NOTE["kept"]["plug-in"], **change}}})  # type: ignore[index]
    assert _store(tmp_path).read() == {}


def test_a_note_with_more_in_it_is_none_of_ours(tmp_path: Path) -> None:
    _write(tmp_path, {**NOTE, "more": 1})
    assert _store(tmp_path).read() == {}


@pytest.mark.parametrize(
    ("kept", "accepts", "hits"),
    [
        ({"seconds": 0, "accepts": [], "clips": 0, "hits": []}, [], []),
        ({"seconds": 1, "accepts": [], "clips": 1, "hits": []}, [0], [0]),
        ({"seconds": 3, "accepts": [0], "clips": 4, "hits": [1]}, [1, 0, 0], [0, 1, 0, 0]),
        ({"seconds": 1, "accepts": [0] * 255, "clips": 1, "hits": [0, 0]}, [255], [1]),
    ],
    ids=("nothing", "nothing heard", "nothing at the end", "often"),
)
def test_the_places_are_counted_in_all_seconds_and_clips(
    tmp_path: Path, kept: dict[str, object], accepts: list[int], hits: list[int]
) -> None:
    _write(tmp_path, {**NOTE, "kept": {"plug-in": {**NOTE["kept"]["plug-in"], **kept}}})  # type: ignore[index]
    heard = _store(tmp_path).read()["plug-in"].heard
    assert (heard.accepts.tolist(), heard.hits.tolist()) == (accepts, hits)


@pytest.mark.parametrize(
    "weights",
    [np.zeros(7, np.float32), np.zeros(8, np.float64), np.full(8, np.nan, np.float32), np.zeros((2, 4), np.float32)],
    ids=("short", "double", "nan", "matrix"),
)
def test_weights_that_cannot_be_are_no_best_state(tmp_path: Path, weights: np.ndarray) -> None:
    _write(tmp_path, NOTE, plug_in=weights)
    assert _store(tmp_path).read() == {}


def test_a_cut_file_at_any_byte_is_no_best_state(tmp_path: Path) -> None:
    _store(tmp_path).save(BEST)
    path = tmp_path / "best.safetensors"
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        assert _store(tmp_path).read() == {}


KILLED = """
import sys, numpy as np
from pathlib import Path
from tests.edge.test_judge_best import BEST, HEARD, SOUND, _store
from auricle_edge.training.judge.best import Best
store, number = _store(Path(sys.argv[1])), 0
print("ready", flush=True)
while True:
    number += 1
    store.save({"plug-in": Best(np.full(8, number, np.float32), SOUND, HEARD)})
    print(number, flush=True)
"""


@pytest.mark.slow
def test_after_a_kill_the_best_state_is_a_whole_one_and_no_older_than_the_last_that_was_kept(tmp_path: Path) -> None:
    for attempt in range(3):
        command = [sys.executable, "-c", KILLED, str(tmp_path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        assert process.stdout is not None
        for _ in range(5 + attempt):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        last = [int(line) for line in process.stdout.read().split()]
        process.wait()
        read = _store(tmp_path).read()["plug-in"].weights
        assert len(set(read.tolist())) == 1
        assert read[0] >= max(last, default=3 + attempt)
