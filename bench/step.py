"""A training step, side by side: ours, PyTorch eager, `torch.compile` and onnxruntime-training.

Every peer has an environment of its own (made once under ~/.cache/auricle/bench) and a process of its own for every
row. All are pinned to one core with one thread, start from the same weights, get the same batches, and take turns in
blocks of steps. Ours is the step graph of a pack on stock onnxruntime: `bare` is the loop around `session.run`,
`runtime` the session that a board's agent uses; `native` is the same graph on the C library of the runtime native. The
losses of the first steps are compared, so that all do the same work. The share of the peak is the matrix products of a
step (`bench/step_cost.py`) by its CPU time by the core's peak: multiply-adds on registers alone (`step_peak.c`), also
taken in CPU time; on a quiet machine that is wall-clock time. `native AVX2` is the same library held to 256 bits.
`--touch 12` writes 12 MB between any two steps, as other work of a machine would.

    python bench/step.py [--optimizer adamw] [--rounds 15] [--steps 40] [--pack FILE] [--touch MB] [--json]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from auricle.packs.graph_interface import LOSSES, SCALARS, state_names
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle_learning.runtimes.interface import NEUTRAL, named_parts
from bench.answer import answer
from bench.comparison_table import ratio
from bench.step_cost import crnn_cost
from bench.step_environments import ORT_TRAINING, ROOT, TORCH, NoEnvironment, environment, install_bytes
from bench.step_process import Failed, Worker, say, workers
from bench.step_table import Series, report

BATCHES, COMPARED = 8, 5
SCENARIOS: dict[str, tuple[str, str, dict[str, str]]] = {
    "supervised": ("CRNN-Lite, supervised", "supervised", {"model": "crnn-lite"}),
    "mutual": ("CRNN-Base and CRNN-Lite, mutual", "mutual", {"local": "crnn-base", "plugin": "crnn-lite"}),
}
RATE = {"sgd": 0.05, "adamw": 1e-3}
BARE, EAGER, COMPILE, ORT = "ours, bare", "PyTorch eager", "torch.compile", "onnxruntime-training"
PEERS: dict[str, tuple[str, str, tuple[str, ...], dict[str, Any]]] = {
    BARE: ("auricle", "bench.step_ours", ("onnxruntime",), {"mode": "bare"}),
    "ours, runtime": ("auricle", "bench.step_ours", ("auricle",), {"mode": "runtime"}),
    "ours, native": ("auricle", "bench.step_ours", ("auricle",), {"mode": "native"}),
    "ours, native AVX2": ("auricle", "bench.step_ours", ("auricle",), {"mode": "native", "level": "avx2"}),
    EAGER: ("torch", "bench.step_torch", ("torch", "numpy"), {"compile": False}),
    COMPILE: ("torch", "bench.step_torch", ("torch", "numpy"), {"compile": True}),
    ORT: ("ort-training", "bench.step_ort", ("onnxruntime-training",), {}),
}
"""Environment, program, packages that are counted as its installation, and what the program is told."""


def hyper_parameters(optimizer: str, roles: Mapping[str, str]) -> dict[str, float]:
    """By name; no momentum, decay or clipping: what onnxruntime-training's SGD can do too."""
    named = {f"{role}.{name}": NEUTRAL.get(name, 0.0) for role in roles for name in SCALARS[optimizer]}
    named.update({f"{role}.rate": RATE[optimizer] for role in roles})
    return {**named, **({"alpha": 0.5, "plugin_ce": 1.0, "temperature": 1.0} if len(roles) == 2 else {})}


