"""What one measured process of `bench/aggregate.py` does: it holds the uploads in the form one library wants them, and
is asked over a pipe to aggregate them by one rule or another.

Needs the library and NumPy. The first line in names the library, the shape and the seed; every further line is an
object with `rule` and `memory`, and the line that answers it has `seconds`, `cpu` (seconds of all threads), a `sum` of
the result and, if asked for, `extra`: the bytes that became resident at most. Before each, more memory is written than
the processor keeps near, so that all uploads come from memory.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import json
import os
import platform
import signal
import sys
import time
import types
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import numpy as np

Facts = dict[str, Any]
Rules = dict[str, Callable[[], Any]]
"""By name: aggregates, and returns an array or a list of arrays."""
FORGET = Path("/proc/self/clear_refs")
COLD = 1 << 26
"""Bytes that are written before each measurement."""
REST_SECONDS = 0.1
"""Threads of BLAS that have nothing to do any more take their cores from the next measurement for some 25 ms."""


def uploads(clients: int, size: int, seed: int) -> Any:
    """(K, P) float32, the same in every process."""
    return np.random.default_rng(seed).standard_normal((clients, size), np.float32)


def cuts(size: int) -> list[int]:
    """Where the layers begin and end: ten of unequal size, as in a small CRNN."""
    return [0, *(int(size * part) for part in (0.001, 0.01, 0.03, 0.04, 0.1, 0.25, 0.26, 0.6, 0.99)), size]


def samples(clients: int, seed: int) -> Any:
    """(K,) sample counts."""
    return np.random.default_rng(seed + 1).integers(20, 200, clients)


def ours(told: Facts) -> Rules:
    """Rules of this project."""
    from auricle_learning.aggregation.cohort import Cohort, layers_of
    from auricle_learning.aggregation.compute.accelerator import choose
    from auricle_learning.aggregation.compute.matrix import NumpyMatrix
    from auricle_learning.methods import get_rule

    clients, size, lying = told["clients"], told["size"], told["attackers"]
    places = cuts(size)
    cohort = Cohort.build(
        ids=[f"{k:06}" for k in range(clients)],
        weights=uploads(clients, size, told["seed"]),
        samples=samples(clients, told["seed"]),
        losses=np.linspace(0.5, 2.5, clients),
        start=np.zeros(size, np.float32),
        layers=layers_of((f"t{a}", b - a, None) for a, b in itertools.pairwise(places)),
        opener=NumpyMatrix if told.get("numpy") else choose("cpu").opener,
    )
    options: dict[str, Facts] = {
        "trimmed-mean": {"cut": lying},
        "krum": {"attackers": lying},
        "multi-krum": {"attackers": lying},
        "geometric-median": {"nu": 0.1, "ftol": 0.0, "iterations": 3, "weighting": "uniform"},
        "norm-clip": {"bound": told["bound"]},
    }
    options["mean"] = {"weighting": "uniform"}
    rules = {name: get_rule("fedavg" if name == "mean" else name, **options.get(name, {})) for name in told["rules"]}
    ones = np.ones(size, np.float32)
    return {
        "read": lambda: cohort.weights @ ones,
        **{name: lambda rule=rule: rule(cohort).weights for name, rule in rules.items()},
    }


def byzfl(told: Facts) -> Rules:
    """Rules of byzfl on an array, or with `torch` on a tensor."""
    _only_the_aggregators()
    import torch
    from byzfl.aggregators import aggregators as made
    from byzfl.aggregators.preaggregators import Clipping

    torch.set_num_threads(told["cores"])
    vectors = uploads(told["clients"], told["size"], told["seed"])
    given = torch.from_numpy(vectors) if told["torch"] else vectors
    lying, mean, clip = told["attackers"], made.Average(), Clipping(told["bound"])
    rules = {
        "mean": mean,
        "lpa": mean,
        "fedvsa": mean,
        "median": made.Median(),
        "trimmed-mean": made.TrMean(lying),
        "krum": made.Krum(lying),
        "multi-krum": made.MultiKrum(lying),
        "geometric-median": made.GeometricMedian(0.1, 3),
        "norm-clip": lambda vectors: mean(clip(vectors)),
    }
    return {name: lambda rule=rule: rule(given) for name, rule in rules.items()}


def flwr(told: Facts) -> Rules:
    """Functions of flwr on lists of layers."""
    from flwr.server.strategy import aggregate as made

    clients, lying, places = told["clients"], told["attackers"], cuts(told["size"])
    counts = samples(clients, told["seed"]).tolist()
    rows = uploads(clients, told["size"], told["seed"])
    given = [
        ([row[a:b].copy() for a, b in itertools.pairwise(places)], count)
        for row, count in zip(rows, counts, strict=True)
    ]
    share = (lying + 0.5) / clients  # it takes the floor
    return {
        **dict.fromkeys(("fedavg", "mean", "lpa", "fedvsa"), lambda: made.aggregate(given)),
        "median": lambda: made.aggregate_median(given),
        "trimmed-mean": lambda: made.aggregate_trimmed_avg(given, share),
        "krum": lambda: made.aggregate_krum(given, lying, 0),
        "multi-krum": lambda: made.aggregate_krum(given, lying, clients - lying - 2),
    }


def _only_the_aggregators() -> None:
    """Let byzfl's aggregators be imported without what its package draws in for training and plotting."""
    found = importlib.util.find_spec("byzfl")
    package = types.ModuleType("byzfl")
    package.__path__ = list(found.submodule_search_locations or []) if found else []
    sys.modules["byzfl"] = package


def resident(what: str) -> int:
    """Bytes of VmRSS (now) or VmHWM (most)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(what))


_COLD = np.zeros(COLD // 8)


def measure(rule: Callable[[], Any], *, memory: bool) -> Facts:
    """Aggregate once; with `memory`, from a heap that keeps nothing, which takes time."""
    facts: Facts = {}
    if memory:
        ctypes.CDLL(None).malloc_trim(0)
        FORGET.write_text("5")  # the most that was resident
        before = resident("VmRSS")
    _COLD.fill(1.0)
    began, busy = time.perf_counter(), time.process_time()
    made = rule()
    facts |= {"seconds": time.perf_counter() - began, "cpu": time.process_time() - busy}
    if memory:
        facts["extra"] = max(0, resident("VmHWM") - before)
    arrays = made if isinstance(made, list) else [made]
    return {**facts, "sum": float(sum(float(part.sum()) for part in arrays))}


def main() -> None:
    """Prepare, then answer until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asked ends this one
    out: TextIO = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    told = json.loads(sys.stdin.readline())
    library = told["library"]
    rules = {"ours": ours, "byzfl": byzfl, "flwr": flwr}[library](told)
    packages = {"ours": ["numpy"], "byzfl": ["byzfl", "torch", "numpy", "scipy"], "flwr": ["flwr", "numpy"]}[library]
    versions = {"python": platform.python_version(), **{name: version(name) for name in packages}}
    print(json.dumps({"versions": versions, "rules": list(rules)}), file=out, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(measure(rules[asked["rule"]], memory=asked["memory"])), file=out, flush=True)
        time.sleep(REST_SECONDS)


if __name__ == "__main__":
    main()
