"""Twenty clients that learn digits round by round under FedVSA, one of whom replaces the model at some round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tests.cloud.model_replacement import flipped, replacement

from auricle.packs.first_weights import first_weights
from auricle.packs.pack import Pack, load_pack
from auricle.speech.features import LogMel
from auricle.speech.folder import load_folder
from auricle.speech.split import split_by_speaker
from auricle.wire.plan import Plan
from auricle_cloud.detection.alarm import Alarm, alarm, next_reference
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_learning.aggregation.cohort import Cohort, FloatArray, layers_of
from auricle_learning.aggregation.rules.fedvsa import limit_losses, softmax_share
from auricle_learning.methods import get_rule
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import LocalState, Trainer

CLIENTS, ATTACKER = 20, "client-07"
PACK: Pack = load_pack("digits")
MODEL = PACK.manifest.plugin
EPOCHS_OF_THE_ATTACK = 8


@dataclass
class PoisonedFleet:
    """The fleet between two rounds."""

    trainers: dict[str, Trainer]
    attack: Trainer
    """The attacker's clips with flipped labels."""
    weights: FloatArray
    """(P,) the model that the next round sends."""
    plan: Plan
    number: int = 0
    reference: float | None = None
    alarms: list[Alarm] = field(default_factory=list)
    cohort: Cohort | None = None
    """The last round's, the one that made `weights`."""

    def losses(self) -> dict[str, float]:
        """F_k(w^t) of every client: the first phase of a round."""
        return {client: trainer.inference_loss(self.weights) for client, trainer in self.trainers.items()}

    def play(self, attacked: bool = False) -> Alarm:
        """Play one two-phase round; where the alarm fires it ends there, and `cohort` is the suspected one."""
        losses = self.losses()
        verdict = alarm(losses, self.reference)
        self.alarms.append(verdict)
        self.reference = next_reference(self.reference, losses, verdict.fires)
        if not verdict.fires:
            self.cohort = self._train(losses, attacked)
            self.weights = get_rule("fedvsa")(self.cohort).weights
            self.number += 1
        return verdict

    def _train(self, losses: dict[str, float], attacked: bool) -> Cohort:
        ids = sorted(self.trainers)
        uploads = np.stack([self._update(self.trainers[client], self.plan) for client in ids])
        if attacked:
            bad = ids.index(ATTACKER)
            known = np.array([losses[client] for client in ids])
            share = softmax_share(limit_losses(known, clip=5.0, limit="clamp"), np.ones(len(ids), np.bool_))
            wanted = self._update(
                self.attack, Plan(mode="supervised", optimizer="adamw", rate=1e-2, epochs=EPOCHS_OF_THE_ATTACK)
            )
            others = np.arange(len(ids)) != bad
            uploads[bad] = replacement(self.weights, wanted, float(share[bad]), uploads[others], share[others])
        return Cohort.build(
            ids=ids,
            weights=uploads,
            samples=[len(self.trainers[client].data.train) for client in ids],
            losses=[losses[client] for client in ids],
            start=self.weights,
            layers=layers_of((spec.name, spec.size, spec.layer) for spec in PACK.plugin_table.specs),
        )

    def _update(self, trainer: Trainer, plan: Plan) -> FloatArray:
        return trainer.run(plan, self.number, self.weights, LocalState(self.weights)).plugin


def make_fleet(clips: Sequence[Clips], start: FloatArray | None, plan: Plan) -> PoisonedFleet:
    """A fleet of the clients that have these clips."""
    runtime = StepRuntime(PACK)
    none = Clips(np.zeros((0, 100, 40), np.float32), np.zeros(0, np.int64))

    def trainer(own: Clips) -> Trainer:
        return Trainer(runtime, MODEL, DeviceData(own, none, None), seed=0)

    trainers = {f"client-{place:02d}": trainer(own) for place, own in enumerate(clips)}
    own = trainers[ATTACKER].data.train
    attack = trainer(Clips(own.energies, flipped(own.targets, len(PACK.labels))))
    return PoisonedFleet(trainers, attack, PACK.plugin_table.initial(0) if start is None else start, plan)


def synthetic(per_client: int = 30, validation: int = 100) -> tuple[PoisonedFleet, ValidationSet]:
    """Ten sounds, each with mel bands and times of its own, in noise; every client is a little louder or softer."""
    rng = np.random.default_rng(0)
    patterns = rng.gamma(0.3, 1.0, (10, 10, 20)).repeat(10, axis=1).repeat(2, axis=2)

    def draw(count: int) -> Clips:
        targets = np.arange(count) % 10
        noise = rng.gamma(1.0, 1.0, (count, 100, 40))
        shifted = np.stack([np.roll(patterns[t], rng.integers(-4, 5), axis=0) for t in targets])
        return Clips((rng.gamma(2.0, 1.0) * (noise + 2 * shifted)).astype(np.float32), targets.astype(np.int64))

    plan = Plan(mode="supervised", optimizer="adamw", rate=1e-2, epochs=1)
    fleet = make_fleet([draw(per_client) for _ in range(CLIENTS)], None, plan)
    judged = draw(validation)
    return fleet, ValidationSet(LogMel(PACK.manifest.task).finish(judged.energies), judged.targets)


def recorded(folder: Path) -> tuple[PoisonedFleet, ValidationSet]:
    """The twenty speakers with most digits, and all others as the validation set."""
    speech = load_folder(folder, ",".join(PACK.labels), min_word_clips=1)
    split = split_by_speaker(speech, devices=CLIENTS, min_clips=8)
    frontend = LogMel(PACK.manifest.task)
    clips = [Clips(frontend.energies(speech.audio[d.clips]), speech.targets[d.clips]) for d in split.devices]
    plan = Plan(mode="supervised", rate=0.01, epochs=1)
    validation = ValidationSet(frontend(speech.audio[split.unseen]), speech.targets[split.unseen])
    return make_fleet(clips, first_weights(PACK, MODEL, 0), plan), validation