def prepare(folder: Path, pack: Pack, kind: str, optimizer: str, roles: Mapping[str, str]) -> dict[str, Any]:
    """Write what the processes of a kind of step read, models by role; returns what they are told."""
    graph = pack.graph(kind, next(iter(roles.values())), optimizer)
    assert graph.batch is not None
    rng, labels, task = np.random.default_rng(0), len(pack.labels), pack.manifest.task
    scalars = hyper_parameters(optimizer, roles)
    arrays: dict[str, Any] = {
        "x": rng.standard_normal((BATCHES, graph.batch, task.frames, task.frontend.mels), np.float32),
        "target": np.eye(labels, dtype=np.float32)[rng.integers(0, labels, (BATCHES, graph.batch))],
    }
    feeds: dict[str, Any] = {name: np.array(value, np.float32) for name, value in scalars.items()}
    feeds["weight"] = np.ones(graph.batch, np.float32)
    for seed, (role, model) in enumerate(roles.items()):
        table = pack.table(model)
        arrays[f"weights:{role}"] = table.initial(seed)
        for vector in state_names(graph, role):
            value = arrays[f"weights:{role}"] if vector == role else np.zeros(table.size, np.float32)
            feeds.update(named_parts(vector, table, value))
    feeds.update({name: rng.random(shape, np.float32) for name, shape in graph.noise.items()})
    arrays |= {f"feed:{name}": value for name, value in feeds.items()}
    np.savez(folder / f"{kind}.npz", **arrays)
    (folder / f"{kind}.onnx").write_bytes(pack.files[graph.file])
    return {
        "kind": kind,
        "models": roles,
        "optimizer": optimizer,
        "scalars": scalars,
        "labels": labels,
        "tensors": {r: [(s.name, s.shape) for s in pack.table(m).specs] for r, m in roles.items()},
        "graph": str(folder / f"{kind}.onnx"),
        "outputs": graph.outputs,
        "losses": len(LOSSES[kind]),
        "data": str(folder / f"{kind}.npz"),
        "pack": str(folder / "pack.tar.zst"),
        "artifacts": str(folder / f"{kind}.artifacts"),
    }


def start(folder: Path, scenario: str, peer: str, spec: Mapping[str, Any], core: int) -> tuple[Worker, int]:
    """Start a peer's process; it and the bytes of its installation. Raises NoEnvironment or Failed."""
    name, module, packages, told = PEERS[peer]
    python = environment(name, say)
    path = folder / f"{scenario}.{module}.{len(list(folder.iterdir()))}.json"
    path.write_text(json.dumps({**spec, **told}))
    if peer == ORT:
        _make_artifacts(python, path)
    paths = (ROOT / "export",) if name == "torch" else ()
    return Worker(python, module, path, core, paths), install_bytes(python, *packages)


