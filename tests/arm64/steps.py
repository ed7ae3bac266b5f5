"""Train a few mutual steps of a shipped pack from seeded inputs and print what came out, as JSON.

`python steps.py ARCHITECTURE OPTIMIZER STEPS ARRAYS`: the same on every machine; ARRAYS gets what is too much for JSON.
Only stock onnxruntime and the core: the numbers are the graphs' own.
"""

from __future__ import annotations

import json
import platform
import resource
import statistics
import sys
import time
from typing import Any

import numpy as np
import onnxruntime as ort

from auricle.packs.graph_interface import PARTS, ROLES, state_names
from auricle.packs.pack import Graph, Pack, load_pack
from auricle.speech.features import LogMel

HYPER = {"rate": 0.01, "momentum": 0.9, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
HYPER |= {"decay": 0.01, "l2": 0.0, "clip": 5.0, "mu": 0.0}
LOSS = {"alpha": 0.5, "plugin_ce": 0.5, "temperature": 2.0}
JUDGED = 8


def main(architecture: str, optimizer: str, steps: int, arrays: str) -> dict[str, Any]:
    """Run the steps; what came out."""
    pack = load_pack("gsc12")
    graph = pack.graph("mutual", architecture, optimizer)
    assert graph.batch is not None
    rng = np.random.Generator(np.random.PCG64(7))
    frontend = LogMel(pack.manifest.task)
    features = frontend(_audio(rng, graph.batch, pack.manifest.task.clip_samples))
    feeds = _feeds(pack, graph, rng)
    session = _session(pack, graph)
    losses, seconds, logits = [], [], {}
    for step in range(steps):
        feeds.update({f"{role}.step": np.array(step + 1, np.float32) for role in ROLES["mutual"]})
        began = time.perf_counter()
        outputs = dict(zip(graph.outputs, session.run(list(graph.outputs), _taken(graph, feeds)), strict=True))
        seconds.append(time.perf_counter() - began)
        losses.append([float(outputs["loss.local"]), float(outputs["loss.plugin"])])
        feeds.update({name.removeprefix("new/"): value for name, value in outputs.items() if name.startswith("new/")})
        if step == 0:
            logits = _logits(pack, graph, feeds, "first")
    logits.update(_logits(pack, graph, feeds, "last"))
    weights = {
        f"weights.{role}": np.concatenate([feeds[f"{role}/{p}"].ravel() for p in PARTS]) for role in ROLES["mutual"]
    }
    found: dict[str, Any] = {"features": features, **logits, **weights}
    np.savez(arrays, **found)
    return {
        "machine": platform.machine(),
        "onnxruntime": ort.__version__,
        "pack": pack.identity,
        "losses": losses,
        "milliseconds": 1e3 * statistics.median(seconds),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _audio(rng: np.random.Generator, clips: int, samples: int) -> Any:
    return (rng.random((clips, samples), dtype=np.float32) - np.float32(0.5)) * np.float32(0.2)


def _feeds(pack: Pack, graph: Graph, rng: np.random.Generator) -> dict[str, Any]:
    """Seeded inputs: a batch whose last two samples do not count, and untrained models."""
    task, batch = pack.manifest.task, graph.batch or 1
    labels = len(pack.labels)
    feeds: dict[str, Any] = {
        "x": 2 * rng.random((batch, task.frames, task.frontend.mels), dtype=np.float32) - 1,
        "target": np.eye(labels, dtype=np.float32)[rng.integers(0, labels, batch)],
        "weight": (np.arange(batch) < batch - 2).astype(np.float32),
    }
    numbers = {f"{role}.{name}": value for role in ROLES["mutual"] for name, value in HYPER.items()}
    feeds.update({name: np.array(value, np.float32) for name, value in {**LOSS, **numbers}.items()})
    for seed, (role, model) in enumerate(zip(ROLES["mutual"], (graph.model, graph.plugin), strict=True)):
        table = pack.table(model or "")
        for vector in state_names(graph, role):
            flat = table.initial(seed) if vector == role else np.zeros(table.size, np.float32)
            feeds.update(zip((f"{vector}/{part}" for part in PARTS), table.parts(flat), strict=True))
    feeds.update({name: rng.random(shape, dtype=np.float32) for name, shape in graph.noise.items()})
    feeds.update({name: np.zeros(shape, np.float32) for name, shape in graph.state.items()})
    return feeds


def _taken(graph: Graph, feeds: dict[str, Any]) -> dict[str, Any]:
    return {name: feeds[name] for name in graph.inputs}


def _session(pack: Pack, graph: Graph) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(pack.files[graph.file], options, providers=["CPUExecutionProvider"])


def _logits(pack: Pack, graph: Graph, feeds: dict[str, Any], when: str) -> dict[str, Any]:
    """Logits (8, labels) of both models, by `logits.role.when`."""
    found = {}
    for role, model in zip(ROLES["mutual"], (graph.model, graph.plugin), strict=True):
        judge = pack.graph("evaluate", model or "")
        inputs = {"x": feeds["x"][:JUDGED], **{f"model/{part}": feeds[f"{role}/{part}"] for part in PARTS}}
        found[f"logits.{role}.{when}"] = _session(pack, judge).run(["logits"], inputs)[0]
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])))
