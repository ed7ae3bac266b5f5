"""One model in the hands of onnxruntime-training: artifacts loaded, weights and optimizer state set and read."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from auricle.checks.graph_check import check_foreign_graph
from auricle.errors import AuricleError, PackError, extra_command
from auricle.files import read_kept
from auricle.packs.graph_interface import PARTS, SLOTS
from auricle.packs.manifest import OrtTraining
from auricle.packs.pack import Pack
from auricle.wire.tensors import Flat
from auricle_edge.runtimes.ort_checkpoint import Checkpoint
from auricle_learning.runtimes.interface import Array

if TYPE_CHECKING:
    from onnxruntime.training.api import CheckpointState

ATTRIBUTES = {
    "clip": "max_norm",
    "beta1": "alpha",
    "beta2": "beta",
    "epsilon": "epsilon",
    "decay": "weight_decay",
}
"""Hyper-parameters, and the attributes of an optimizer model's nodes that hold them."""
OPTIMIZERS = {"InplaceClipGradNorm", "SGDOptimizerV2", "AdamWOptimizer"}
"""The operators of an optimizer model."""
TORCH_MODE = 0
"""Of AdamWOptimizer's `adam_mode`: decay before the step, as PyTorch and the step graphs do."""
LARGEST = float(np.finfo(np.float32).max)
MODEL = "model"
DOMAINS = ("com.microsoft", "ai.onnx.training", "ai.onnx.preview.training")
"""Operators that onnxruntime-training brings along."""


def load_api() -> ModuleType:
    """`onnxruntime.training.api`, without the modules of that package that need PyTorch.

    Raises
    ------
    AuricleError
        onnxruntime-training is not installed.
    """
    for name in ("optim", "amp"):
        sys.modules.setdefault(f"onnxruntime.training.{name}", ModuleType(name))
    try:
        from onnxruntime.training import api
    except ImportError as error:
        raise AuricleError(
            "The runtime ort-training needs onnxruntime-training, which is not installed: in an environment of its "
            f"own with Python 3.10 or 3.11 on x86_64, {extra_command('ort-training', elsewhere=True)}."
        ) from error
    found: ModuleType = api
    return found


class OrtArtifacts:
    """The artifacts of a pack, and what loads them.

    Parameters
    ----------
    pack
        A pack with artifacts.
    threads
        Threads inside one operator.
    """

    def __init__(self, pack: Pack, threads: int) -> None:
        self.pack, self._threads = pack, threads
        self._api = load_api()
        self._templates: dict[tuple[str, str], bytes] = {}
        self._checked: set[str] = set()

    def entry(self, model: str) -> OrtTraining:
        """A model's artifacts; PackError when there are none, or they are for another number of labels."""
        entry = self.pack.manifest.ort_training.get(model)
        if entry is None:
            raise PackError(f"The pack {self.pack.manifest.name} has no files of {model} for the runtime ort-training.")
        table = self.pack.table(model)
        parts = table.parts(np.zeros(table.size, np.float32))
        due = {f"{MODEL}/{part}": array.size for part, array in zip(PARTS, parts, strict=True)}
        if Checkpoint(self.pack.files[entry.checkpoint]).sizes != due:
            raise PackError(
                f"The files of {model} for the runtime ort-training are not made for {len(self.pack.labels)} labels: "
                "make them for these with auricle export artifacts."
            )
        return entry

    def optimizer(self, entry: OrtTraining, name: str) -> bytes:
        """The optimizer model of a name; PackError when there is none."""
        for known, path in entry.optimizers.items():
            if known == name:
                return self.pack.files[path]
        raise PackError(f"The pack {self.pack.manifest.name} has no {name} for the runtime ort-training.")

    def load(self, entry: OrtTraining, checkpoint: bytes, optimizer: bytes) -> tuple[Any, Any, Any]:
        """State, module and optimizer of a model's artifacts; PackError when they are not sound."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._check(entry)
        files = [checkpoint, self.pack.files[entry.training], self.pack.files[entry.evaluation], optimizer]
        with _write_temporary(files) as (state_path, training, evaluation, stepper):
            try:
                state = self._api.CheckpointState.load_checkpoint(state_path)
                module = self._api.Module(training, state, evaluation, session_options=options)
                return state, module, self._api.Optimizer(stepper, module)
            except RuntimeError as error:
                raise PackError(f"onnxruntime-training does not load {entry.training}: {error}") from error

    def _check(self, entry: OrtTraining) -> None:
        """Judge the graphs that learn before they are loaded for the first time."""
        for path in {entry.training, entry.evaluation} - self._checked:
            where = f"The file {path} of the pack {self.pack.manifest.name}"
            check_foreign_graph(self.pack.files[path], where, DOMAINS)
            self._checked.add(path)

    def saved(self, state: CheckpointState) -> Checkpoint:
        """A state, with the optimizer's, as a checkpoint in memory."""
        with tempfile.TemporaryDirectory(prefix="auricle-") as folder:
            path = Path(folder) / "checkpoint"
            self._api.CheckpointState.save_checkpoint(state, str(path), True)
            return Checkpoint(read_kept(path))

    def with_room(self, model: str, optimizer: str) -> bytes:
        """A checkpoint of a model that has room for an optimizer's state: one saved after a step."""
        key = (model, optimizer)
        if key not in self._templates:
            entry = self.entry(model)
            files = self.pack.files
            state, module, stepper = self.load(entry, files[entry.checkpoint], self.optimizer(entry, optimizer))
            task = self.pack.manifest.task
            logits = np.zeros((entry.batch, len(self.pack.labels)), np.float32)
            x = np.zeros((entry.batch, *task.input_shape), np.float32)
            one = np.ones((), np.float32)
            module(x, logits, logits, np.ones(entry.batch, np.float32), one, one, one)
            stepper.step()
            self._templates[key] = self.saved(state).content
        return self._templates[key]