def _make_artifacts(python: Path, spec: Path) -> None:
    done = subprocess.run(
        [python, "-m", "bench.step_artifacts", spec],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    if done.returncode != 0:
        raise Failed(" ".join(done.stderr.strip().splitlines()[-1:]))


def measure(folder: Path, pack: Pack, scenario: str, given: argparse.Namespace) -> dict[str, Any]:
    """One table: every peer's steps in a scenario, interleaved."""
    title, kind, roles = SCENARIOS[scenario]
    spec = {**prepare(folder, pack, kind, given.optimizer, roles), "touch": given.touch}
    found: dict[str, dict[str, Any]] = {}
    series: dict[str, Series] = {}
    with workers() as running:
        active: dict[str, Worker] = {}
        first: dict[str, list[float]] = {}
        for peer in given.peers:
            say(f"{scenario}: {peer} is made ready")
            try:
                worker, size = start(folder, scenario, peer, spec, given.core)
                running.append(worker)
                first[peer] = worker.block(COMPARED, 0)["losses"]
            except (NoEnvironment, Failed) as reason:
                found[peer] = {"failed": str(reason)}
                continue
            active[peer], series[peer] = worker, Series()
            found[peer] = {key: worker.facts[key] for key in ("with", "note") if key in worker.facts}
            found[peer]["bytes"] = {"imported": worker.facts["imported"]["rss"], "install": size}
        take_turns(scenario, active, series, given)
    for peer, seen in series.items():
        found[peer] |= seen.facts()
        found[peer]["bytes"] |= {key: seen.memory[key] for key in ("peak", "pss")}
        if peer != BARE and BARE in series:
            found[peer]["ratio"] = ratio(seen.wall, series[BARE].wall)
            found[peer]["cpu_ratio"] = ratio(seen.cpu, series[BARE].cpu)
    flops = sum(crnn_cost(pack.table(model)).step for model in roles.values())
    apart = max((abs(a - b) for one in first.values() for a, b in zip(one, first[BARE], strict=True)), default=0.0)
    return {"title": title, "flops": flops, "peers": found, "compared": COMPARED, "apart": apart}


def take_turns(
    what: str, active: Mapping[str, Worker], series: Mapping[str, Series], given: argparse.Namespace
) -> None:
    """Let every process take its turn in every round, each round in another order; the first is to warm up."""
    order = list(active)
    for number in range(given.rounds + 1):
        say(f"{what}: round {number} of {given.rounds}")
        random.Random(number).shuffle(order)
        for name in order:
            block = active[name].block(given.steps, 3)
            if number:
                series[name].add(block)


def measure_peak(folder: Path, given: argparse.Namespace) -> dict[str, float]:
    """Operations a second of large matrix products on one core, by who computes them and the size."""
    best: dict[str, float] = {}
    python = environment("auricle", say)
    spec = folder / "peak.json"
    spec.write_text(json.dumps({"mode": "registers"}))
    with workers() as running, contextlib.suppress(Failed):
        running.append(Worker(python, "bench.step_peak", spec, given.core))
        seen = {"registers": Series()}
        take_turns("multiply-adds", {"registers": running[0]}, seen, given)
        best["registers"] = running[0].facts["operations"] / seen["registers"].facts()["cpu_seconds"]
    for size in (512, 1024):
        graph = folder / f"matmul{size}.onnx"
        graph.write_bytes(_matmul(size))
        with workers() as running:
            series: dict[str, Series] = {}
            active: dict[str, Worker] = {}
            for mode in ("numpy", "onnxruntime"):
                spec = folder / f"peak.{mode}.{size}.json"
                spec.write_text(json.dumps({"mode": mode, "size": size, "graph": str(graph)}))
                active[mode], series[mode] = Worker(python, "bench.step_peak", spec, given.core), Series()
                running.append(active[mode])
            take_turns(f"matrix products of {size}", active, series, given)
        for mode, seen in series.items():
            best[f"{mode} {size}"] = 2 * size**3 / seen.facts()["cpu_seconds"]
    return best


def _matmul(size: int) -> bytes:
    """A graph of one matrix product."""
    from onnx import TensorProto, helper

    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (size, size)) for name in "aby"]
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"])], "product", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    content: bytes = model.SerializeToString()
    return content


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optimizer", choices=tuple(RATE), default="sgd")
    parser.add_argument("--scenario", choices=tuple(SCENARIOS), action="append", help="one of them only")
    parser.add_argument("--peer", choices=tuple(PEERS), action="append", help=f"besides {BARE}, only these")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=40, help="of a block")
    parser.add_argument("--pack", default="gsc35", help="whose graphs to run: a name, a folder or a .tar.zst")
    parser.add_argument("--touch", type=int, default=0, metavar="MB", help="memory written between two steps")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="to which all are pinned")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    given.peers = [peer for peer in PEERS if not given.peer or peer in (BARE, *given.peer)]
    if given.rounds < 1 or given.steps < 2 or given.core not in os.sched_getaffinity(0):
        parser.error("--rounds has to be at least 1, --steps at least 2, and --core one that this process may use")
    return given


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure everything; nothing is left but the environments."""
    pack = load_pack(given.pack)
    with tempfile.TemporaryDirectory(prefix="auricle-bench-") as name:
        folder = Path(name)
        (folder / "pack.tar.zst").write_bytes(pack_bytes(pack))
        load = [round(value, 2) for value in os.getloadavg()]
        peak = measure_peak(folder, given)
        scenarios = {each: measure(folder, pack, each, given) for each in given.scenario or SCENARIOS}
    for scenario in scenarios.values():
        for facts in scenario["peers"].values():
            if "seconds" in facts:
                facts["share_of_peak"] = scenario["flops"] / facts["cpu_seconds"] / max(peak.values())
    return {
        "pack": pack.manifest.name,
        "identity": pack.identity,
        "labels": len(pack.labels),
        "batch": 16,
        "optimizer": given.optimizer,
        "rounds": given.rounds,
        "steps": given.steps,
        "touch": given.touch,
        "load": load,
        "pins": [TORCH, ORT_TRAINING],
        "peak": peak,
        "scenarios": scenarios,
    }


def main() -> int:
    """Measure and print."""
    given = arguments()
    return answer(lambda: run(given), report, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
