"""What every runtime offers, recognise and train step by step, and what is made of a model's logits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle.packs.pack import PARTS, Pack
from auricle.speech.features import FrozenNetwork, LogMel
from auricle.wire.gradient_terms import TERMS
from auricle.wire.plan import InferenceLoss
from auricle.wire.tensors import Flat, TensorTable

Array = NDArray[Any]
Float = TypeVar("Float", np.float32, np.float64)
EVALUATION_BATCH = 32
"""Samples that a runtime recognises at once."""

NEUTRAL: dict[str, float] = {
    "momentum": 0.0,
    "decay": 0.0,
    "l2": 0.0,
    "clip": math.inf,
    "beta1": 0.9,
    "beta2": 0.999,
    "epsilon": 1e-8,
    "temperature": 1.0,
    **{scalar: 0.0 for term in TERMS.values() for scalar in term.scalars},
}
"""Scalars that a job need not name, with the value under which they do nothing, or PyTorch's of AdamW."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to train, from where, and with which hyper-parameters."""

    kind: str
    """A step graph's kind: supervised, mutual, alternating, fixmatch, distill."""
    models: Mapping[str, str]
    """Architecture by role, in the kind's order of roles."""
    optimizer: str
    terms: tuple[str, ...] = ()
    """Optional terms of the gradient, see `TERMS`."""
    weights: Mapping[str, Flat]
    """(P,) by role."""
    scalars: Mapping[str, float]
    """Hyper-parameters by name, `role.rate` or `alpha`; those in `NEUTRAL` may be left out."""
    slots: Mapping[str, Flat] = field(default_factory=dict)
    """Optimizer vectors (P,) by `role.slot`; zeros without one."""
    vectors: Mapping[str, Flat] = field(default_factory=dict)
    """Other vectors (P,): `role.anchor`, `role.linear` (zeros without), `role.keep` (ones without), `teacher`."""
    inputs: Mapping[str, Array] = field(default_factory=dict)
    """Other inputs that stay the same from step to step, such as `means` and `valid`."""
    drops: bool = False
    """Whether layers that can drop activations do, by maps that start empty; the graph has to have such layers."""
    steps: int = 0
    """Steps that the given optimizer vectors have seen."""
    seed: int = 0
    """Of the masks of dropout."""

    def scalar(self, name: str) -> float:
        """A hyper-parameter, or the value under which it does nothing; AuricleError where there is neither."""
        value = self.scalars.get(name, NEUTRAL.get(name.rsplit(".", 1)[-1]))
        if value is None:
            raise AuricleError(f"The {self.kind} job does not say {name}: name it in its scalars.")
        return value


class Training(Protocol):
    """A job under way."""

    @property
    def batch(self) -> int:
        """Samples of a batch; a partial one is padded with samples of weight 0."""

    @property
    def steps(self) -> int:
        """Steps done, those counted that the job began with."""

    def step(self, batch: Mapping[str, Array]) -> dict[str, float]:
        """Train on one batch: `x` (B, T, mels), `target` (B, labels), `weight` (B,) and what the kind takes besides.

        A scalar or input of the job that stands in `batch` has the new value from this step on. Returns the losses of
        the models as they were before the step, by name.
        """

    def weights(self, role: str) -> Flat:
        """The weights (P,) of a role as they are now."""

    def slots(self) -> dict[str, Flat]:
        """The optimizer vectors (P,) by `role.slot` as they are now."""

    def maps(self, role: str) -> Flat:
        """The maps (M,) of a role's layers as they are now, in the order of their names; none where none drops."""


@runtime_checkable
class ManySteps(Protocol):
    """A job under way that can take several steps in one call."""

    def step_through(
        self, batches: Sequence[Mapping[str, Array]], stop: NDArray[np.int32] | None = None
    ) -> list[dict[str, float]]:
        """Train on batches in their order, as `Training.step` does on each: the same bits.

        When another thread sets `stop` (1,), no further step but the first is begun. Returns the losses of each step
        that was made.
        """


