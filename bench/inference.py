"""One sample recognised by stock onnxruntime and by LiteRT, float32 and int8, on one thread: time, size, difference.

    python bench/inference.py [--pack gsc12] [--rounds 15] [--calls 100] [--json]

Ours is the `step` runtime on the pack's evaluation graphs; the others run the `.tflite` that `auricle export tflite`
makes of the same graphs. Rounds are interleaved, the process is pinned to one core; prints the median, the ratio to
ours and its range over the rounds, the size of each file (graph and weights) and the largest difference of a logit.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from auricle.packs.pack import Pack, load_pack
from auricle.packs.start import start_weights
from auricle_edge.runtimes import StepRuntime
from auricle_edge.runtimes.tflite import TfliteRuntime
from auricle_export.tflite import with_tflite

Run = Callable[[], np.ndarray[Any, Any]]


def runs_of(pack: Pack, model: str) -> dict[str, Run]:
    """What recognises one sample, by name of the runtime."""
    table, task = pack.table(model), pack.manifest.task
    weights = start_weights(pack, model) if model in pack.manifest.start else table.initial(0)
    features = np.random.default_rng(0).standard_normal((1, task.frames, task.frontend.mels)).astype(np.float32)
    runtimes = {
        "onnxruntime": StepRuntime(pack),
        "LiteRT": TfliteRuntime(pack, precision="float32"),
        "LiteRT int8": TfliteRuntime(pack, precision="int8"),
    }

    def run(name: str) -> Run:
        runtime = runtimes[name]
        return lambda: runtime.logits(model, weights, features)

    return {name: run(name) for name in runtimes}


def measure(pack: Pack, model: str, rounds: int, calls: int) -> list[dict[str, Any]]:
    """A row for each runtime."""
    runs = runs_of(pack, model)
    expected = runs["onnxruntime"]()
    differences = {name: float(np.abs(run() - expected).max()) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            for _ in range(calls):
                run()
            times[name].append((time.perf_counter() - began) / calls * 1e6)
    sizes = {"onnxruntime": len(pack.files[pack.graph("evaluate", model).file]) + 4 * pack.table(model).size}
    for entry in pack.manifest.tflite:
        if entry.model == model:
            sizes["LiteRT" if entry.precision == "float32" else "LiteRT int8"] = len(pack.files[entry.file])
    rows = []
    for name, taken in times.items():
        ratios = [t / ours for t, ours in zip(taken, times["onnxruntime"], strict=True)]
        rows.append(
            {
                "model": model,
                "runtime": name,
                "microseconds": statistics.median(taken),
                "ratio": statistics.median(ratios),
                "ratio_least": min(ratios),
                "ratio_most": max(ratios),
                "bytes": sizes[name],
                "logit_difference": differences[name],
            }
        )
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
        print(json.dumps({"load": os.getloadavg(), "rows": rows}))
        return
    print(f"one sample, one thread, {given.rounds} rounds of {given.calls} calls; load {os.getloadavg()}")
    print("| model | runtime | us | x onnxruntime (range) | kB | logits differ by |\n|---|---|---|---|---|---|")
    for row in rows:
        spread = f"{row['ratio']:.2f} ({row['ratio_least']:.2f}-{row['ratio_most']:.2f})"
        print(
            f"| {row['model']} | {row['runtime']} | {row['microseconds']:.0f} | {spread} | {row['bytes'] / 1000:.0f} "
            f"| {row['logit_difference']:.1e} |"
        )


if __name__ == "__main__":
    main()
