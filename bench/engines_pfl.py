"""pfl-research: `FederatedAveraging` on `SimulatedBackend`, clients trained by `PyTorchModel`.

Run by `bench/engines.py` in an environment that holds pfl and PyTorch. With several cores it has a process on each, as
its `PFL_WORKER_ADDRESSES` has it. It evaluates no client, but for a side that asks for the loss of every one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import MinimizeReuseUserSampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel

from bench.engines_torch import BATCH, put, taken, twin
from bench.engines_worker import Diary, Facts, clips, serve

RANK = "PFL_WORKER_RANK"


class Closes(TrainingProcessCallback[Any]):
    """Tells of every round that has ended."""

    def __init__(self, spec: Facts, diary: Diary) -> None:
        self._spec, self._diary = spec, diary

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Say it, in the first process."""
        if int(os.environ.get(RANK, "0")) == 0:
            self._diary.close(central_iteration + 1, taken(model.pytorch_model, self._spec))
        return False, Metrics()


def with_others(spec: Facts) -> list[subprocess.Popen[bytes]]:
    """Start a process for each further core, which has a part of every cohort."""
    if RANK in os.environ or len(spec["cores"]) == 1:
        return []
    os.environ["PFL_WORKER_ADDRESSES"] = ",".join(f"127.0.0.1:{port}" for port in spec["ports"])
    ranks = range(1, len(spec["cores"]))
    command = [sys.executable, "-m", "bench.engines_pfl", sys.argv[1]]
    started = [subprocess.Popen(command, env={**os.environ, RANK: str(rank)}) for rank in ranks]
    os.environ[RANK] = "0"
    return started


def play(spec: Facts, diary: Diary) -> None:
    """Make the rounds."""
    others = with_others(spec)
    module = twin(spec)
    put(module, np.load(spec["weights"]), spec)
    central = torch.optim.SGD(module.parameters(), lr=1.0)
    model = PyTorchModel(module, torch.optim.SGD, central)
    features, targets = clips(spec)
    own = [[torch.from_numpy(x.copy()), torch.from_numpy(y)] for x, y in zip(features, targets, strict=True)]
    data = FederatedDataset(lambda user: Dataset(own[user], user_id=user), MinimizeReuseUserSampler(range(len(own))))
    backend = SimulatedBackend(data, data, postprocessors=[WeightByDatapoints()])
    told = NNAlgorithmParams(
        central_num_iterations=spec["rounds"],
        evaluation_frequency=1 if spec["evaluates"] else spec["rounds"] + 1,
        train_cohort_size=len(own),
        val_cohort_size=None,
    )
    training = NNTrainHyperParams(
        local_num_epochs=1,
        local_learning_rate=spec["rate"],
        local_batch_size=BATCH,
        local_max_grad_norm=spec["clip"],
    )
    diary.begin(**{"with": f"pfl {version('pfl')}, torch {torch.__version__}"})
    FederatedAveraging().run(
        told, backend, model, training, NNEvalHyperParams(local_batch_size=BATCH), [Closes(spec, diary)]
    )
    for other in others:
        other.wait()


if __name__ == "__main__":
    serve(play)
