"""What a GPU computes, beside the CPU of the same machine: the same numbers, seconds and memory, in under five minutes.

Three things may compute on a GPU: a rule over a round's uploads, central training (`auricle export pretrain`), and
judging models on clips through onnxruntime. Devices of the virtual engine train with a board's runtimes, on the CPU.
Both sides begin with the same arrays; what the GPU needs to get them counts as its time. Exit status 1 where numbers
differ by more than is promised.

    python bench/gpu.py [--device cuda] [--seconds 1.5] [--small] [--json]

`--device cpu` has PyTorch on the CPU in the GPU's place: it shows that this runs, and says nothing about a GPU.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.errors import AuricleError, SettingsError
from auricle.packs.pack import Pack, load_pack
from auricle_cloud.evaluation.evaluator import GPU, PROCESSOR, OnnxEvaluator
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_export.pretrain.modules import module_for
from auricle_export.pretrain.settings import PretrainSettings
from auricle_export.pretrain.speech import Part, PretrainSpeech
from auricle_export.pretrain.training import _Training
from auricle_learning.aggregation.cohort import Cohort, layers_of
from auricle_learning.aggregation.compute.accelerator import accelerators, choose
from auricle_learning.aggregation.compute.matrix import Opener
from auricle_learning.aggregation.compute.matrix_torch import TorchMatrix
from auricle_learning.methods import get_rule
from bench.aggregate_worker import cuts, samples, uploads
from bench.answer import answer
from bench.comparison_table import table

SHAPES = ((50, 126_000), (1_000, 28_000))
RULES = ("fedavg", "fedvsa", "lpa", "median", "krum")
PACK, MODELS, BATCHES = "gsc12", ("crnn-lite", "crnn-base", "resnet-lite"), (64, 512)
JUDGED = (8, 1_000)
"""Models, and clips on which they are judged."""
SUMS, STEPS, LOGITS = 1e-6, 1e-2, 1e-2
"""The largest difference, relative to the largest number: of rules (docs/rules.md), of gradients and accuracies, where
a GPU's convolutions may round to TF32."""
MOST = 100
"""Calls of a measurement at most."""


class Row(msgspec.Struct, frozen=True):
    """One thing on both sides."""

    what: str
    shape: str
    cpu: float
    """Seconds of a call, the median."""
    device: float
    difference: float
    """The largest, relative to the largest number of the CPU's."""
    allowed: float
    memory: int | None = None
    """Bytes that PyTorch held on the GPU at most; None where nobody says."""


class Found(msgspec.Struct, frozen=True):
    """What came out."""

    torch: str
    cpu: str
    device: str
    rows: list[Row]
    left_out: list[str]
    """What could not be measured, and why."""

    @property
    def differing(self) -> list[Row]:
        """Rows whose numbers are not those of the CPU."""
        return [row for row in self.rows if not row.difference <= row.allowed]


class Sides:
    """Measures calls on the CPU and on a device."""

    def __init__(self, device: str, seconds: float) -> None:
        self.device, self._seconds = device, seconds
        self._is_gpu = device != "cpu"

    def row(self, what: str, shape: str, cpu: Callable[[], Any], there: Callable[[], Any], allowed: float) -> Row:
        """Time both, and compare what they return."""
        ours = np.asarray(cpu())
        if self._is_gpu:
            torch.cuda.reset_peak_memory_stats()
        theirs = np.asarray(there())
        memory = int(torch.cuda.max_memory_allocated()) if self._is_gpu else None
        difference = float(np.abs(theirs - ours).max() / max(float(np.abs(ours).max()), 1e-30))
        return Row(what, shape, self._time(cpu), self._time(there), difference, allowed, memory)

    def _time(self, call: Callable[[], Any]) -> float:
        """Median of some calls, after those above warmed it up; each returns numbers, so that it is over."""
        taken: list[float] = []
        while not taken or (sum(taken) < self._seconds and len(taken) < MOST):
            began = time.perf_counter()
            call()
            taken.append(time.perf_counter() - began)
        return statistics.median(taken)


# -- a rule over a round's uploads


def rules(sides: Sides, shapes: tuple[tuple[int, int], ...]) -> Iterator[Row]:
    """Each rule over each cohort; a cohort is opened, and copied to the device, in every call."""
    here, there = choose("cpu").opener, _on(sides.device)
    for clients, size in shapes:
        cohort = Cohort.build(
            ids=[f"{k:06}" for k in range(clients)],
            weights=uploads(clients, size, 1),
            samples=samples(clients, 1),
            losses=np.linspace(0.5, 2.5, clients),
            start=np.zeros(size, np.float32),
            layers=layers_of((f"t{a}", b - a, None) for a, b in itertools.pairwise(cuts(size))),
            opener=here,
        )
        for name in RULES:
            what, shape = f"rule {name}", f"{clients} x {size:,}"
            yield sides.row(what, shape, _aggregating(name, cohort, here), _aggregating(name, cohort, there), SUMS)


def _aggregating(name: str, cohort: Cohort, opener: Opener) -> Callable[[], Any]:
    """The model (P,) of a rule, over the cohort, opened again for it."""
    rule = get_rule(name)
    return lambda: rule(replace(cohort, opener=opener)).weights


