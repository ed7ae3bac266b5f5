"""What a federated round costs beyond its training steps.

Runs real rounds (broker, coordinator, agents, MQTT) on a Speech Commands folder and, in the same process and
interleaved with them, the bare step graph on random input. Bare time of a round = steps x seconds per step / cores;
prints both, their ratio and the spread.

    python bench/round_overhead.py --data DIR [--devices 35] [--epochs 3] [--rounds 6]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from auricle_cloud.settings import RoundDone
from auricle_fleet.run import FleetRun
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_learning import presets
from auricle_learning.methods.passes import graph_optimizer
from auricle_learning.runtimes import Job, Runtime

LOCAL, PLUGIN = "crnn-base", "crnn-lite"


def bare_step(runtime: Runtime, optimizer: str, repeats: int) -> float:
    """Median wall-clock seconds of one bare mutual step while every core runs one, on random input."""
    pack = runtime.pack
    models = {"local": LOCAL, "plugin": PLUGIN}
    rates = {f"{role}.rate": 0.01 for role in models}
    weights = {role: pack.table(model).initial(0) for role, model in models.items()}
    job = Job(
        kind="mutual",
        models=models,
        optimizer=optimizer,
        weights=weights,
        scalars={**rates, "alpha": 0.5, "plugin_ce": 1.0},
    )
    rng, size, task = np.random.default_rng(0), runtime.begin(job).batch, pack.manifest.task
    batch = {
        "x": rng.random((size, task.frames, task.frontend.mels), np.float32),
        "target": np.eye(len(pack.labels), dtype=np.float32)[rng.integers(0, len(pack.labels), size)],
        "weight": np.ones(size, np.float32),
    }

    def loop(_: int) -> list[float]:
        times, training = [], runtime.begin(job)
        for _ in range(repeats):
            began = time.perf_counter()
            training.step(batch)
            times.append(time.perf_counter() - began)
        return times

    cores = os.cpu_count() or 1
    with ThreadPoolExecutor(cores) as pool:
        return statistics.median(t for times in pool.map(loop, range(cores)) for t in times)


class Measured(FleetRun):
    """A fleet run that measures the bare step between rounds."""

    measured: tuple[tuple[float, int, float], ...] = ()
    """Seconds of a round, its steps, seconds of a bare step."""

    async def _watch(self, done: RoundDone) -> None:
        await super()._watch(done)
        steps = sum(row["steps"] for row in done.report["updates"])
        optimizer = graph_optimizer(presets.get_preset(self.settings.preset).plan)
        seconds = await asyncio.to_thread(bare_step, self.judging.runtime, optimizer, 40)
        self.measured = (*self.measured, (done.seconds, steps, seconds))


def main() -> int:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="../shared/data/gsc", help="Speech Commands folder")
    parser.add_argument("--words", default="common:100")
    parser.add_argument("--min-clips", type=int, default=20)
    parser.add_argument("--unseen", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if not Path(given.data).is_dir():
        print(f"bench: {given.data} is not a folder: name recorded speech with --data.", file=sys.stderr)
        return 2
    plan = msgspec.structs.replace(presets.PRACTICAL.plan, epochs=given.epochs)
    presets.PRESETS["practical"] = replace(presets.PRACTICAL, plan=plan)
    settings = FleetSettings(
        data=given.data, words=given.words, min_clips=given.min_clips, unseen=given.unseen, rounds=given.rounds
    )
    with tempfile.TemporaryDirectory() as folder:
        run = Measured(settings, folder)
        run.run()
    cores = os.cpu_count() or 1
    rows = [(seconds, steps, bare, steps * bare / cores) for seconds, steps, bare in run.measured[1:]]
    ratios = sorted(seconds / due for seconds, _, _, due in rows)
    result = {
        "devices": len(run.data.devices),
        "steps_per_round": rows[0][1],
        "cores": cores,
        "bare_step_ms": round(1e3 * statistics.median(r[2] for r in rows), 3),
        "bare_round_s": round(statistics.median(r[3] for r in rows), 3),
        "round_s": round(statistics.median(r[0] for r in rows), 3),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_low": round(ratios[0], 3),
        "ratio_high": round(ratios[-1], 3),
        "rounds": len(rows),
        "load": os.getloadavg()[0],
    }
    if given.json:
        print(json.dumps(result))
    else:
        print(f"{'':34}{'value':>12}")
        for name, value in result.items():
            print(f"{name:34}{value!s:>12}")
        print(f"command: python {' '.join(sys.argv)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
