"""A round's training on the device: mutual learning of the local model and the plug-in, over any runtime."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle.messages import Plan
from auricle.pack import SLOTS, Pack
from auricle.speech.augment import Augmenter
from auricle.speech.features import LogMel
from auricle.tensors import Flat
from auricle_edge.runtimes import Job, Runtime, Training, accuracy, cross_entropy
from auricle_edge.speech_data import Clips, DeviceData

Array = NDArray[Any]

NOT_FINITE = "The loss is not finite: the learning rate is too high or the clips are damaged."


class TrainingStopped(AuricleError):  # noqa: N818 - not an error: somebody asked for it
    """The round was aborted or a newer one began."""


@dataclass(frozen=True)
class LocalState:
    """What a device keeps between rounds: its own model, and the optimisers' state."""

    weights: Flat
    """(Q,) the local model."""
    slots: Mapping[str, Flat] = field(default_factory=dict)
    """Optimiser vectors by `model.slot`; empty at first or when the plan does not keep them."""
    steps: int = 0
    """Steps the kept optimiser state has seen."""


@dataclass(frozen=True)
class RoundResult:
    """What came out of a round on one device."""

    plugin: Flat
    """(P,) the trained plug-in: this is what travels."""
    local: LocalState
    loss: float
    """Inference loss of the received plug-in on the training clips, before training."""
    steps: int
    seconds: float
    samples: int
    personal_accuracy: float | None
    plugin_accuracy: float | None
    held_out: int


def _kept_slots(pack: Pack, models: Mapping[str, str], plan: Plan, state: LocalState) -> dict[str, Flat]:
    """The kept optimiser vectors by `model.slot`; none unless every vector that this plan needs was kept."""
    sizes = {
        f"{role}.{slot}": pack.table(a).size for role, a in models.items() for slot in SLOTS[graph_optimiser(plan)]
    }
    whole = all(name in state.slots and state.slots[name].shape == (size,) for name, size in sizes.items())
    return {name: state.slots[name] for name in sizes} if plan.keep_state and whole else {}


FLAT = 1e6
"""An epsilon that swamps the second moment: AdamW with beta1 = 0 then is plain SGD at rate / FLAT, to 1e-5."""


def graph_optimiser(plan: Plan) -> str:
    """Which step graph a plan needs: `mixed` runs on AdamW's, or on SGD's where there is only the plug-in."""
    if plan.optimiser != "mixed":
        return plan.optimiser
    return "adamw" if plan.mode == "mutual" else "sgd"


def graph_kind(plan: Plan) -> str:
    """Which kind of step graph a plan needs."""
    return "alternating" if (plan.mode, plan.order) == ("mutual", "alternating") else plan.mode


def scalars_of(plan: Plan) -> dict[str, float]:
    """A plan's hyper-parameters under the names of a job's scalars."""
    mutual = plan.mode == "mutual"
    rates = {"local": plan.local_rate, "plugin": plan.rate} if mutual else {"model": plan.rate}
    common = {"decay": plan.decay, "clip": plan.clip or math.inf, "momentum": plan.momentum}
    named = {f"{role}.{name}": value for role in rates for name, value in common.items()}
    named.update({f"{role}.rate": rate for role, rate in rates.items()})
    if plan.optimiser == "mixed" and mutual:
        flat = {"beta1": 0.0, "beta2": 0.0, "epsilon": FLAT, "decay": 0.0, "rate": plan.rate * FLAT}
        named.update({f"plugin.{name}": value for name, value in flat.items()})
    if plan.mu:
        named["plugin.mu" if mutual else "model.mu"] = plan.mu
    if mutual:
        named.update({"alpha": plan.alpha, "plugin_ce": plan.plugin_ce, "temperature": plan.temperature})
    return named


def batches(
    clips: Clips, labels: int, size: int, rng: np.random.Generator, features: Callable[[NDArray[np.float32]], Array]
) -> Iterator[dict[str, Array]]:
    """One epoch of shuffled batches; the last, partial one is padded with samples of weight 0."""
    order = rng.permutation(len(clips))
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        padded = np.concatenate([chosen, np.zeros(size - len(chosen), chosen.dtype)])
        yield {
            "x": features(clips.energies[padded]),
            "target": np.eye(labels, dtype=np.float32)[clips.targets[padded]],
            "weight": (np.arange(size) < len(chosen)).astype(np.float32),
        }