def _on(device: str) -> Opener:
    """As a coordinator opens uploads on a device, but that it does not go on without one that gives up."""
    memory = torch.cuda.mem_get_info()[0] // 2 if device != "cpu" else 1 << 30
    return lambda weights: TorchMatrix(weights, device=device, memory=memory)


# -- central training


def training(sides: Sides, pack: Pack, models: tuple[str, ...], batches: tuple[int, ...]) -> Iterator[Row]:
    """The gradient of a first step from the same weights without dropout, and how long a step takes."""
    for model in models:
        for batch in batches:
            cpu, there = (_step(model, pack, batch, device) for device in ("cpu", sides.device))
            yield sides.row(f"step {model}", f"batch {batch}", cpu, there, STEPS)


def _step(model: str, pack: Pack, batch: int, device: str) -> Callable[[], Any]:
    """One step of a training; its gradient (P,), the same in every call, as the rate is next to nothing."""
    module = module_for(model, pack, {})
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    settings = PretrainSettings(batch=batch, device=device, rate=1e-12)
    trained = _Training(model, module, pack, speech(pack), settings)
    shape = (batch, *pack.manifest.task.input_shape)
    draw = np.random.default_rng(5)
    x = torch.from_numpy(draw.standard_normal(shape).astype(np.float32))
    y = torch.from_numpy(draw.integers(0, len(pack.labels), batch))

    def step() -> Any:
        trained.step(x, y)
        return torch.cat([tensor.grad.ravel() for tensor in trained.tensors.values()]).cpu().numpy()

    return step


def speech(pack: Pack) -> PretrainSpeech:
    """Next to nothing: batches are drawn apart from it."""
    labels = len(pack.labels)
    part = Part(np.ones((labels, *pack.manifest.task.input_shape), np.float32), np.arange(labels), 1)
    return PretrainSpeech("drawn", pack.labels, part, part, part, None, None, (), "0" * 64)


# -- judging models


def judging(sides: Sides, pack: Pack, models: int, clips: int) -> Row:
    """Losses of models on clips; AuricleError where onnxruntime has no GPU."""
    draw = np.random.default_rng(6)
    features = draw.standard_normal((clips, *pack.manifest.task.input_shape)).astype(np.float32)
    there = ValidationSet(features, draw.integers(0, len(pack.labels), clips))
    table_of = pack.table(pack.manifest.plugin)
    rows = np.stack([table_of.initial(seed) for seed in range(models)])
    ours = OnnxEvaluator(pack, there)
    theirs = OnnxEvaluator(pack, there, provider=PROCESSOR if sides.device == "cpu" else GPU)
    call = (lambda: ours.scores(rows).loss, lambda: theirs.scores(rows).loss)
    return sides.row("judging, onnxruntime", f"{models} x {clips:,} clips", *call, LOGITS)


def measure(device: str, seconds: float, *, small: bool = False) -> Found:
    """Everything.

    Raises
    ------
    SettingsError
        There is no such GPU.
    """
    if device != "cpu" and not torch.cuda.is_available():
        raise SettingsError(
            "PyTorch finds no CUDA GPU here, so nothing was measured: --device cpu only tries whether this runs."
        )
    sides, pack, left_out = Sides(device, seconds), load_pack(PACK), list[str]()
    shapes, models, batches = (((5, 1_000),), MODELS[:1], (4,)) if small else (SHAPES, MODELS, BATCHES)
    rows = [*rules(sides, shapes), *training(sides, pack, models, batches)]
    try:
        rows.append(judging(sides, pack, *((2, 8) if small else JUDGED)))
    except AuricleError as error:
        left_out.append(f"judging by onnxruntime: {error}")
    listed = {each.device: each.name for each in accelerators("cpu")}
    name = listed["cpu"] if device == "cpu" else torch.cuda.get_device_name()
    cores = f"{listed['cpu']}, PyTorch with {torch.get_num_threads()} threads"
    return Found(str(torch.__version__), cores, name, rows, left_out)


def report(found: Found) -> str:
    """The table."""
    head = ["", "shape", "CPU ms", "device ms", "CPU / device", "difference", "allowed", "GPU memory"]
    lines = [
        [
            row.what,
            row.shape,
            f"{1e3 * row.cpu:.2f}",
            f"{1e3 * row.device:.2f}",
            f"{row.cpu / row.device:.2f}",
            f"{row.difference:.1e}{'' if row.difference <= row.allowed else ' !'}",
            f"{row.allowed:.0e}",
            "-" if row.memory is None else f"{row.memory / 2**20:.0f} MiB",
        ]
        for row in found.rows
    ]
    about = f"CPU: {found.cpu}\ndevice: {found.device}, torch {found.torch}"
    end = [f"left out: {why}" for why in found.left_out]
    end += [f"{row.what}, {row.shape}: not the CPU's numbers" for row in found.differing]
    return "\n".join([about, "", table(head, lines), *end])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seconds", type=float, default=1.5, help="Of each measurement.")
    parser.add_argument("--small", action="store_true", help="Next to nothing of each, to see that it runs.")
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args(arguments)
    differing: list[Row] = []

    def measured() -> Found:
        found = measure(told.device, told.seconds, small=told.small)
        differing.extend(found.differing)
        return found

    return answer(measured, report, as_json=told.json) or int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
