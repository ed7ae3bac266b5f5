"""What the measurements of privacy share: ten recorded words, a first model, and devices that train on their clips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.packs.manifest import SPECIAL_LABELS
from auricle.packs.pack import Pack, load_pack
from auricle.speech.features import LogMel
from auricle.speech.folder import load_folders
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_cloud.evaluation.evaluator import OnnxEvaluator
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import LocalState, Trainer

PLAN = Plan(mode="supervised", epochs=2, rate=0.1, clip=5.0)


@dataclass(frozen=True)
class Speech:
    """Recordings of ten words, split by speaker."""

    pack: Pack
    energies: NDArray[np.float32]
    targets: NDArray[np.int64]
    speakers: NDArray[np.int64]
    unheard: NDArray[np.intp]
    """Clips of speakers that no device has."""
    heard: NDArray[np.intp]
    """All others."""

    @classmethod
    def read(cls, folders: Sequence[Path], unheard: int, seed: int = 0) -> Speech:
        """Read the command words of Speech Commands folders; so many speakers are left to judge by."""
        pack = load_pack("gsc12")
        words = [label for label in pack.labels if label not in SPECIAL_LABELS]
        speech = load_folders(list(folders), ",".join(words), min_word_clips=1)
        known = np.isin(speech.targets, [speech.labels.index(word) for word in words])
        places = {speech.labels.index(word): pack.labels.index(word) for word in words}
        targets = np.array([places[target] for target in speech.targets[known].tolist()], np.int64)
        speakers = speech.speakers[known]
        away = np.random.default_rng(seed).permutation(np.unique(speakers))[:unheard]
        is_away = np.isin(speakers, away)
        frontend, audio = LogMel(pack.manifest.task), speech.audio[known]
        energies = np.concatenate([frontend.energies(audio[at : at + 200]) for at in range(0, len(audio), 200)])
        return cls(pack, energies, targets, speakers, np.flatnonzero(is_away), np.flatnonzero(~is_away))

    @cached_property
    def runtime(self) -> StepRuntime:
        """Trains the plug-in."""
        return StepRuntime(self.pack)

    def evaluator(self, clips: NDArray[np.intp]) -> OnnxEvaluator:
        """Judges a model on these clips."""
        features = LogMel(self.pack.manifest.task).finish(self.energies[clips])
        return OnnxEvaluator(self.pack, ValidationSet(features, self.targets[clips]), threads=1)

    def trained(self, weights: Flat, clips: NDArray[np.intp], number: int, seed: int, plan: Plan = PLAN) -> Flat:
        """A device's plug-in after a round on its clips."""
        none = Clips(self.energies[:0], self.targets[:0])
        data = DeviceData(Clips(self.energies[clips], self.targets[clips]), none, None)
        trainer = Trainer(self.runtime, self.pack.manifest.plugin, data, seed=seed)
        return trainer.run(plan, number, weights, LocalState(weights)).plugin

    def first(self, clips: NDArray[np.intp], rounds: int, devices: int = 10) -> Flat:
        """A model that has learnt a part of the clips already, without noise: as after trials with consent."""
        weights, draw = self.pack.plugin_table.initial(0), np.random.default_rng(1)
        parts = np.array_split(draw.permutation(clips), devices)
        for number in range(rounds):
            moved = [self.trained(weights, part, number, place) for place, part in enumerate(parts)]
            weights = np.mean(moved, axis=0, dtype=np.float64).astype(np.float32)
        return weights
