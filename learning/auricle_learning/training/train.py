"""A round's training on the device: mutual learning of the local model and the plug-in, over any runtime."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from auricle.errors import refuse_misfits_of
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle.wire.plan import InferenceLoss, Plan
from auricle.wire.tensors import Flat
from auricle_learning.methods.passes import head_size, plan_of_pass
from auricle_learning.runtimes import Runtime
from auricle_learning.runtimes.interface import inference_loss
from auricle_learning.training.carried import negatives_beside
from auricle_learning.training.device_half import DeviceHalf, mechanisms_of
from auricle_learning.training.epochs import TrainingStopped as TrainingStopped
from auricle_learning.training.epochs import train, weights_after
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.mechanism import NOTHING_LENT, DeviceRound, LentData
from auricle_learning.training.round_result import LocalState as LocalState
from auricle_learning.training.round_result import RoundResult as RoundResult
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.step_count import Count, counted
from auricle_learning.training.training_job import Models, fitting_slots, job_of, role_of, roles_of, with_offset
from auricle_learning.training.views import Views


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
        self.pack, self.views = runtime.pack, Views(runtime)
        self.pack.table(architecture)
        self.frontend = self.views.frontend
        self.renew(data)

    def renew(self, data: DeviceData) -> None:
        """Go on with other clips; not while a round is trained."""
        self.data = data
        self.views.renew(data)

    def logits(self, architecture: str, weights: Flat, clips: Clips) -> NDArray[np.float32]:
        """Logits (N, labels) of a model for clips as they are; their log-mels are made in pieces and not kept."""
        return np.concatenate([self.runtime.logits(architecture, weights, x) for x in self.views.pieces(clips)])

    def first_state(self) -> LocalState:
        """State of a device that was never trained: what it starts from, or a seeded initialisation."""
        return LocalState(self.pack.table(self.architecture).initial(self.seed) if self.start is None else self.start)

    def inference_loss(self, plugin: Flat, kind: InferenceLoss = "ce") -> float:
        """Mean loss of a plug-in on the training clips: eval mode, no augmentation (FedVSA 6.1, A37)."""
        logits = self.logits(self.pack.manifest.plugin, plugin, self.data.train)
        return inference_loss(kind, logits, self.data.train.targets)

    def recognise_held_out(self, architecture: str, weights: Flat) -> NDArray[np.int64]:
        """Labels (H,) that a model gives the clips that are never trained on."""
        held_out = self.data.held_out
        if not len(held_out):
            return np.zeros(0, np.int64)
        labels: NDArray[np.int64] = self.logits(architecture, weights, held_out).argmax(axis=1)
        return labels

    def held_out_accuracy(self, architecture: str, weights: Flat) -> float | None:
        """Accuracy of a model on the clips that are never trained on; None where there are none."""
        return self._share_right(self.recognise_held_out(architecture, weights))

    def _share_right(self, labels: NDArray[np.int64]) -> float | None:
        return float(np.mean(labels == self.data.held_out.targets)) if len(labels) else None

    def run(
        self,
        plan: Plan,
        round_number: int,
        plugin: Flat,
        state: LocalState,
        checkpoint: Callable[[], bool] = lambda: False,
        lent: LentData = NOTHING_LENT,
    ) -> RoundResult:
        """Train for one round from the received plug-in (P,).

        Parameters
        ----------
        checkpoint
            Called before every batch. It may wait, as while the board is busy, and says whether the round is over.
        lent
            What came beside the model.

        Raises
        ------
        TrainingStopped
            `checkpoint` said so between two batches.
        AuricleError
            A loss or a trained weight is not finite, or this version lacks the plan's method: the round is given up and
            the state stays as it was.
        """
        with self.views.memory():
            return self._run(plan, round_number, plugin, state, checkpoint, lent)

    def _run(
        self,
        plan: Plan,
        round_number: int,
        plugin: Flat,
        state: LocalState,
        checkpoint: Callable[[], bool],
        lent: LentData,
    ) -> RoundResult:
        began, name = self.clock.monotonic(), self.pack.manifest.plugin
        loss = self.inference_loss(plugin, plan.inference_loss)
        of = DeviceRound(plan, plugin, lent, self.runtime, self.data, self.settings, self.views.pieces, checkpoint)
        mechanisms, count = mechanisms_of(of), self.clips_of(plan)
        if math.isnan(loss):
            loss = next((each.loss for each in mechanisms if not math.isnan(each.loss)), loss)
        half = self._half(plan, plugin, lent.vectors, state, count.all)
        # before there is memory to train in: unpacking takes as much again for a moment
        carried = negatives_beside(self.pack, self.settings.carried, self.data.train)
        models, kept, seen = Models(plugin, state.weights), state.slots, state.steps
        read: dict[str, Flat] = {}
        counts: list[tuple[bool, int]] = []
        for place, changes in enumerate(half.before().passes):
            pass_plan, mine = plan_of_pass(plan, changes), changes
            for mechanism in mechanisms:
                mine = mechanism.changes(place, pass_plan, mine)
            draw = (self.seed, plan.seed, round_number, *((place,) if place else ()))
            begin, role = models.begin(mine), role_of(pass_plan)
            first = begin if mine.tune is None else mine.tune(begin)
            roles = roles_of(pass_plan, mine, self.architecture, name)
            weights = {each: first if each == role else models.local for each in roles}
            slots = {} if place else fitting_slots(self.pack, roles, pass_plan, kept)
            job = job_of(pass_plan, mine, roles, weights, plugin, draw, (slots, seen))
            training, rng = self.runtime.begin(job), np.random.default_rng(draw)
            epoch = self.views.epoch(self.data.train, training.batch, rng, carried, augment=pass_plan.augment)
            made = epoch.batches if mine.batches is None else partial(mine.batches, epoch)
            learnt = train(training, pass_plan.epochs, made, checkpoint)
            final = weights_after(training, roles)
            final[role] = with_offset(final[role], mine.offset, -1) if learnt else begin.copy()
            models = models.after(mine, final)
            counts.append((mine.trains == "plugin", training.steps - job.steps))
            if not place:
                kept, seen = training.slots() if pass_plan.keep_state else {}, training.steps
            read.update({} if mine.reads is None else mine.reads(training, role))
            del training  # its memory is not needed while what it made is looked at
        taken = sum(n for plug, n in counts if plug or not any(p for p, _ in counts))
        see = partial(self._embed, self.architecture, models.local, checkpoint)
        travels, sent, stays = half.after(models.plugin, taken, models.personal, see)
        for mechanism in mechanisms:
            read.update(mechanism.vectors(models.plugin))
        own = models.judged(self.architecture, name)
        recognised = {"received": self.recognise_held_out(name, plugin), "own": self.recognise_held_out(*own)}
        if own[1] is models.plugin:
            recognised["trained"] = recognised["own"]
        return RoundResult(
            plugin=travels,
            local=LocalState(models.local, kept, seen, stays),
            loss=loss,
            steps=taken,
            seconds=self.clock.monotonic() - began,
            samples=count.all,
            personal_accuracy=self._share_right(recognised["own"]),
            plugin_accuracy=self._share_right(recognised["received"]),
            held_out=len(self.data.held_out),
            sure=sum(each.sure for each in mechanisms),
            unsupervised=count.unlabelled,
            vectors={**sent, **read},
            trained=None if travels is models.plugin else models.plugin,
            recognised=recognised,
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

    def _embed(
        self, model: str, weights: Flat, checkpoint: Callable[[], bool]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """What a model's classifier sees of the clips with a label, and these labels."""
        pieces = []
        for piece in self.views.pieces(self.data.train):
            if checkpoint():
                raise TrainingStopped("The round was stopped.")
            pieces.append(self.runtime.embeddings(model, weights, piece))
        return np.concatenate(pieces), self.data.train.targets
