"""Memory of the C library: one job's is the next one's, and nothing of the one is in the other."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from tests.learning.toy import PACK

from auricle_edge.board.memory import hold_little
from auricle_learning.native.library import compiler
from auricle_learning.native.runtime import NativeRuntime
from auricle_learning.runtimes import Job

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")
TASK = PACK.manifest.task


def _job(optimizer: str = "sgd", seed: int = 0) -> Job:
    scalars = {"model.rate": 0.05, "model.momentum": 0.5} if optimizer == "sgd" else {"model.rate": 1e-3}
    weights = {"model": PACK.table("crnn-lite").initial(seed)}
    return Job(kind="supervised", models={"model": "crnn-lite"}, optimizer=optimizer, weights=weights, scalars=scalars)


def _trained(runtime: NativeRuntime, job: Job, scale: float = 1.0) -> bytes:
    rng = np.random.default_rng(1)
    training = runtime.begin(job)
    for _ in range(2):
        x = scale * rng.standard_normal((16, TASK.frames, TASK.frontend.mels)).astype(np.float32)
        target = np.eye(len(PACK.labels), dtype=np.float32)[rng.integers(0, len(PACK.labels), 16)]
        training.step({"x": x, "target": target, "weight": np.ones(16, np.float32)})
    return training.weights("model").tobytes() + b"".join(v.tobytes() for v in training.slots().values())


def _held(runtime: NativeRuntime) -> int:
    gc.collect()
    return sum(len(ready.idle) for ready in runtime._ready.values())


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_job_after_another_gives_the_bits_of_the_first_job_of_a_runtime(optimizer: str) -> None:
    """Also after one that went wrong: its memory is full of NaN."""
    right, used = _trained(NativeRuntime(PACK), _job(optimizer)), NativeRuntime(PACK)
    for scale in (1.0, np.nan, 1e6):
        _trained(used, _job(optimizer, seed=3), scale)
    assert _trained(used, _job(optimizer)) == right


def test_jobs_side_by_side_have_memory_of_their_own_and_leave_it_to_the_next() -> None:
    runtime = NativeRuntime(PACK)
    trainings = [runtime.begin(_job(seed=seed)) for seed in (0, 1)]
    for seed, training in enumerate(trainings):
        assert np.array_equal(training.weights("model"), PACK.table("crnn-lite").initial(seed))
    assert _held(runtime) == 0
    del trainings, training
    assert _held(runtime) == 2
    runtime.begin(_job("adamw"))
    assert _held(runtime) == 1, "what another kind of job left is given up"
    runtime.end_training()
    assert _held(runtime) == 0


def test_memory_for_many_samples_is_kept_only_while_models_are_trained() -> None:
    runtime, weights = NativeRuntime(PACK), PACK.table("crnn-lite").initial(0)
    x = np.zeros((20, TASK.frames, TASK.frontend.mels), np.float32)
    before = runtime.logits("crnn-lite", weights, x)
    assert _held(runtime) == 0
    runtime.begin(_job())
    assert np.array_equal(runtime.logits("crnn-lite", weights, x), before)
    assert _held(runtime) == 2, "of the step, and of the last samples"
    runtime.end_training()
    assert _held(runtime) == 0


def test_a_small_board_holds_memory_of_one_kind_of_work_at_a_time() -> None:
    """With the same numbers; what listening asks for, a window or two, takes nothing from a step."""
    runtime, weights = NativeRuntime(PACK), PACK.table("crnn-lite").initial(0)
    x = np.zeros((20, TASK.frames, TASK.frontend.mels), np.float32)
    before, trained = runtime.logits("crnn-lite", weights, x), _trained(runtime, _job())
    hold_little(runtime)
    runtime.logits("crnn-lite", weights, x[:1])
    assert _held(runtime) == 2, "of the step, and of a window"
    assert np.array_equal(runtime.logits("crnn-lite", weights, x), before)
    assert _held(runtime) == 1, "of the window"
    assert _trained(runtime, _job()) == trained
