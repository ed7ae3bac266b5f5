"""How good many models are on a validation set: accuracy and loss through the pack's `evaluate` graph.

Weights are inputs of the graph, so one session judges all models. Where PyTorch finds a GPU they are judged there
(`auricle_cloud.evaluation.evaluator_torch`); otherwise stock onnxruntime does it on the processor, a model a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from auricle.checks.graph_check import check_graph
from auricle.errors import AuricleError, PackError, SettingsError, nearest
from auricle.packs.manifest import PARTS
from auricle.packs.pack import Pack
from auricle_cloud.aggregation.cohort import FloatArray
from auricle_cloud.aggregation.compute.accelerator import gpu_in_sight
from auricle_cloud.aggregation.compute.matrix import usable_threads
from auricle_cloud.evaluation.evaluator_torch import TorchEvaluator
from auricle_cloud.evaluation.model_scores import BATCH, Scores, check_models, tally
from auricle_cloud.evaluation.torch_graph import import_torch
from auricle_cloud.evaluation.torch_operators import UnknownOperatorError
from auricle_cloud.evaluation.validation_set import ValidationSet

DEVICES = ("auto", "cpu", "cuda")
INSTALL = 'pip install "auricle[cloud]"'


class Evaluator(Protocol):
    """Judges models of one architecture on one validation set."""

    @property
    def device(self) -> str:
        """Where it computes, for the log."""

    def scores(self, models: FloatArray) -> Scores:
        """Judge models (M, P)."""


class OnnxEvaluator:
    """Stock onnxruntime on the processor.

    Parameters
    ----------
    pack
        Its `evaluate` graph is run.
    validation
        What the models are judged on.
    model
        The architecture; the plug-in without.
    threads
        Models judged at the same time, each by one thread; all processors without.

    Raises
    ------
    AuricleError
        onnxruntime is not installed.
    PackError
        The pack has no such graph, or it is not sound.
    """

    def __init__(
        self, pack: Pack, validation: ValidationSet, model: str | None = None, threads: int | None = None
    ) -> None:
        self._table = pack.table(model or pack.manifest.plugin)
        self._validation = validation
        self._session = _session(pack, model or pack.manifest.plugin)
        self._threads = threads or usable_threads()
        self.device = f"the processor (onnxruntime, {self._threads} threads)"

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
        for features, targets in self._validation.batches(BATCH):
            yield self._session.run(["logits"], {**feeds, "x": features})[0], targets


def choose_evaluator(
    pack: Pack, validation: ValidationSet, wanted: str = "auto", model: str | None = None
) -> tuple[Evaluator, str]:
    """Make the best evaluator that this machine has, and say which and why.

    Parameters
    ----------
    pack, validation, model
        As in `OnnxEvaluator`.
    wanted
        `auto`: a GPU if PyTorch finds one, else the processor. `cpu` or `cuda`: that one; where PyTorch does not know
        an operator of the graph it is the processor in any case.

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
    missing = _missing_gpu() if wanted != "cpu" else ""
    if wanted == "cuda" and missing:
        raise AuricleError(f"Models cannot be judged on a GPU. {missing}")
    if wanted != "cpu" and not missing:
        try:
            on_gpu = TorchEvaluator(pack, validation, model, device="cuda")
            return on_gpu, f"Models are judged on {on_gpu.device}."
        except UnknownOperatorError as error:
            missing = str(error)
    if find_spec("onnxruntime") is not None:
        evaluator: Evaluator = OnnxEvaluator(pack, validation, model)
    elif find_spec("torch") is not None:
        evaluator = TorchEvaluator(pack, validation, model, device="cpu")
    else:
        raise AuricleError(f"Judging models needs onnxruntime or PyTorch, and neither is installed: {INSTALL}.")
    return evaluator, f"Models are judged on {evaluator.device}. {missing}".strip()


def _missing_gpu() -> str:
    """What keeps PyTorch from judging on a GPU here, as a sentence; empty when nothing does."""
    if find_spec("torch") is None:
        return 'PyTorch, which would use a GPU, is not installed: pip install "auricle[gpu]".'
    found = gpu_in_sight() and import_torch().cuda.is_available()
    return "" if found else "PyTorch finds no CUDA device."


def _session(pack: Pack, model: str) -> Any:
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise AuricleError(f"Judging models needs onnxruntime, which is not installed: {INSTALL}.") from error
    graph = pack.graph("evaluate", model)
    check_graph(pack, graph)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(pack.files[graph.file], options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise PackError(f"onnxruntime does not load {graph.file}: {error}") from error
