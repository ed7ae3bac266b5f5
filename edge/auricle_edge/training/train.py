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
from auricle.packs.manifest import SPECIAL_LABELS
from auricle.speech.augment import Augmenter
from auricle.speech.features import LogMel
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_edge.runtimes import Job, Runtime, Training, accuracy, cross_entropy
from auricle_edge.runtimes.interface import EVALUATION_BATCH
from auricle_edge.training.batches import Features, Pseudo, batches, fixmatch_batches, mixed_batches, pseudo_labelled
from auricle_edge.training.carried import Carried, carried_to_train
from auricle_edge.training.learn_settings import LearnSettings
from auricle_edge.training.speech_data import Clips, DeviceData
from auricle_edge.training.training_job import (
    fitting_slots,
    graph_kind,
    graph_optimizer,
    scalars_of,
    terms_of,
    vectors_of,
)

Array = NDArray[Any]

NOT_FINITE = "The loss is not finite: the learning rate is too high or the clips are damaged."


class TrainingStopped(AuricleError):  # noqa: N818 - not an error: somebody asked for it
    """The round was aborted or a newer one began."""


@dataclass(frozen=True)
class LocalState:
    """What a device keeps between rounds: its own model, and the optimizers' state."""

    weights: Flat
    """(Q,) the local model."""
    slots: Mapping[str, Flat] = field(default_factory=dict)
    """Optimizer vectors by `model.slot`; empty at first or when the plan does not keep them."""
    steps: int = 0
    """Steps the kept optimizer state has seen."""

    @property
    def nbytes(self) -> int:
        """Bytes of all its vectors."""
        return self.weights.nbytes + sum(slot.nbytes for slot in self.slots.values())


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
    """Labelled clips that were trained on; clips without labels do not count, whatever they taught."""
    personal_accuracy: float | None
    plugin_accuracy: float | None
    held_out: int
    sure: int = 0
    """Clips without labels of which the received plug-in was sure."""


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
    settings
        How it learns from clips without labels, and how its rounds are judged; without, with the defaults of the
        former, whatever its number of clips, and without a judge.
    """

    def __init__(
        self,
        runtime: Runtime,
        architecture: str,
        data: DeviceData,
        seed: int,
        start: Flat | None = None,
        settings: LearnSettings | None = None,
    ) -> None:
        self.runtime, self.architecture, self.seed, self.start = runtime, architecture, seed, start
        self.settings = settings or LearnSettings(clips=1, judge=False)
        self.pack = runtime.pack
        self.pack.table(architecture)
        self._frontend = LogMel(self.pack.manifest.task)
        self.renew(data)

    def renew(self, data: DeviceData) -> None:
        """Go on with other clips; not while a round is trained."""
        self.data = data
        self._augmenter = Augmenter(self._frontend, data.noise)

    def logits(self, architecture: str, weights: Flat, clips: Clips) -> NDArray[np.float32]:
        """Logits (N, labels) of a model for clips as they are; their log-mels are made in pieces and not kept."""
        pieces = [clips.energies[i : i + EVALUATION_BATCH] for i in range(0, max(1, len(clips)), EVALUATION_BATCH)]
        return np.concatenate([self.runtime.logits(architecture, weights, self._frontend.finish(p)) for p in pieces])

    def first_state(self) -> LocalState:
        """State of a device that was never trained: what it starts from, or a seeded initialisation."""
        return LocalState(self.pack.table(self.architecture).initial(self.seed) if self.start is None else self.start)

    def inference_loss(self, plugin: Flat) -> float:
        """Mean cross-entropy of a plug-in on the training clips: eval mode, no augmentation (FedVSA 6.1, A37)."""
        logits = self.logits(self.pack.manifest.plugin, plugin, self.data.train)
        return cross_entropy(logits, self.data.train.targets)

    def held_out_accuracy(self, architecture: str, weights: Flat) -> float | None:
        """Accuracy of a model on the clips that are never trained on."""
        logits = self.logits(architecture, weights, self.data.held_out)
        return accuracy(logits, self.data.held_out.targets)

    def run(
        self,
        plan: Plan,
        round_number: int,
        plugin: Flat,
        state: LocalState,
        checkpoint: Callable[[], bool] = lambda: False,
    ) -> RoundResult:
        """Train for one round from the received plug-in (P,).

        Parameters
        ----------
        checkpoint
            Called before every batch. It may wait, as while the board is busy, and says whether the round is over.

        Raises
        ------
        TrainingStopped
            `checkpoint` said so between two batches.
        AuricleError
            A loss or a trained weight is not finite: the round is given up and the state stays as it was.
        """
        began = time.monotonic()
        loss = self.inference_loss(plugin)
        mutual = plan.mode == "mutual"
        pseudo = self._pseudo(plugin)
        job = self._job(plan, round_number, plugin, state, pseudo)
        training = self.runtime.begin(job)
        self._optimize(training, plan, self._epochs(job.kind, training.batch, plan, round_number, pseudo), checkpoint)
        final = {role: training.weights(role) for role in job.models}
        if not all(np.isfinite(weights).all() for weights in final.values()):
            raise AuricleError(NOT_FINITE)
        slots = training.slots() if plan.keep_state else {}
        local = LocalState(final.get("local", state.weights), slots, training.steps)
        trained = self._with_prior(final["plugin" if mutual else "model"], -plan.prior)
        return RoundResult(
            trained,
            local,
            loss,
            training.steps - job.steps,
            time.monotonic() - began,
            len(self.data.train),
            self.held_out_accuracy(self.architecture, local.weights)
            if mutual
            else self.held_out_accuracy(self.pack.manifest.plugin, trained),
            self.held_out_accuracy(self.pack.manifest.plugin, plugin),
            len(self.data.held_out),
            0 if pseudo is None else len(pseudo.sure),
        )

    def _pseudo(self, plugin: Flat) -> Pseudo | None:
        """The clips without labels as the received plug-in labels them; None when it is sure of none."""
        clips = self.data.unlabelled
        if clips is None or not len(clips) or not self.settings.unlabelled:
            return None
        logits = self.logits(self.pack.manifest.plugin, plugin, clips)
        pseudo = pseudo_labelled(clips, logits, self.settings.confidence)
        return pseudo if len(pseudo.sure) else None

    def _has_fixmatch(self, plan: Plan) -> bool:
        """Whether a plan's round with clips without labels has a step graph of its own."""
        name, optimizer = self.pack.manifest.plugin, graph_optimizer(plan)
        carried = any(
            (g.kind, g.model, g.optimizer) == ("fixmatch", name, optimizer) for g in self.pack.manifest.graphs
        )
        return carried and plan.mode == "supervised" and not terms_of(plan) and self.runtime.name == "step"

    def _job(self, plan: Plan, round_number: int, plugin: Flat, state: LocalState, pseudo: Pseudo | None) -> Job:
        """What a plan means for this device."""
        name = self.pack.manifest.plugin
        received = self._with_prior(plugin, plan.prior)
        if plan.mode == "mutual":
            models, weights = {"local": self.architecture, "plugin": name}, {"local": state.weights, "plugin": received}
        else:
            models, weights = {"model": name}, {"model": received}
        kept = fitting_slots(self.pack, models, plan, state.slots)
        kind, vectors = graph_kind(plan), vectors_of(plan, received)
        scalars = scalars_of(plan)
        if pseudo is not None and self._has_fixmatch(plan):
            kind, vectors = "fixmatch", {"teacher": plugin}
            scalars.update({"threshold": self.settings.confidence, "lambda": self.settings.unlabelled})
        return Job(
            kind=kind,
            models=models,
            optimizer=graph_optimizer(plan),
            weights=weights,
            terms=terms_of(plan),
            vectors=vectors,
            scalars=scalars,
            slots=kept,
            steps=state.steps if kept else 0,
            seed=int(np.random.SeedSequence([self.seed, plan.seed, round_number]).generate_state(1)[0]),
        )

    def _with_prior(self, plugin: Flat, strength: float) -> Flat:
        """Add the device's log label frequencies to the plug-in's biases: logit adjustment (Menon et al. 2021, eq. 10).

        Training with them and taking them off again keeps a device that lacks some words from unlearning these.
        Frequencies are those of the clips' weights, smoothed by half a clip a label and centred; strength 0: nothing.
        """
        if not strength:
            return plugin
        labels = len(self.pack.labels)
        counts = np.bincount(self.data.train.targets, self.data.train.weights, minlength=labels) + 0.5
        prior = np.log(counts / counts.sum())
        moved: Flat = plugin.copy()
        moved[-labels:] += (strength * (prior - prior.mean())).astype(np.float32)
        return moved

    def _epochs(
        self, kind: str, size: int, plan: Plan, round_number: int, pseudo: Pseudo | None
    ) -> Callable[[], Iterator[dict[str, Array]]]:
        """What gives one epoch's batches at each call."""
        rng = np.random.default_rng([self.seed, plan.seed, round_number])
        clips, labels, weak = self.data.train, len(self.pack.labels), self._frontend.finish

        def strong(energies: NDArray[np.float32]) -> Array:
            return self._augmenter(energies, rng)

        features: Features = strong if plan.augment else weak
        carried = self._carried()
        if pseudo is None:
            return lambda: batches(clips, labels, size, rng, features, carried)
        if kind == "fixmatch":
            return lambda: fixmatch_batches(clips, pseudo, labels, size, rng, features, weak, strong, carried)
        weight = self.settings.unlabelled
        return lambda: mixed_batches(clips, pseudo, weight, labels, size, rng, features, strong, carried)

    def _carried(self) -> Carried | None:
        """The pack's negatives to train on beside the device's own."""
        negative = np.array([name in SPECIAL_LABELS for name in self.pack.labels])
        return carried_to_train(self.pack, self.settings.carried, int(negative[self.data.train.targets].sum()))

    def _optimize(
        self,
        training: Training,
        plan: Plan,
        epoch: Callable[[], Iterator[dict[str, Array]]],
        checkpoint: Callable[[], bool],
    ) -> None:
        """Train on every batch of every epoch."""
        for _ in range(plan.epochs):
            for batch in epoch():
                if checkpoint():
                    raise TrainingStopped("The round was stopped.")
                losses = training.step(batch)
                if not all(map(math.isfinite, losses.values())):
                    raise AuricleError(NOT_FINITE)
