"""The programs of a pack's graphs with all that they compute on, in one file, for machines that have only NumPy.

A program is the same for every processor, so that what another one makes of it can be held to this one's numbers.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bench.parity_cases import Case, batches, job, roles

from auricle.packs.pack import PARTS, Pack, load_pack
from auricle_learning.native.compiling import WHEELS, commands
from auricle_learning.native.planner import Plan, Slot, plan_graph
from auricle_learning.runtimes.feeds import first_feeds, graph_of
from auricle_learning.runtimes.interface import named_parts

Arrays = dict[str, Any]
CASES = {
    "gsc12": (
        Case("crnn-lite", "supervised", "sgd"),
        Case("crnn-lite", "distill", "sgd"),
        Case("crnn-lite", "mutual, T = 2", "adamw"),
    ),
    "home": (Case("resnet-lite", "supervised", "adam, l2"),),
}
"""Few and small, since emulated vectors take a hundred times as long; all models' evaluation graphs besides."""
EPSILON = 1e-3
"""Of AdamW: with 1e-8 the first steps are the sign of the gradient, which near 0 is rounding (docs/runtimes.md)."""
SAMPLES = 8
"""Of an evaluation."""
DISTINCT = 5
"""Batches of a training."""
TARGETS = {"aarch64": (WHEELS["aarch64"],), "armv7l": ("arm-linux-gnueabihf.2.17", "-mcpu=cortex_a7")}
"""For zig; the Cortex-A7 is that of the first Raspberry Pi with NEON and multiply-adds of vectors, the Pi 2."""


def write_programs(path: Path, steps: int) -> list[str]:
    """Write the programs of `CASES` for so many steps each; their names."""
    records, arrays = [], {}
    for name, cases in CASES.items():
        pack = load_pack(name)
        for case in cases:
            record, own = _training(pack, case, steps)
            records.append({**record, "name": f"{name}: {case.name}"})
            arrays.update({f"{len(records) - 1}/{key}": value for key, value in own.items()})
        for model in pack.tables:
            record, own = _evaluation(pack, model)
            records.append({**record, "name": f"{name}: {model}; evaluation"})
            arrays.update({f"{len(records) - 1}/{key}": value for key, value in own.items()})
    arrays["records"] = np.frombuffer(json.dumps(records).encode(), np.uint8)
    np.savez_compressed(path, **arrays)
    return [record["name"] for record in records]


def _training(pack: Pack, case: Case, steps: int) -> tuple[Arrays, Arrays]:
    """So many steps of a job; weights by role and losses are read."""
    given = job(case, pack)
    if given.optimizer == "adamw":
        given = replace(given, scalars={**given.scalars, **{f"{role}.epsilon": EPSILON for role in given.models}})
    graph = graph_of(pack, given)
    assert graph.batch is not None
    plan = plan_graph(pack, graph, graph.batch)
    made = batches(pack, given.kind)[:DISTINCT]
    feeds = first_feeds(graph, {role: pack.table(model) for role, model in given.models.items()}, given)
    counters = [name for name in graph.inputs if name.endswith(".step")]
    reads = {f"weights.{role}": [plan.inputs[f"{role}/{part}"] for part in PARTS] for role in roles(case, pack)}
    reads["losses"] = [slot for name, slot in plan.outputs.items() if not name.startswith("new/")]
    return _record(plan, feeds, made, reads, steps, counters)


def _evaluation(pack: Pack, model: str) -> tuple[Arrays, Arrays]:
    """Logits of one batch, at twice the first weights."""
    plan = plan_graph(pack, pack.graph("evaluate", model), SAMPLES)
    table, task = pack.table(model), pack.manifest.task
    feeds = named_parts("model", table, 2 * table.initial(4))
    rng = np.random.Generator(np.random.PCG64(9))
    x = 2 * rng.random((SAMPLES, task.frames, task.frontend.mels), dtype=np.float32) - 1
    return _record(plan, feeds, [{"x": x}], {"logits": [plan.outputs["logits"]]}, 1)


def _record(
    plan: Plan,
    feeds: Mapping[str, Any],
    made: Sequence[Mapping[str, Any]],
    reads: Mapping[str, Sequence[Slot]],
    steps: int,
    counters: Sequence[str] = (),
) -> tuple[Arrays, Arrays]:
    """What `run_programs.py` takes: places as [offset, count], and the arrays that they are of.

    Batches begin again after the last; a counter holds the number of the step.
    """
    start = np.zeros(plan.program.arena, np.float32)
    for offset, numbers in plan.constants:
        start[offset : offset + numbers.size] = numbers.ravel()
    for name, value in feeds.items():
        offset, shape = plan.inputs[name]
        start[offset : offset + math.prod(shape)] = np.broadcast_to(value, shape).ravel()
    arrays: Arrays = {"once": plan.program.once, "words": plan.program.words, "start": start}
    for number, batch in enumerate(made):
        arrays.update({f"{number}.{name}": np.ravel(np.float32(value)) for name, value in batch.items()})
    return {
        "steps": steps,
        "batches": len(made),
        "changes": {name: _place(plan.inputs[name]) for name in made[0]},
        "counters": [_place(plan.inputs[name]) for name in counters],
        "reads": {name: [_place(slot) for slot in slots] for name, slots in reads.items()},
    }, arrays


def _place(slot: Slot) -> list[int]:
    offset, shape = slot
    return [int(offset), math.prod(shape)]


def cross_compiled(machine: str, folder: Path) -> Path:
    """The library for another machine, by zig."""
    zig = (sys.executable, "-m", "ziglang", "cc", "-target", *TARGETS[machine])
    kernels, link = commands(zig, machine, folder, ("-g0", "-s", "-Wno-unused-command-line-argument"))
    for command in (*kernels, link):
        subprocess.run(command, check=True, cwd=folder, capture_output=True)
    return folder / "step.so"


def differences(one: Path, other: Path) -> dict[str, dict[str, float]]:
    """By program and what was read of it: the largest difference of two runs, and of the weights as a share of them."""
    found: dict[str, dict[str, float]] = {}
    with np.load(one, allow_pickle=False) as a, np.load(other, allow_pickle=False) as b:
        assert sorted(a.files) == sorted(b.files)
        for key in a.files:
            name, _, what = key.rpartition("/")
            found.setdefault(name, {})[what] = float(np.abs(a[key] - b[key]).max())
    return found
