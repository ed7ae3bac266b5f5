"""Train a few mutual steps of a shipped pack with the runtime that `auto` or its name gives, and print it, as JSON.

`python native_steps.py RUNTIME STEPS ARRAYS`: the same seeded batches on every machine; ARRAYS gets losses and weights.
"""

from __future__ import annotations

import json
import platform
import sys

import numpy as np

from auricle.packs.pack import load_pack
from auricle_edge.runtimes import choose_runtime
from auricle_learning.runtimes import Job


def main(name: str, steps: int, arrays: str) -> dict[str, str]:
    """Run the steps."""
    pack = load_pack("home")
    choice = choose_runtime(name, pack)
    models = {"local": "resnet-base", "plugin": "resnet-lite"}
    weights = {role: pack.table(model).initial(seed) for seed, (role, model) in enumerate(models.items())}
    scalars = {f"{role}.{key}": value for role in models for key, value in (("rate", 0.05), ("momentum", 0.5))}
    scalars |= {"alpha": 0.5, "plugin_ce": 1.0, "temperature": 2.0}
    job = Job(kind="mutual", models=models, optimizer="sgd", weights=weights, scalars=scalars)
    training = choice.runtime.begin(job)
    rng, task = np.random.Generator(np.random.PCG64(3)), pack.manifest.task
    losses = []
    for _ in range(steps):
        batch = {
            "x": 2 * rng.random((16, task.frames, task.frontend.mels), dtype=np.float32) - 1,
            "target": np.eye(len(pack.labels), dtype=np.float32)[rng.integers(0, len(pack.labels), 16)],
            "weight": (np.arange(16) < 14).astype(np.float32),
        }
        losses.append(sorted(training.step(batch).items()))
    made = {f"weights.{role}": training.weights(role) for role in models}
    before = {f"start.{role}": flat for role, flat in weights.items()}
    np.savez(arrays, losses=np.array([[value for _, value in row] for row in losses]), **made, **before)
    return {"machine": platform.machine(), "runtime": choice.runtime.name, "reason": choice.reason}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
