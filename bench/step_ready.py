"""How long a device takes until it can train: CPU time to begin a job, with what is kept on disk and without.

Each round begins the same job on a runtime that is new: onnxruntime, which makes a session of the graph; the C library,
which plans it; and the C library again, which finds that plan on disk. The plans are the user's own, made again.

    python bench/step_ready.py [--pack gsc12] [--rounds 7] [--json]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.packs.pack import Pack, load_pack
from auricle_learning.native.plan_shelf import PlanShelf
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.runtimes.feeds import graph_of
from auricle_learning.runtimes.interface import Job, Runtime
from auricle_learning.runtimes.step import StepRuntime
from bench.answer import answer
from bench.comparison_table import table

WAYS = ("onnxruntime", "planned", "from disk")


def job_of(pack: Pack, kind: str) -> Job:
    """Plain SGD of the plug-in, in mutual learning beside the first larger model that the pack has a step for."""
    plugin = pack.manifest.plugin
    mutual = (g.model for g in pack.manifest.graphs if g.kind == "mutual" and g.model != plugin)
    own = next(mutual, plugin)
    models = {"model": plugin} if kind == "supervised" else {"local": own, "plugin": plugin}
    scalars = {"alpha": 0.5, "plugin_ce": 1.0, **{f"{role}.rate": 0.05 for role in models}}
    weights = {role: pack.table(model).initial(0) for role, model in models.items()}
    return Job(kind=kind, models=models, optimizer="sgd", weights=weights, scalars=scalars)


def taken(make: Callable[[], Runtime], job: Job) -> float:
    """Milliseconds of CPU time until a new runtime has begun a job; the runtime itself is there before."""
    runtime = make()
    began = time.process_time()
    runtime.begin(job)
    return 1e3 * (time.process_time() - began)


def measure(pack: Pack, kind: str, rounds: int) -> dict[str, Any]:
    """One row: every way in turn, in each round; the first round is to warm up."""
    job = job_of(pack, kind)
    graph = graph_of(pack, job)
    shelf = PlanShelf(pack, graph, graph.batch or 1)
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds + 1):
        shelf.path.unlink(missing_ok=True)
        found["onnxruntime"].append(taken(lambda: StepRuntime(pack), job))
        found["planned"].append(taken(lambda: NativeRuntime(pack), job))
        found["from disk"].append(taken(lambda: NativeRuntime(pack), job))
    size = shelf.path.stat().st_size
    return {"kind": kind, "models": list(job.models.values()), "bytes": size, **{w: v[1:] for w, v in found.items()}}


def report(result: dict[str, Any]) -> str:
    """The table."""
    rows = []
    for row in result["rows"]:
        cells = (f"{statistics.median(row[w]):.1f} ({min(row[w]):.1f}-{max(row[w]):.1f})" for w in WAYS)
        rows.append([f"{' and '.join(row['models'])}, {row['kind']}", *cells, f"{row['bytes']:,}"])
    first = (
        f"CPU time until a job has begun, ms: median (least-most) of {result['rounds']} rounds; load {result['load']}"
    )
    return first + "\n" + table((result["pack"], *WAYS, "bytes of the plan"), rows)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", default="gsc12", help="whose graphs: a name, a folder or a .tar.zst")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.rounds < 1:
        parser.error("--rounds has to be at least 1")

    def run() -> dict[str, Any]:
        pack, load = load_pack(given.pack), round(os.getloadavg()[0], 1)
        rows = [measure(pack, kind, given.rounds) for kind in ("supervised", "mutual")]
        return {"pack": pack.manifest.name, "rounds": given.rounds, "load": load, "rows": rows}

    return answer(run, report, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