class Trainer:
    """Trains one device's models.

    Parameters
    ----------
    runtime
        What trains and recognises; shared between devices.
    architecture
        The device's local model.
    data
        Its clips.
    seed
        Of its initial local model and of everything it draws, together with the round's.
    start
        Weights (Q,) of its initial local model; without, drawn from the seed.
    """

    def __init__(
        self, runtime: Runtime, architecture: str, data: DeviceData, seed: int, start: Flat | None = None
    ) -> None:
        self.runtime, self.architecture, self.data, self.seed = runtime, architecture, data, seed
        self.start = start
        self.pack = runtime.pack
        self.pack.table(architecture)
        self._frontend = LogMel(self.pack.manifest.task)
        self._augmenter = Augmenter(self._frontend, data.noise)
        self._features = {
            "train": self._frontend.finish(data.train.energies),
            "held_out": self._frontend.finish(data.held_out.energies),
        }

    def first_state(self) -> LocalState:
        """State of a device that was never trained: what it starts from, or a seeded initialisation."""
        return LocalState(self.pack.table(self.architecture).initial(self.seed) if self.start is None else self.start)

    def inference_loss(self, plugin: Flat) -> float:
        """Mean cross-entropy of a plug-in on the training clips: eval mode, no augmentation (FedVSA 6.1, A37)."""
        logits = self.runtime.logits(self.pack.manifest.plugin, plugin, self._features["train"])
        return cross_entropy(logits, self.data.train.targets)

    def held_out_accuracy(self, architecture: str, weights: Flat) -> float | None:
        """Accuracy of a model on the clips that are never trained on."""
        logits = self.runtime.logits(architecture, weights, self._features["held_out"])
        return accuracy(logits, self.data.held_out.targets)

    def run(
        self, plan: Plan, round_number: int, plugin: Flat, state: LocalState,
        stopped: Callable[[], bool] = lambda: False,
    ) -> RoundResult:  # fmt: skip
        """Train for one round from the received plug-in (P,).

        Raises
        ------
        TrainingStopped
            `stopped` said so between two batches.
        AuricleError
            A loss or a trained weight is not finite: the round is given up and the state stays as it was.
        """
        began = time.monotonic()
        loss = self.inference_loss(plugin)
        mutual = plan.mode == "mutual"
        job = self._job(plan, round_number, plugin, state)
        training = self.runtime.begin(job)
        self._optimise(training, plan, round_number, stopped)
        final = {role: training.weights(role) for role in job.models}
        if not all(np.isfinite(weights).all() for weights in final.values()):
            raise AuricleError(NOT_FINITE)
        slots = training.slots() if plan.keep_state else {}
        local = LocalState(final.get("local", state.weights), slots, training.steps)
        trained = self._with_prior(final["plugin" if mutual else "model"], -plan.prior)
        return RoundResult(
            trained, local, loss, training.steps - job.steps, time.monotonic() - began, len(self.data.train),
            self.held_out_accuracy(self.architecture, local.weights) if mutual else self.held_out_accuracy(
                self.pack.manifest.plugin, trained),
            self.held_out_accuracy(self.pack.manifest.plugin, plugin), len(self.data.held_out),
        )  # fmt: skip

    def _job(self, plan: Plan, round_number: int, plugin: Flat, state: LocalState) -> Job:
        """What a plan means for this device; a proximal term holds the plug-in to what was received (FedProx)."""
        name = self.pack.manifest.plugin
        received = self._with_prior(plugin, plan.prior)
        if plan.mode == "mutual":
            models, weights = {"local": self.architecture, "plugin": name}, {"local": state.weights, "plugin": received}
        else:
            models, weights = {"model": name}, {"model": received}
        kept = _kept_slots(self.pack, models, plan, state)
        anchored = "plugin" if plan.mode == "mutual" else "model"
        return Job(
            kind=graph_kind(plan), models=models, optimiser=graph_optimiser(plan), weights=weights,
            terms=("drift",) if plan.mu else (), vectors={f"{anchored}.anchor": received} if plan.mu else {},
            scalars=scalars_of(plan), slots=kept, steps=state.steps if kept else 0,
            seed=int(np.random.SeedSequence([self.seed, plan.seed, round_number]).generate_state(1)[0]),
        )  # fmt: skip

    def _with_prior(self, plugin: Flat, strength: float) -> Flat:
        """Add the device's log label frequencies to the plug-in's biases: logit adjustment (Menon et al. 2021, eq. 10).

        Training with them and taking them off again keeps a device that lacks some words from unlearning these.
        Frequencies are smoothed by half a clip a label and centred; strength 0 changes nothing.
        """
        if not strength:
            return plugin
        labels = len(self.pack.labels)
        counts = np.bincount(self.data.train.targets, minlength=labels) + 0.5
        prior = np.log(counts / counts.sum())
        moved: Flat = plugin.copy()
        moved[-labels:] += (strength * (prior - prior.mean())).astype(np.float32)
        return moved

    def _optimise(self, training: Training, plan: Plan, round_number: int, stopped: Callable[[], bool]) -> None:
        """Train on every batch of every epoch."""
        rng = np.random.default_rng([self.seed, plan.seed, round_number])
        features: Callable[[NDArray[np.float32]], Array] = (
            (lambda energies: self._augmenter(energies, rng)) if plan.augment else self._frontend.finish
        )
        for _ in range(plan.epochs):
            for batch in batches(self.data.train, len(self.pack.labels), training.batch, rng, features):
                if stopped():
                    raise TrainingStopped("The round was stopped.")
                losses = training.step(batch)
                if not all(map(math.isfinite, losses.values())):
                    raise AuricleError(NOT_FINITE)
