"""How good many models are on a validation set: accuracy and loss through the pack's `evaluate` graph.

Weights are inputs of the graph, so one session judges all models: stock onnxruntime on the processor, a model a thread,
or on a GPU where the installed onnxruntime has a provider for it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from auricle.checks.graph_check import check_graph
from auricle.errors import AuricleError, DataError, PackError, SettingsError, extra_command, nearest
from auricle.packs.graph_interface import PARTS, Graph
from auricle.packs.pack import Pack
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_learning.aggregation.cohort import Float64Array, FloatArray
from auricle_learning.aggregation.compute.accelerator import gpu_in_sight
from auricle_learning.aggregation.compute.matrix import usable_threads

BATCH_SAMPLES = 64
"""Samples that a model recognises at once."""


@dataclass(frozen=True, eq=False)
class Scores:
    """What each of M models is worth."""

    accuracy: Float64Array
    """(M,) share of the samples whose largest logit is their label; one whose logits hold NaN is wrong."""
    loss: Float64Array
    """(M,) mean cross-entropy in nats; not finite for a model whose logits are not."""


def check_models(models: FloatArray, size: int) -> NDArray[np.float32]:
    """Return models (M, P) as contiguous float32; DataError where they are not models of this size."""
    if models.ndim != 2 or models.shape[1] != size:
        raise DataError(f"models to judge must be rows of {size} weights, not an array {models.shape}.")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(models, np.float32)


def tally(logits: NDArray[np.float32], targets: NDArray[np.int64]) -> tuple[int, float]:
    """Count what is right among logits (N, C) and add up the cross-entropy in float64."""
    z = logits.astype(np.float64)
    right = (z.argmax(axis=1) == targets) & ~np.isnan(z).any(axis=1)
    with np.errstate(invalid="ignore"):
        z -= z.max(axis=1, keepdims=True)
        losses = np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), targets]
    return int(right.sum()), float(losses.sum())


if TYPE_CHECKING:
    from onnxruntime import InferenceSession

DEVICES = ("auto", "cpu", "cuda")
GPU, PROCESSOR = "CUDAExecutionProvider", "CPUExecutionProvider"


class Evaluator(Protocol):
    """Judges models of one architecture on one validation set."""

    @property
    def device(self) -> str:
        """Where it computes, for the log."""

    def scores(self, models: FloatArray) -> Scores:
        """Judge models (M, P)."""


class OnnxEvaluator:
    """Stock onnxruntime.

    Parameters
    ----------
    pack
        Its `evaluate` graph is run.
    validation
        What the models are judged on.
    threads
        Models judged at the same time, each by one thread; all processors without. On a GPU one after the other.
    provider
        Who computes: `CPUExecutionProvider`, or `CUDAExecutionProvider` before it.

    Raises
    ------
    AuricleError
        onnxruntime is not installed, or the GPU cannot be used.
    PackError
        The pack has no such graph, or it is not sound.
    """

    def __init__(
        self,
        pack: Pack,
        validation: ValidationSet,
        threads: int | None = None,
        provider: str = PROCESSOR,
    ) -> None:
        self._table = pack.table(pack.manifest.plugin)
        self._validation = validation
        self._session = open_session(pack, pack.graph("evaluate", pack.manifest.plugin), provider)
        on_gpu = provider != PROCESSOR
        self._threads = 1 if on_gpu else threads or usable_threads()
        self.device = "a GPU (onnxruntime)" if on_gpu else f"the processor (onnxruntime, {self._threads} threads)"

    def scores(self, models: FloatArray) -> Scores:
        """Judge models (M, P), several at the same time; a thread holds the activations of one batch."""
        rows = check_models(models, self._table.size)
        with ThreadPoolExecutor(self._threads) as threads:
            found = np.array(list(threads.map(self._score, rows)), np.float64).reshape(-1, 2)
        return Scores(*(found.T / len(self._validation)))

    def logits(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits (N, labels) of one model (P,)."""
        return np.concatenate([logits for logits, _ in self._run(weights)])

    def _score(self, weights: NDArray[np.float32]) -> tuple[int, float]:
        found = [tally(logits, targets) for logits, targets in self._run(weights)]
        return sum(right for right, _ in found), sum(loss for _, loss in found)

    def _run(self, weights: NDArray[np.float32]) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        feeds = dict(zip((f"model/{part}" for part in PARTS), self._table.parts(weights), strict=True))
        for features, targets in self._validation.batches(BATCH_SAMPLES):
            yield self._session.run(["logits"], {**feeds, "x": features})[0], targets


def choose_evaluator(pack: Pack, validation: ValidationSet, wanted: str = "auto") -> tuple[Evaluator, str]:
    """Make the best evaluator that this machine has, and say which and why.

    Parameters
    ----------
    pack, validation
        As in `OnnxEvaluator`.
    wanted
        `auto`: a GPU where onnxruntime has a provider for it and it works, else the processor. `cpu` or `cuda`: that
        one.

    Returns
    -------
    tuple
        The evaluator, and a sentence for the log.

    Raises
    ------
    SettingsError
        There is no device of that name.
    AuricleError
        What was asked for is not there; the sentence says what to install.
    """
    if wanted not in DEVICES:
        raise SettingsError(f'There is no device "{wanted}" to judge models on; {nearest(wanted, DEVICES)}')
    if wanted == "cpu" or (wanted == "auto" and not gpu_in_sight()):
        return _on_processor(pack, validation)
    missing = _missing_gpu()
    if not missing:
        try:
            on_gpu = OnnxEvaluator(pack, validation, provider=GPU)
        except AuricleError as error:
            missing = str(error)
        else:
            return on_gpu, f"Models are judged on {on_gpu.device}."
    if wanted == "cuda":
        raise AuricleError(f"Models cannot be judged on a GPU. {missing}")
    return _on_processor(pack, validation, missing)


def _on_processor(pack: Pack, validation: ValidationSet, why: str = "") -> tuple[Evaluator, str]:
    evaluator = OnnxEvaluator(pack, validation)
    return evaluator, f"Models are judged on {evaluator.device}. {why}".strip()


def _missing_gpu() -> str:
    """What keeps onnxruntime from a GPU here, as a sentence; empty when nothing is known to."""
    if GPU in _onnxruntime().get_available_providers():
        return ""
    return "The installed onnxruntime has no provider for a GPU: install onnxruntime-gpu instead of onnxruntime."


def _onnxruntime() -> ModuleType:
    try:
        return importlib.import_module("onnxruntime")
    except ModuleNotFoundError as error:
        raise AuricleError(
            f"Judging models needs onnxruntime, which is not installed: {extra_command('cloud')}."
        ) from error


def open_session(pack: Pack, graph: Graph, provider: str = PROCESSOR) -> InferenceSession:
    """Load a pack's graph, one thread a run; raises as `OnnxEvaluator` does."""
    onnxruntime = _onnxruntime()
    check_graph(pack, graph)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    providers = list(dict.fromkeys((provider, PROCESSOR)))
    try:
        session = onnxruntime.InferenceSession(pack.files[graph.file], options, providers=providers)
    except Exception as error:
        raise PackError(f"onnxruntime does not load {graph.file}: {error}") from error
    if provider not in session.get_providers():
        raise AuricleError("onnxruntime cannot use the GPU: its CUDA libraries or a device are missing.")
    return session
