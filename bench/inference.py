"""One sample recognised by onnxruntime, our C library and LiteRT, on one thread: time, size, difference.

    python bench/inference.py [--pack gsc12] [--rounds 15] [--calls 100] [--json]

`step` and `native` run the pack's evaluation graphs; LiteRT, float32 and int8, runs the `.tflite` that `auricle export
tflite` makes of the same graphs. Rounds are interleaved, the process is pinned to one core; prints the median of wall
and CPU time, the ratio of CPU time to that of `step` and its range over the rounds, the size of each file (graph and
weights) and the largest difference of a posterior. Without a C compiler, and a library from a wheel, `native` is left
out, and it says so.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle.packs.pack import Pack, load_pack
from auricle.packs.start import start_weights
from auricle_edge.runtimes.tflite import TfliteRuntime
from auricle_export.tflite import with_tflite
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.runtimes import Runtime, StepRuntime, recogniser

Run = Callable[[], NDArray[np.float32]]


class Row(msgspec.Struct):
    """What one runtime took for a model."""

    model: str
    runtime: str
    microseconds: float
    """Wall time of a call, the median of the rounds."""
    cpu_microseconds: float
    ratio: float
    """CPU time over that of `step`, the median of the rounds; the least and the most below."""
    ratio_least: float
    ratio_most: float
    bytes: int
    posterior_difference: float


def runs_of(pack: Pack, model: str) -> dict[str, Run]:
    """What recognises one sample, by name of the runtime."""
    table, task = pack.table(model), pack.manifest.task
    weights = start_weights(pack, model) if model in pack.manifest.start else table.initial(0)
    features = np.random.default_rng(0).standard_normal((1, task.frames, task.frontend.mels)).astype(np.float32)
    runtimes: dict[str, Runtime] = {"step": StepRuntime(pack)}
    try:
        runtimes["native"] = NativeRuntime(pack)
    except AuricleError as reason:
        print(f"native is left out: {reason}", file=sys.stderr)
    runtimes["LiteRT"] = TfliteRuntime(pack, precision="float32")
    runtimes["LiteRT int8"] = TfliteRuntime(pack, precision="int8")

    def run(name: str) -> Run:
        recognise = recogniser(runtimes[name], model, weights)  # as the detector does
        return lambda: recognise(features)

    return {name: run(name) for name in runtimes}


def measure(pack: Pack, model: str, rounds: int, calls: int) -> list[Row]:
    """A row for each runtime."""
    runs = runs_of(pack, model)
    expected = runs["step"]()
    differences = {name: float(np.abs(run() - expected).max()) for name, run in runs.items()}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(calls):
                run()
            spent = (time.perf_counter() - wall, time.process_time() - cpu)
            times[name].append((spent[0] / calls * 1e6, spent[1] / calls * 1e6))
    graph = len(pack.files[pack.graph("evaluate", model).file]) + 4 * pack.table(model).size
    sizes = {"step": graph, "native": graph}
    for entry in pack.manifest.tflite:
        if entry.model == model:
            sizes["LiteRT" if entry.precision == "float32" else "LiteRT int8"] = len(pack.files[entry.file])
    rows = []
    for name, taken in times.items():
        ratios = [cpu / first for (_, cpu), (_, first) in zip(taken, times["step"], strict=True)]
        wall, cpu = (statistics.median(each) for each in zip(*taken, strict=True))
        spread = (statistics.median(ratios), min(ratios), max(ratios))
        rows.append(Row(model, name, wall, cpu, *spread, sizes[name], differences[name]))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", default="gsc12")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pack = load_pack(given.pack)
    pack = with_tflite(pack, list(pack.tables))
    rows = [row for model in sorted(pack.tables) for row in measure(pack, model, given.rounds, given.calls)]
    if given.json:
        print(json.dumps({"load": os.getloadavg(), "rows": msgspec.to_builtins(rows)}))
        return
    print(f"one sample, one thread, {given.rounds} rounds of {given.calls} calls; load {os.getloadavg()}")
    print(
        "| model | runtime | us | CPU, us | x step (range) | kB | posteriors differ by |\n|---|---|---|---|---|---|---|"
    )
    for row in rows:
        spread = f"{row.ratio:.2f} ({row.ratio_least:.2f}-{row.ratio_most:.2f})"
        print(
            f"| {row.model} | {row.runtime} | {row.microseconds:.0f} | {row.cpu_microseconds:.0f} | {spread} "
            f"| {row.bytes / 1000:.0f} | {row.posterior_difference:.1e} |"
        )


if __name__ == "__main__":
    main()
