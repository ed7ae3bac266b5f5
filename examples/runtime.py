"""A runtime of your own: it counts what a device asks of it, and lets stock onnxruntime do the work.

python examples/runtime.py
"""

import numpy as np
from numpy.typing import NDArray

from auricle.packs.pack import Pack, load_pack
from auricle.wire.tensors import Flat
from auricle_edge.runtimes import RUNTIMES, RuntimeKind
from auricle_learning.runtimes import Job, StepRuntime, Training


class CountingRuntime:
    """Runs a pack's graphs, and counts clips recognised and jobs of training."""

    name = "counting"

    def __init__(self, pack: Pack, threads: int) -> None:
        self.pack, self._step = pack, StepRuntime(pack, threads)
        self.clips = self.jobs = 0

    def logits(self, model: str, weights: Flat, features: NDArray[np.float32]) -> NDArray[np.float32]:
        self.clips += len(features)
        return self._step.logits(model, weights, features)

    def embeddings(self, model: str, weights: Flat, features: NDArray[np.float32]) -> NDArray[np.float32]:
        return self._step.embeddings(model, weights, features)

    def has(self, kind: str, model: str, optimizer: str) -> bool:
        return self._step.has(kind, model, optimizer)

    def begin(self, job: Job) -> Training:
        self.jobs += 1
        return self._step.begin(job)

    def end_training(self) -> None:
        self._step.end_training()


def missing(pack: Pack, training: bool) -> str | None:
    """Say in a sentence what keeps it from running a pack here; None when nothing does."""
    return RUNTIMES["step"].missing(pack, training)


kind = RuntimeKind("counting", missing, CountingRuntime)


def main() -> None:
    pack = load_pack("gsc12")
    name, task = pack.manifest.plugin, pack.manifest.task
    runtime = CountingRuntime(pack, threads=1)
    silence = np.zeros((3, task.frames, task.frontend.mels), np.float32)
    answer = runtime.logits(name, pack.plugin_table.initial(0), silence)
    print(f"{runtime.clips} clips, {answer.shape[1]} labels, {runtime.jobs} jobs")


if __name__ == "__main__":
    main()
