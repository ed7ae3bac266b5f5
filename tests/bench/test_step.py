"""The step benchmark's processes: real ones, of this Python's onnxruntime and PyTorch."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.step import BARE, PEERS, SCENARIOS, _matmul, prepare
from bench.step_process import ROOT, Failed, Worker, workers

from auricle.packs.pack import load_pack, pack_bytes
from auricle_learning.native.library import compiler

PACK = load_pack("gsc35")
PYTHON = Path(sys.executable)
CORE = max(os.sched_getaffinity(0))
SOURCES = tuple(ROOT / part for part in ("core", "learning", "edge", "export"))


def _worker(folder: Path, peer: str, spec: dict[str, Any]) -> Worker:
    _, module, _, told = PEERS[peer]
    path = folder / f"{peer}.json"
    path.write_text(json.dumps({**spec, **told}))
    return Worker(PYTHON, module, path, CORE, SOURCES)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("optimizer", ["sgd", pytest.param("adamw", marks=pytest.mark.slow)])
@pytest.mark.nightly
def test_ours_and_pytorch_do_the_same_work(tmp_path: Path, scenario: str, optimizer: str) -> None:
    pytest.importorskip("torch")
    (tmp_path / "pack.tar.zst").write_bytes(pack_bytes(PACK))
    _, kind, roles = SCENARIOS[scenario]
    spec = prepare(tmp_path, PACK, kind, optimizer, roles)
    losses: dict[str, list[float]] = {}

    native = () if compiler() is None else ("ours, native",)
    for peer in (BARE, "ours, runtime", *native, "PyTorch eager"):
        with workers() as running:
            running.append(_worker(tmp_path, peer, spec))
            block = running[0].block(4, 1)
        losses[peer] = block["losses"]
        assert len(block["seconds"]) == len(block["cpu"]) == 4
        assert block["memory"]["peak"] >= block["memory"]["rss"] > 20e6

    assert losses[BARE][0] != losses[BARE][-1]
    for found in losses.values():
        assert found == pytest.approx(losses[BARE], abs=1e-5)


def test_a_process_is_pinned_and_ends_with_the_block(tmp_path: Path) -> None:
    spec = {"mode": "onnxruntime", "size": 32, "graph": str(tmp_path / "product.onnx")}
    (tmp_path / "product.onnx").write_bytes(_matmul(32))
    (tmp_path / "spec.json").write_text(json.dumps(spec))

    with workers() as running:
        running.append(Worker(PYTHON, "bench.step_peak", tmp_path / "spec.json", CORE))
        pid = running[0].facts["pid"]
        assert os.sched_getaffinity(pid) == {CORE}
        assert math.isfinite(running[0].block(2, 0)["losses"][0])

    assert not Path(f"/proc/{pid}").exists()


def test_a_peer_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps({"mode": "bare", "graph": "/nowhere.onnx", "data": "/nowhere.npz"}))
    with pytest.raises(Failed, match="nowhere"):
        Worker(PYTHON, "bench.step_ours", tmp_path / "spec.json", CORE)
