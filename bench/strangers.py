"""Three networks that know nothing of this project, trained by PyTorch and by their compiled step graphs.

Same recordings, split by speaker; same initial weights, batches, AdamW settings and learning-rate schedule. Dropout
masks differ: PyTorch draws its own, the graph is given uniform numbers. Batch normalisation is frozen in both: its
modules are in eval mode, with statistics taken from one pass over the training clips before the first step. Prints the
accuracy on speakers that were not trained on, for every seed (weights, order, masks), the mean and the spread (largest
less smallest) of both, and milliseconds a step on one thread.

    python bench/strangers.py --data DIR [--epochs 10] [--seeds 3] [--nets ds-cnn,bc-resnet,transformer] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.export.models.bc_resnet import BcResNet
from tests.export.models.ds_cnn import DsCnn
from tests.export.models.keyword_transformer import KeywordTransformer

from auricle.packs.manifest import Task
from auricle.packs.pack import Pack
from auricle.speech.features import LogMel
from auricle.speech.folder import load_folder
from auricle.speech.split import split_by_speaker
from auricle_export.compiler.trace import find_parts
from auricle_export.packs.author import tensor_specs
from auricle_export.packs.build import Model, Recipe, assemble
from auricle_export.packs.stepgraph import trace
from auricle_learning.runtimes.interface import joined_parts, named_parts

NETS: dict[str, tuple[Callable[[int], nn.Module], float]] = {
    "ds-cnn": (DsCnn, 3e-3),
    "bc-resnet": (BcResNet, 3e-3),
    "transformer": (KeywordTransformer, 1e-3),
}
"""Maker and learning rate."""
BATCH, DECAY, WARM_UP = 16, 1e-2, 0.1


@dataclass(frozen=True)
class Speech:
    """Log-mels (N, 100, 40) and targets (N,), to train on and to judge by; no speaker is in both."""

    labels: tuple[str, ...]
    x: np.ndarray
    y: np.ndarray
    unseen_x: np.ndarray
    unseen_y: np.ndarray


def read_speech(folder: Path, words: str) -> Speech:
    """Speakers with 20 clips or more are trained on, but for a fifth of them; all others are unseen."""
    speech = load_folder(folder, words=words)
    task = Task(speech.labels)
    split = split_by_speaker(speech)
    mels = LogMel(task)(speech.audio)
    seen = np.concatenate([device.clips for device in split.devices])
    return Speech(speech.labels, mels[seen], speech.targets[seen], mels[split.unseen], speech.targets[split.unseen])


def initial(make: Callable[[int], nn.Module], speech: Speech, seed: int) -> nn.Module:
    """A network whose batch normalisation has seen the training clips once and is then frozen."""
    torch.manual_seed(seed)
    module = make(len(speech.labels))
    norms = [part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = None  # type: ignore[assignment]
        norm.train()
    with torch.no_grad():
        for start in range(0, len(speech.x), 64):
            module(torch.from_numpy(speech.x[start : start + 64]))
    return module


def batches(speech: Speech, epochs: int, seed: int) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """Learning-rate factor, log-mels shifted by up to 10 frames, and targets, the same for both trainers."""
    rng = np.random.default_rng(seed)
    steps = epochs * (len(speech.y) // BATCH)
    for step in range(steps):
        if step % (len(speech.y) // BATCH) == 0:
            order = rng.permutation(len(speech.y))
        chosen = order[step % (len(speech.y) // BATCH) * BATCH :][:BATCH]
        frames = np.clip(np.arange(speech.x.shape[1]) + rng.integers(-10, 11, (BATCH, 1)), 0, speech.x.shape[1] - 1)
        factor = min(1.0, step / (WARM_UP * steps) + 1e-3) * 0.5 * (1 + np.cos(np.pi * step / steps))
        yield float(factor), speech.x[chosen[:, None], frames], speech.y[chosen]


def train_pytorch(module: nn.Module, speech: Speech, rate: float, epochs: int, seed: int) -> tuple[float, float]:
    """Accuracy on unseen speakers, and seconds a step."""
    optimizer = torch.optim.AdamW(module.parameters(), lr=rate, weight_decay=DECAY)
    module.train()
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.eval()
    torch.manual_seed(seed)
    times = []
    for factor, x, y in batches(speech, epochs, seed):
        began = time.perf_counter()
        optimizer.param_groups[0]["lr"] = rate * factor
        optimizer.zero_grad()
        F.cross_entropy(module(torch.from_numpy(x)), torch.from_numpy(y)).backward()
        optimizer.step()
        times.append(time.perf_counter() - began)
    module.eval()
    with torch.no_grad():
        found = [module(torch.from_numpy(part)).argmax(1).numpy() for part in np.array_split(speech.unseen_x, 20)]
    return float((np.concatenate(found) == speech.unseen_y).mean()), statistics.median(times)


def compiled(module: nn.Module, labels: tuple[str, ...]) -> tuple[Pack, str]:
    """The module's pack, and the name of its classifier."""
    net = find_parts(module, len(labels))
    model = Model(trace(net), tensor_specs(net, len(labels)))
    return assemble("net", labels, {"net": model}, "net", [Recipe("supervised", "adamw")]), net.head