class Runtime(Protocol):
    """Runs a pack's models. Safe to share between threads: what changes is in a `Training`."""

    @property
    def name(self) -> str:
        """As in `--runtime`."""

    @property
    def pack(self) -> Pack:
        """The pack whose models it runs."""

    def logits(self, model: str, weights: Flat, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits (N, labels) of a model with weights (P,) for log-mels (N, T, mels)."""

    def embeddings(self, model: str, weights: Flat, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the classifier sees (N, H), for the same; AuricleError where a runtime or pack cannot give it."""

    def has(self, kind: str, model: str, optimizer: str) -> bool:
        """Whether it can do jobs of a kind on a model with an optimizer, see `Job`."""

    def begin(self, job: Job) -> Training:
        """Begin a job; AuricleError, saying what it lacks, when this runtime or its pack cannot do it."""

    def end_training(self) -> None:
        """Give up what only training needs, until the next job."""


@runtime_checkable
class RunsNetwork(Protocol):
    """A runtime that runs the network of a front-end itself."""

    def network(self) -> FrozenNetwork:
        """What runs the network of the pack's front-end, which has to have one."""


@runtime_checkable
class Partial(Protocol):
    """A runtime that leaves some graphs to another one."""

    def left_out(self, model: str) -> dict[str, str]:
        """Why, by file, of a model's graphs."""


class InferenceOnly:
    """What a runtime has that cannot train: a refusal."""

    name = "of this kind"

    def embeddings(self, model: str, weights: Flat, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Refuse."""
        raise AuricleError(f"The runtime {self.name} gives logits only: choose --runtime step.")

    def has(self, kind: str, model: str, optimizer: str) -> bool:
        """Nothing."""
        return False

    def begin(self, job: Job) -> Training:
        """Refuse."""
        raise AuricleError(f"The runtime {self.name} recognises and does not train: choose --runtime step.")

    def end_training(self) -> None:
        """Nothing to give up."""


def named_parts(model: str, table: TensorTable, weights: Flat) -> dict[str, Array]:
    """The three inputs that carry a model's weights (or its optimizer's state) into a graph."""
    return dict(zip((f"{model}/{part}" for part in PARTS), table.parts(weights), strict=True))


def joined_parts(model: str, table: TensorTable, values: Mapping[str, Array]) -> Flat:
    """The flat vector (P,) of the three tensors of a model."""
    return table.join(values[f"{model}/body"], values[f"{model}/head.weight"], values[f"{model}/head.bias"])


def softmax(logits: NDArray[Float]) -> NDArray[Float]:
    """Posteriors of logits (N, L), in their precision."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    posteriors: NDArray[Float] = powers / powers.sum(axis=1, keepdims=True)
    return posteriors


def recogniser(runtime: Runtime, model: str, weights: Flat) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """Posteriors (N, L) of log-mels (N, T, mels) by one model and its weights (P,), as they are now."""
    kept = weights.copy() if weights.flags.writeable or weights.base is not None else weights
    kept.flags.writeable = False  # so that a runtime need not copy them for every window
    return lambda features: softmax(runtime.logits(model, kept, features))


def cross_entropy(logits: NDArray[np.float32], targets: Sequence[int] | NDArray[np.int64]) -> float:
    """Mean cross-entropy of logits (N, C) with labels (N,), in float64; NaN for no samples."""
    z = logits.astype(np.float64)
    if not len(z):
        return float("nan")
    z -= z.max(axis=1, keepdims=True)
    chosen = z[np.arange(len(z)), np.asarray(targets)]
    return float(np.mean(np.log(np.exp(z).sum(axis=1)) - chosen))


def inference_loss(kind: InferenceLoss, logits: NDArray[np.float32], targets: NDArray[np.int64]) -> float:
    """Mean over samples of a loss of logits (N, C) with labels (N,), in float64; NaN for no samples.

    "ce", the cross-entropy; "mse", Σ_c (p_c - y_c)²; "l1", Σ_c |p_c - y_c|: of posteriors p and one-hot y, summed over
    the labels as the cross-entropy is, so that it means the same for any number of them (A37).
    """
    if kind == "ce" or not len(targets):
        return cross_entropy(logits, targets)
    away = softmax(logits.astype(np.float64))
    away[np.arange(len(away)), targets] -= 1
    return float(np.mean((np.square(away) if kind == "mse" else np.abs(away)).sum(axis=1)))


def accuracy(logits: NDArray[np.float32], targets: NDArray[np.int64]) -> float | None:
    """Share of samples whose largest logit is their label; None for no samples."""
    return float(np.mean(logits.argmax(axis=1) == targets)) if len(logits) else None


def frontend_of(runtime: Runtime) -> LogMel:
    """The front-end of a runtime's pack; where it has a network the runtime runs it, or else onnxruntime."""
    task = runtime.pack.manifest.task
    if task.frontend.network is UNSET:
        return LogMel(task)
    if isinstance(runtime, RunsNetwork):
        return LogMel(task, runtime.network())
    from auricle.checks.onnx_network import OnnxNetwork

    return LogMel(task, OnnxNetwork(runtime.pack))
