"""The engines' benchmark: all sides do the same work, are compared as the formula has it, and fit a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import engines_ours, engines_plain
from bench.engines_plain import Client, average
from bench.engines_process import Seen, seen_of
from bench.engines_table import own_time, report, side_of
from bench.engines_work import apart, require_same, written
from bench.engines_worker import ROUNDS, Diary, family, used
from bench.step_process import Failed

from auricle.packs.pack import load_pack

CLIENTS = 3
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def spec(tmp_path: Path) -> dict[str, Any]:
    """Three clients of noise."""
    pack, rng = load_pack("gsc12"), np.random.default_rng(0)
    task = pack.manifest.task
    energies = rng.random((CLIENTS, 16, task.frames, task.frontend.mels), np.float32)
    told = written(tmp_path, pack, energies, rng.integers(0, 12, CLIENTS * 16))
    return {**told, "rounds": 3, "runtime": "step", "alone": False, "cores": [0]}


def _played(play: Any, spec: dict[str, Any], folder: Path) -> tuple[Any, list[dict[str, Any]]]:
    folder.mkdir()
    told = {**spec, "folder": str(folder)}
    play(told, Diary(told))
    lines = [json.loads(line) for line in (folder / ROUNDS).read_text().splitlines()]
    return {number: np.load(folder / f"{number}.npy") for number in (1, 3)}, lines


def test_the_engine_and_a_plain_loop_make_the_same_models(tmp_path: Path, spec: dict[str, Any]) -> None:
    """To float32's rounding, and far from where they began; each says what its rounds took."""
    plain, _ = _played(engines_plain.play, spec, tmp_path / "plain")
    ours, lines = _played(engines_ours.play, {**spec, "alone": True}, tmp_path / "ours")
    require_same(apart({"plain": plain, "ours": ours}, "plain"))
    assert float(np.abs(plain[3] - np.load(spec["weights"])).max()) > 1e-3
    assert [line["round"] for line in lines[1:]] == [1, 2, 3]
    assert all(line["seconds"] > 0 and line["alone"] > 0 for line in lines[1:])


@pytest.mark.slow
def test_the_module_in_pytorch_trains_to_the_graphs_weights(spec: dict[str, Any]) -> None:
    """With gradients that are clipped, as the first ones are, and with those that are not."""
    torch = pytest.importorskip("torch")
    from bench.engines_torch import put, taken, train, twin

    model, x, y = np.load(spec["weights"]), np.load(spec["features"])[0], np.load(spec["targets"])[0]
    for clip in (spec["clip"], 0.01, 1e9):
        module = twin(spec)
        put(module, model, spec)
        train(module, torch.from_numpy(x), torch.from_numpy(y), spec["rate"], clip)
        own = Client({**spec, "clip": clip}).trained(model, x, y)
        assert np.abs(taken(module, spec) - own).max() < 1e-6 * np.abs(own).max()
        assert float(np.linalg.norm(own - model)) <= spec["rate"] * clip * (1 + 1e-5)


@pytest.mark.slow
def test_the_module_needs_nothing_of_core() -> None:
    """Peers' environments have PyTorch and the folder `export`."""
    pytest.importorskip("torch")
    code = "import sys; sys.modules['auricle'] = None; import bench.engines_torch"
    path = os.pathsep.join(map(str, (ROOT, ROOT / "export")))
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path})


@pytest.mark.slow
def test_a_process_is_watched_to_its_end(spec: dict[str, Any]) -> None:
    seen = seen_of(Path(sys.executable), "bench.engines_plain", {**spec, "rounds": 503}, [0])
    assert len(seen.seconds) == 500 and seen.cpu > 0 and seen.megabytes > 30
    assert set(seen.models) == {1, 3} and seen.made_of.startswith("onnxruntime")
    with pytest.raises(Failed, match="no/such/file"):
        seen_of(Path(sys.executable), "bench.engines_plain", {**spec, "features": "/no/such/file.npy"}, [0])


def test_an_average_by_hand() -> None:
    models = [np.array([1.0, 4.0], np.float32), np.array([4.0, -2.0], np.float32)]
    assert average(models, [2, 1]).tolist() == [2.0, 2.0]


def test_models_apart_are_no_comparison() -> None:
    """The largest difference by the largest weight: 0.002 by 4."""
    models = {"a": {1: np.array([4.0, 1.0])}, "b": {1: np.array([4.0, 1.002])}}
    far = apart(models, "a")
    assert far["b"][1] == pytest.approx(0.0005)
    with pytest.raises(Failed, match="after round 1 the weights of b differ"):
        require_same(far)
    with pytest.raises(Failed, match="differ by nan"):
        require_same({"b": {1: float("nan")}})
    require_same({"b": {1: 1e-6}})


def test_a_process_and_its_children_are_counted() -> None:
    """Time is counted in ticks of the kernel: the process works for some."""
    child = "import time\nwhile time.process_time() < 0.1: pass\nprint(1, flush=True)\ninput()"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        tree = family(process.pid)
        assert tree[0] == process.pid and len(tree) == 2
        assert 0 < used(tree) < 60
        process.communicate(b"\n")
    assert used(tree) == 0


def test_the_tables_say_what_was_measured_and_fit_a_terminal() -> None:
    """Three rounds of 10 clients in 1, 2 and 4 s are 5 clients a second; half the time is twice the clients."""
    lines = ({"seconds": 1.0, "alone": 0.9, "alone_cpu": 0.8}, {"seconds": 1.0, "alone": 0.9, "alone_cpu": 0.8})
    quick = Seen("ours", (1.0, 2.0, 4.0), 3.0, 100.0, {}, lines)
    slow = Seen("pfl 0.6.0, torch 2.13.0+cpu", (2.0, 4.0, 8.0), 6.0, 400.0, {})
    sides = {"ours": side_of([quick, quick], 10), "pfl": side_of([slow, slow], 10)}
    assert sides["ours"]["rate"] == [5.0, 5.0] and sides["ours"]["cpu"] == pytest.approx([0.1, 0.1])
    own = own_time([quick], 10)
    assert own["own"] == pytest.approx([0.01, 0.01]) and own["cpu"] == pytest.approx(0.15)
    found = {"sides": sides, "failed": {"Flower": "no wheel"}, "load": [0.1, 0.2]}
    said = report({"clients": 10, "rounds": 3, "turns": 2, "cores": 1, "supervised": found, "own": {"mutual": own}})
    assert "pfl / ours: CPU 2.00 (2.00-2.00), clock 2.00 (2.00-2.00)" in said
    assert "Flower: not measured: no wheel" in said
    assert max(map(len, said.splitlines())) <= 80
