"""A round's training on the device: mutual learning of the local model and the plug-in, over any runtime."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.errors import AuricleError, refuse_misfits_of
from auricle.packs.manifest import SPECIAL_LABELS
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle.wire.plan import Plan
from auricle.wire.prior_knowledge import PriorKnowledge
from auricle.wire.tensors import Flat
from auricle_learning.methods.method import JobChanges
from auricle_learning.methods.passes import graph_kind, graph_optimizer, head_size, plan_of_pass, terms_of
from auricle_learning.methods.vectors import GRADIENTS, MAPS
from auricle_learning.runtimes import Job, Runtime, Training, accuracy, cross_entropy, frontend_of
from auricle_learning.runtimes.interface import EVALUATION_BATCH
from auricle_learning.training.batches import Features, Pseudo, batches, fixmatch_batches, mixed_batches
from auricle_learning.training.carried import Carried, carried_to_train
from auricle_learning.training.device_half import DeviceHalf
from auricle_learning.training.epochs import TrainingStopped as TrainingStopped
from auricle_learning.training.epochs import steps
from auricle_learning.training.fixmatch import WEAK, Count, counted, has_graph, labelled_by, taught_by, two_view_batches
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.native_augmenter import augmenter
from auricle_learning.training.prior_knowledge import said_gradients, tuned
from auricle_learning.training.round_result import LocalState as LocalState
from auricle_learning.training.round_result import RoundResult as RoundResult
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.training_job import Models, adjusted, fitting_slots, scalars_of, vectors_of
from auricle_learning.training.vector_cache import Augmented, VectorCaches
from auricle_learning.training.vector_shelf import maker_of

Array = NDArray[Any]

NOTHING: Mapping[str, Flat] = {}

NOT_FINITE = "The loss is not finite: the learning rate is too high or the clips are damaged."


@refuse_misfits_of
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
    clock
        Whom it asks how long a round took.
    """

    def __init__(
        self,
        runtime: Runtime,
        architecture: str,
        data: DeviceData,
        seed: int,
        start: Flat | None = None,
        settings: LearnSettings | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.runtime, self.architecture, self.seed, self.start = runtime, architecture, seed, start
        self.settings, self.clock = settings or LearnSettings(clips=1, judge=False), clock
        self.pack, self.frontend = runtime.pack, frontend_of(runtime)
        self.pack.table(architecture)
        networked = self.pack.manifest.task.frontend.network is not UNSET
        maker = maker_of(self.pack, runtime.name, WEAK) if networked else b""
        self._vectors = VectorCaches(self.frontend, WEAK, maker) if networked else None
        self.renew(data)

    def renew(self, data: DeviceData) -> None:
        """Go on with other clips; not while a round is trained."""
        self.data = data
        self._augmenter: Augmented
        self._weak: Augmented
        self._plain: Features
        if self._vectors is None:
            self._augmenter, self._weak = augmenter(self.frontend, data.noise), augmenter(self.frontend, None, WEAK)
            self._plain = self.frontend.finish
        else:
            kept = (data.train, data.held_out, *(() if data.unlabelled is None else (data.unlabelled,)))
            self._vectors.renew([clips.energies for clips in kept], data.noise, data.vectors)
            self._augmenter, self._weak, self._plain = self._vectors.strong, self._vectors.weak, self._vectors.plain

    def logits(self, architecture: str, weights: Flat, clips: Clips) -> NDArray[np.float32]:
        """Logits (N, labels) of a model for clips as they are; their log-mels are made in pieces and not kept."""
        return np.concatenate([self.runtime.logits(architecture, weights, x) for x in self._pieces(clips)])

    def _pieces(self, clips: Clips) -> Iterator[NDArray[np.float32]]:
        for i in range(0, max(1, len(clips)), EVALUATION_BATCH):
            yield self._plain(clips.energies[i : i + EVALUATION_BATCH])

    def first_state(self) -> LocalState:
        """State of a device that was never trained: what it starts from, or a seeded initialisation."""
        return LocalState(self.pack.table(self.architecture).initial(self.seed) if self.start is None else self.start)

    def inference_loss(self, plugin: Flat) -> float:
        """Mean cross-entropy of a plug-in on the training clips: eval mode, no augmentation (FedVSA 6.1, A37)."""
        return cross_entropy(self.logits(self.pack.manifest.plugin, plugin, self.data.train), self.data.train.targets)

    def held_out_accuracy(self, architecture: str, weights: Flat) -> float | None:
        """Accuracy of a model on the clips that are never trained on; None where there are none."""
        if not len(self.data.held_out):
            return None
        return accuracy(self.logits(architecture, weights, self.data.held_out), self.data.held_out.targets)

    def run(
        self,
        plan: Plan,
        round_number: int,
        plugin: Flat,
        state: LocalState,
        checkpoint: Callable[[], bool] = lambda: False,
        prior: PriorKnowledge | None = None,
        vectors: Mapping[str, Flat] = NOTHING,
    ) -> RoundResult:
        """Train for one round from the received plug-in (P,).

        Parameters
        ----------
        checkpoint
            Called before every batch. It may wait, as while the board is busy, and says whether the round is over.
        prior
            What the plug-in's classifier is tuned by before it is trained.
        vectors
            What came with the model for the plan's method, by name.

        Raises
        ------
        TrainingStopped
            `checkpoint` said so between two batches.
        AuricleError
            A loss or a trained weight is not finite, or this version lacks the plan's method: the round is given up and
            the state stays as it was.
        """
        began, loss, name = self.clock.monotonic(), self.inference_loss(plugin), self.pack.manifest.plugin
        pseudo, count = self._pseudo(plan, plugin), self.clips_of(plan)
        loss = pseudo.loss if pseudo is not None and math.isnan(loss) else loss
        half = self._half(plan, plugin, vectors, state, count.all)
        carried = self._carried()  # before there is memory to train in: unpacking takes as much again for a moment
        models, slots, seen = Models(plugin, state.weights), state.slots, state.steps
        maps: dict[str, Flat] = {}
        counts: list[tuple[bool, int]] = []
        for place, changes in enumerate(half.before().passes):
            told = plan_of_pass(plan, changes)
            draw = (self.seed, plan.seed, round_number, *((place,) if place else ()))
            begin = models.begin(changes)
            first = begin if place else tuned(begin, prior, checkpoint)
            job = self._job(told, changes, draw, plugin, first, models.local, () if place else (slots, seen), pseudo)
            training = self.runtime.begin(job)
            epoch = self._epochs(job.kind, training.batch, told, draw, pseudo, carried)
            learnt = self._optimize(training, told, epoch, checkpoint)
            models = models.after(changes, self._final(told, training, job, begin if not learnt else None))
            counts.append((changes.trains == "plugin", training.steps - job.steps))
            if not place:
                slots, seen = training.slots() if told.keep_state else {}, training.steps
                maps = _maps(told, training, "plugin" if told.mode == "mutual" else "model")
            del training  # its memory is not needed while what it made is looked at
        see = partial(self._seen, self.architecture, models.local, checkpoint)
        taken = sum(n for plug, n in counts if plug or not any(p for p, _ in counts))
        travels, sent, kept = half.after(models.plugin, taken, models.personal, see)
        return RoundResult(
            travels,
            LocalState(models.local, slots, seen, kept),
            loss,
            taken,
            self.clock.monotonic() - began,
            count.all,
            self.held_out_accuracy(*models.judged(self.architecture, name)),
            self.held_out_accuracy(name, plugin),
            len(self.data.held_out),
            0 if pseudo is None else len(pseudo.sure),
            count.unlabelled if plan.fixmatch else None,
            {**sent, **maps, **self._gradients(models.plugin, prior, checkpoint)},
            None if travels is models.plugin else models.plugin,
        )

    def _half(
        self, plan: Plan, plugin: Flat, vectors: Mapping[str, Flat], state: LocalState, samples: int
    ) -> DeviceHalf:
        counts = np.bincount(self.data.train.targets, minlength=len(self.pack.labels)).astype(np.float32)
        width = self.pack.table(self.architecture).specs[-2].shape[1]
        allowed, head = self.settings.allowed, head_size(self.pack)
        return DeviceHalf(plan, plugin, vectors, state.variates, allowed, samples, counts, head, width)

    def clips_of(self, plan: Plan | None) -> Count:
        """How many clips it trains on in a round of this plan; without one, how many have labels."""
        return counted(plan, self.settings, self.data)

    def _pseudo(self, plan: Plan, plugin: Flat) -> Pseudo | None:
        """The clips without labels as the received plug-in labels them; None where they can teach nothing."""
        name, graph = self.pack.manifest.plugin, has_graph(self.runtime, plan)
        return labelled_by(lambda c: self.logits(name, plugin, c), plan, self.settings, self.data, graph=graph)

    def _gradients(
        self, trained: Flat, prior: PriorKnowledge | None, checkpoint: Callable[[], bool]
    ) -> dict[str, Flat]:
        """The classifier's gradients by class on the clips with a label, where the owner gives them away."""
        if prior is None or GRADIENTS.allowed_by not in self.settings.allowed:
            return {}
        see = partial(self.runtime.embeddings, self.pack.manifest.plugin, trained)
        gradients = said_gradients(map(see, self._pieces(self.data.train)), self.data.train.targets, prior, checkpoint)
        return {} if gradients is None else {GRADIENTS.name: gradients}

    def _seen(
        self, model: str, weights: Flat, checkpoint: Callable[[], bool]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """What a model's classifier sees of the clips with a label, and these labels."""
        pieces = []
        for piece in self._pieces(self.data.train):
            if checkpoint():
                raise TrainingStopped("The round was stopped.")
            pieces.append(self.runtime.embeddings(model, weights, piece))
        return np.concatenate(pieces), self.data.train.targets

    def _job(
        self,
        plan: Plan,
        changes: JobChanges,
        draw: Sequence[int],
        plugin: Flat,
        first: Flat,
        own: Flat,
        kept: tuple[Mapping[str, Flat], int] | tuple[()],
        pseudo: Pseudo | None,
    ) -> Job:
        """What a pass of a round means for this device: its model begins with the weights `first` (P,)."""
        name = self.pack.manifest.plugin
        received, first = (adjusted(each, self.data.train, plan.prior, self.pack) for each in (plugin, first))
        if plan.mode == "mutual":
            models, weights = {"local": self.architecture, "plugin": name}, {"local": own, "plugin": first}
        else:
            models, weights = {"model": self.architecture if changes.trains == "local" else name}, {"model": first}
        slots, steps = kept or ({}, 0)
        slots = fitting_slots(self.pack, models, plan, slots)
        kind, vectors = graph_kind(plan, changes), vectors_of(plan, received, changes)
        scalars, taught = scalars_of(plan, changes), taught_by(plan, self.settings)
        plain = changes.trains == "plugin" and changes.kind is None
        if plain and pseudo is not None and taught is not None and has_graph(self.runtime, plan, changes):
            kind, vectors = "fixmatch", {"teacher": plugin}
            scalars.update({"threshold": taught.threshold, "lambda": taught.weight})
        return Job(
            kind=kind,
            models=models,
            optimizer=graph_optimizer(plan),
            weights=weights,
            terms=terms_of(plan, changes),
            vectors=vectors,
            scalars=scalars,
            slots=slots,
            inputs=changes.inputs,
            bavd=bool(plan.bavd),
            steps=steps if slots else 0,
            seed=int(np.random.SeedSequence(draw).generate_state(1)[0]),
        )

    def _final(self, plan: Plan, training: Training, job: Job, begin: Flat | None) -> dict[str, Flat]:
        """What the pass made of the models by role, of the plug-in what it began with where nothing was learnt."""
        final = {role: training.weights(role) for role in job.models}
        if not all(np.isfinite(weights).all() for weights in final.values()):
            raise AuricleError(NOT_FINITE)
        role = "plugin" if plan.mode == "mutual" else "model"
        learnt = adjusted(final[role], self.data.train, -plan.prior, self.pack) if begin is None else begin.copy()
        return {**final, role: learnt}

    def _epochs(
        self,
        kind: str,
        size: int,
        plan: Plan,
        draw: Sequence[int],
        pseudo: Pseudo | None,
        carried: Carried | None,
    ) -> Callable[[], Iterator[dict[str, Array]]]:
        """What gives one epoch's batches at each call."""
        rng = np.random.default_rng(draw)
        clips, labels, weak = self.data.train, len(self.pack.labels), self._plain
        strong: Features = lambda energies: self._augmenter(energies, rng)  # noqa: E731
        moved: Features = lambda energies: self._weak(energies, rng)  # noqa: E731
        features: Features = moved if plan.fixmatch else strong if plan.augment else weak
        taught = taught_by(plan, self.settings)
        if pseudo is None or taught is None:
            return lambda: batches(clips, labels, size, rng, features, carried)
        if kind == "fixmatch" and plan.fixmatch:
            return lambda: two_view_batches(clips, pseudo.clips, labels, size, rng, moved, strong, carried)
        if not len(clips):
            return lambda: batches(pseudo.clips.chosen(pseudo.sure), labels, size, rng, strong)
        if kind == "fixmatch":
            return lambda: fixmatch_batches(clips, pseudo, labels, size, rng, features, weak, strong, carried)
        return lambda: mixed_batches(clips, pseudo, taught.weight, labels, size, rng, features, strong, carried)

    def _carried(self) -> Carried | None:
        """The pack's negatives to train on beside the device's own; None for who has no clip with a label."""
        if not len(self.data.train):
            return None
        negative = np.array([name in SPECIAL_LABELS for name in self.pack.labels])
        return carried_to_train(self.pack, self.settings.carried, int(negative[self.data.train.targets].sum()))

    def _optimize(
        self,
        training: Training,
        plan: Plan,
        epoch: Callable[[], Iterator[dict[str, Array]]],
        checkpoint: Callable[[], bool],
    ) -> bool:
        """Train on every batch of every epoch; whether one of them had a clip with a label, or one to be sure of."""
        learnt = False
        for _ in range(plan.epochs):
            for batch, losses in steps(training, epoch(), checkpoint):
                if not all(map(math.isfinite, losses.values())):
                    raise AuricleError(NOT_FINITE)
                learnt |= bool(losses.get("confident", 1.0) or batch["weight"].any())
        return learnt


def _maps(plan: Plan, training: Training, role: str) -> dict[str, Flat]:
    """The plug-in's last activation maps, where the plan asks for them."""
    asked = plan.bavd and plan.bavd.maps
    return {MAPS.name: np.nan_to_num(training.maps(role), posinf=0.0, neginf=0.0)} if asked else {}
