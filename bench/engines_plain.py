"""A plain loop over the pack's step graph and the average that follows: what an engine cannot be much faster than.

Run by `bench/engines.py` in this project's environment. It has no messages, no checks, no rule and no evaluation.
"""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from auricle.packs.pack import load_pack
from auricle_learning.runtimes import Job, StepRuntime
from bench.engines_worker import Diary, Facts, serve


class Client:
    """What trains a client: one step of the plug-in's graph.

    Parameters
    ----------
    spec
        What the process was told.
    """

    def __init__(self, spec: Facts) -> None:
        self.runtime, self._spec = StepRuntime(load_pack(spec["pack"])), spec
        self._hot = np.eye(spec["labels"], dtype=np.float32)

    def trained(self, model: NDArray[np.float32], x: NDArray[np.float32], y: NDArray[np.int64]) -> NDArray[np.float32]:
        """Weights (P,) after a step from those of `model` over log-mels (16, T, mels) and labels (16,)."""
        job = Job(
            kind="supervised",
            models={"model": self._spec["model"]},
            optimizer="sgd",
            weights={"model": model},
            scalars={"model.rate": self._spec["rate"], "model.clip": self._spec["clip"]},
        )
        training = self.runtime.begin(job)
        training.step({"x": x, "target": self._hot[y], "weight": np.ones(len(y), np.float32)})
        return training.weights("model")


def average(models: list[NDArray[np.float32]], samples: list[int]) -> NDArray[np.float32]:
    """FedAvg (McMahan et al. 2017, algorithm 1): the models (K, P) weighted by their samples (K,)."""
    total = np.zeros(len(models[0]), np.float64)
    for model, count in zip(models, samples, strict=True):
        total += count * model.astype(np.float64)
    return (total / sum(samples)).astype(np.float32)


def play(spec: Facts, diary: Diary) -> None:
    """Make the rounds."""
    client, features, targets = Client(spec), np.load(spec["features"], mmap_mode="r"), np.load(spec["targets"])
    model = np.load(spec["weights"])
    diary.begin(**{"with": f"onnxruntime {version('onnxruntime')}"})
    for number in range(1, spec["rounds"] + 1):
        own = [client.trained(model, x, y) for x, y in zip(features, targets, strict=True)]
        model = average(own, [len(y) for y in targets])
        diary.close(number, model)


if __name__ == "__main__":
    serve(play)
