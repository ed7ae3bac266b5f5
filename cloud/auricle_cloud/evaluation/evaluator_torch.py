"""How good many models are, on a GPU: the pack's `evaluate` graph over a batch of models at once, in PyTorch.

Logits are those of onnxruntime to 1e-5: TF32, in which a GPU would multiply with ten bits, is switched off.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.checks.graph_check import check_graph
from auricle.errors import AuricleError
from auricle.packs.pack import Pack
from auricle_cloud.aggregation.cohort import FloatArray
from auricle_cloud.evaluation.model_scores import BATCH, Scores, check_models
from auricle_cloud.evaluation.torch_graph import TorchGraph
from auricle_cloud.evaluation.torch_operators import Tensor
from auricle_cloud.evaluation.validation_set import ValidationSet

MEMORY = 1 << 30
"""Bytes for the values of all models that are judged at once, counted as if none of them was given back early."""


class TorchEvaluator:
    """Models side by side on one device.

    Parameters
    ----------
    pack, validation, model
        As in `OnnxEvaluator`. The validation set is copied to the device.
    device
        PyTorch's name of it.
    memory
        Bytes; it decides how many models are judged at once.

    Raises
    ------
    UnknownOperatorError
        The graph has an operator that is not known here: judge on the processor.
    AuricleError
        PyTorch is not installed.
    """

    def __init__(
        self,
        pack: Pack,
        validation: ValidationSet,
        model: str | None = None,
        *,
        device: str = "cuda",
        memory: int = MEMORY,
    ) -> None:
        graph = pack.graph("evaluate", model or pack.manifest.plugin)
        check_graph(pack, graph)
        self._table = pack.table(graph.model)
        batch = min(BATCH, len(validation))
        self._graph = TorchGraph(pack, graph, device, {batch, len(validation) % batch or batch})
        self._torch = self._graph.torch
        self._batches = [(self._put(x), self._put(y)) for x, y in validation.batches(batch)]
        self._clips = len(validation)
        self._at_once = max(1, memory // (4 * self._graph.numbers(batch)))
        name = self._torch.cuda.get_device_name() if device.startswith("cuda") else "the processor"
        self.device = f"{name} (PyTorch)"

    def scores(self, models: FloatArray) -> Scores:
        """Judge models (M, P), as many at once as the memory holds."""
        rows = check_models(models, self._table.size)
        right, loss = np.zeros(len(rows)), np.zeros(len(rows))
        for start in range(0, len(rows), self._at_once):
            some = slice(start, start + self._at_once)
            for logits, targets in self._run(rows[some]):
                found = self._tally(logits, targets)
                right[some] += found[0]
                loss[some] += found[1]
        return Scores(right / self._clips, loss / self._clips)

    def logits(self, models: FloatArray) -> NDArray[np.float32]:
        """Logits (M, N, labels) of models (M, P), all of them at once."""
        rows = check_models(models, self._table.size)
        return np.concatenate([logits.cpu().numpy() for logits, _ in self._run(rows)], axis=1)

    def _put(self, array: NDArray[Any]) -> Tensor:
        return self._torch.from_numpy(np.ascontiguousarray(array)).to(self._graph.device)

    def _run(self, rows: NDArray[np.float32]) -> Iterator[tuple[Tensor, Tensor]]:
        """Logits (M, B, labels) of all models, batch by batch, with the targets (B,)."""
        parts = [self._table.parts(row) for row in rows]
        weights = [self._put(np.stack(part)) for part in zip(*parts, strict=True)]
        try:
            with _full_precision(self._torch):
                for features, targets in self._batches:
                    yield self._graph.logits(features, weights), targets
        except self._torch.OutOfMemoryError as error:
            raise AuricleError(
                f"{self.device} has not enough free memory to judge {len(rows)} models at once: free some, or judge "
                f"on the processor."
            ) from error

    def _tally(self, logits: Tensor, targets: Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Count what is right for every model, and add up the cross-entropy in float64."""
        z = logits.double()
        right = (z.argmax(dim=2) == targets) & ~z.isnan().any(dim=2)
        losses = z.logsumexp(dim=2) - z.gather(2, targets.expand(len(z), -1)[..., None])[..., 0]
        return right.sum(dim=1).double().cpu().numpy(), losses.sum(dim=1).cpu().numpy()


@contextmanager
def _full_precision(torch: Any) -> Iterator[None]:
    """Multiply in float32, whatever the program around has set."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