def weights_of(pack: Pack, module: nn.Module, head: str) -> np.ndarray:
    """A module's weights in the pack's order."""
    named = dict(module.named_parameters())
    own = [
        s.name.replace("head.", f"{head}.", 1) if s.name.startswith("head.") else s.name
        for s in pack.table("net").specs
    ]
    return np.concatenate([named[name].detach().numpy().reshape(-1) for name in own])


def train_graph(module: nn.Module, speech: Speech, rate: float, epochs: int, seed: int) -> tuple[float, float]:
    """The same by the step graph in stock onnxruntime."""
    pack, head = compiled(module, speech.labels)
    graph, table = pack.graph("supervised", "net", "adamw"), pack.table("net")
    step, evaluate = (session(pack.files[g.file]) for g in (graph, pack.graph("evaluate", "net")))
    flat, rng, names = weights_of(pack, module, head), np.random.default_rng(seed), list(graph.outputs)
    zeros = np.zeros_like(flat)
    scalars = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "decay": DECAY, "l2": 0.0, "clip": np.inf}
    feeds: dict[str, Any] = {f"model.{key}": np.asarray(value, np.float32) for key, value in scalars.items()}
    feeds |= {"weight": np.ones(BATCH, np.float32), **named_parts("model", table, flat)}
    feeds |= {**named_parts("model.first", table, zeros), **named_parts("model.second", table, zeros)}
    rows, times = np.eye(len(speech.labels), dtype=np.float32), []
    for number, (factor, x, y) in enumerate(batches(speech, epochs, seed), 1):
        began = time.perf_counter()
        feeds |= {name: rng.random(shape, np.float32) for name, shape in graph.noise.items()}
        feeds |= {"model.rate": np.array(rate * factor, np.float32), "model.step": np.array(number, np.float32)}
        feeds |= {"x": x, "target": rows[y]}
        found = dict(zip(names, step.run(names, feeds), strict=True))
        feeds |= {name.removeprefix("new/"): value for name, value in found.items() if name.startswith("new/")}
        times.append(time.perf_counter() - began)
    trained = named_parts("model", table, joined_parts("model", table, feeds))
    logits = [evaluate.run(["logits"], {"x": part, **trained})[0] for part in np.array_split(speech.unseen_x, 20)]
    return float((np.concatenate(logits).argmax(1) == speech.unseen_y).mean()), statistics.median(times)


def session(data: bytes) -> Any:
    """A session on one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def compare(name: str, speech: Speech, epochs: int, seeds: int) -> dict[str, Any]:
    """Both trainers on every seed, in turns."""
    make, rate = NETS[name]
    theirs, ours = [], []
    for seed in range(seeds):
        theirs.append(train_pytorch(initial(make, speech, seed), speech, rate, epochs, seed))
        ours.append(train_graph(initial(make, speech, seed), speech, rate, epochs, seed))
        found = f"PyTorch {theirs[-1][0]:.4f}, graph {ours[-1][0]:.4f}"
        print(f"  {name} seed {seed}: {found}", file=sys.stderr, flush=True)
    return {
        "net": name,
        "weights": sum(p.numel() for p in make(len(speech.labels)).parameters()),
        **{f"{who}.accuracy": [value for value, _ in runs] for who, runs in (("pytorch", theirs), ("graph", ours))},
        **{f"{who}.ms": 1e3 * min(s for _, s in runs) for who, runs in (("pytorch", theirs), ("graph", ours))},
    }


def shown(row: dict[str, Any]) -> str:
    """One line of the table."""
    theirs, ours = row["pytorch.accuracy"], row["graph.accuracy"]
    spread = [max(values) - min(values) for values in (theirs, ours)]
    cells = [row["net"], str(row["weights"])]
    for values, width in zip((theirs, ours), spread, strict=True):
        cells += [" ".join(f"{value:.3f}" for value in values), f"{statistics.mean(values):.3f} ({width:.3f})"]
    times = row["pytorch.ms"], row["graph.ms"]
    cells += [f"{statistics.mean(ours) - statistics.mean(theirs):+.3f}", *(f"{ms:.2f}" for ms in times)]
    return f"| {' | '.join(cells)} | {times[0] / times[1]:.2f} |"


HEADER = (
    "net",
    "weights",
    "PyTorch, by seed",
    "mean (spread)",
    "graph, by seed",
    "mean (spread)",
    "difference",
    "PyTorch ms",
    "graph ms",
    "ratio",
)


def main() -> None:
    """Read the options, train, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder in Speech Commands layout")
    parser.add_argument("--words", default="common:100")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    speech = read_speech(options.data, options.words)
    rows = [compare(name, speech, options.epochs, options.seeds) for name in options.nets.split(",")]
    if options.json:
        print(json.dumps(rows))
        return
    clips = f"{len(speech.y)} clips to train on, {len(speech.unseen_y)} of unseen speakers"
    print(f"{len(speech.labels)} words, {clips}, {options.epochs} epochs")
    print(f"| {' | '.join(HEADER)} |")
    print("|" + "---|" * len(HEADER))
    for row in rows:
        print(shown(row))


if __name__ == "__main__":
    main()