class OrtModel:
    """One model under training.

    Parameters
    ----------
    artifacts
        Those of its pack.
    model
        Its architecture.
    optimizer
        `sgd` or `adamw`.
    hyper
        Hyper-parameters by name, those of `ATTRIBUTES`.
    weights
        (P,) to start from.
    slots
        Optimizer vectors (P,) by slot to go on with; without, zeros.
    steps
        Steps that these have seen.
    """

    def __init__(
        self,
        artifacts: OrtArtifacts,
        model: str,
        optimizer: str,
        hyper: Mapping[str, float],
        weights: Flat,
        slots: Mapping[str, Flat],
        steps: int,
    ) -> None:
        self._artifacts, self._optimizer = artifacts, optimizer
        self._table = artifacts.pack.table(model)
        entry = artifacts.entry(model)
        self.batch: int = entry.batch
        vectors = {MODEL: weights}
        content = artifacts.pack.files[entry.checkpoint]
        if slots and optimizer == "adamw":
            vectors |= {f"{MODEL}.{slot}": vector for slot, vector in slots.items()}
            content = artifacts.with_room(model, optimizer)
        checkpoint = Checkpoint(content).replace(vectors, self._table, steps)
        stepper = tune(artifacts.optimizer(entry, optimizer), hyper)
        self._state, self._module, self._stepper = artifacts.load(entry, checkpoint, stepper)
        self._given = dict(slots)
        self._stepped = False

    def set_rate(self, rate: float) -> None:
        """Learning rate of the steps to come."""
        self._stepper.set_learning_rate(rate)

    def train(self, *inputs: Array) -> tuple[float, NDArray[np.float32]]:
        """One step on x, target, teacher, weight, ce, kl and temperature: the loss and the logits before it."""
        self._module.train()
        loss, logits = self._module(*inputs)
        self._stepper.step()
        self._module.lazy_reset_grad()
        self._stepped = True
        return float(loss), logits

    def logits(self, *inputs: Array) -> NDArray[np.float32]:
        """Logits (B, labels) as the model is now; the inputs are those of `train`."""
        self._module.eval()
        logits: NDArray[np.float32] = self._module(*inputs)[1]
        return logits

    def gradient(self, *inputs: Array) -> Flat:
        """The gradient (P,) of the loss on these inputs; nothing is changed."""
        self._module.train()
        self._module(*inputs)
        body, weight, bias = (self._state.parameters[f"{MODEL}/{part}"].grad for part in PARTS)
        self._module.lazy_reset_grad()
        return self._table.join(body, weight, bias)

    def weights(self) -> Flat:
        """The weights (P,) as they are now."""
        body, weight, bias = (self._state.parameters[f"{MODEL}/{part}"].data for part in PARTS)
        return self._table.join(body, weight, bias)

    def slots(self) -> dict[str, Flat]:
        """The optimizer's vectors (P,) by slot; zeros for plain SGD, which has no state here."""
        names = SLOTS[self._optimizer]
        if self._optimizer == "adamw" and self._stepped:
            saved = self._artifacts.saved(self._state)
            return {slot: saved.vector(f"{MODEL}.{slot}", self._table) for slot in names}
        return {slot: self._given.get(slot, np.zeros(self._table.size, np.float32)) for slot in names}


def tune(optimizer: bytes, hyper: Mapping[str, float]) -> bytes:
    """An optimizer model with other hyper-parameters, which it holds as constants; PackError when it is not one."""
    import onnx

    try:
        model = onnx.load_from_string(optimizer)
    except Exception as error:
        raise PackError("An optimizer for the runtime ort-training is not ONNX: make the pack again.") from error
    if not {node.op_type for node in model.graph.node} <= OPTIMIZERS:
        raise PackError("An optimizer for the runtime ort-training holds other operators than its own.")
    values = {ATTRIBUTES[name]: min(value, LARGEST) for name, value in hyper.items()}
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name in values:
                attribute.f = values[attribute.name]
            elif attribute.name == "adam_mode":
                attribute.i = TORCH_MODE
    changed: bytes = model.SerializeToString()
    return changed


@contextmanager
def _write_temporary(contents: Sequence[bytes]) -> Iterator[list[str]]:
    """Paths of temporary files with these bytes: onnxruntime-training takes nothing but paths."""
    with tempfile.TemporaryDirectory(prefix="auricle-") as folder:
        paths = [Path(folder) / str(number) for number in range(len(contents))]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        yield [str(path) for path in paths]
