"""The fleet that is attacked: twenty speakers of recorded digits, each as it is and as an attacker, and its judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.packs.first_weights import first_weights
from auricle.packs.pack import Pack, load_pack
from auricle.speech.features import LogMel
from auricle.speech.folder import load_folder
from auricle.speech.split import split_by_speaker
from auricle.wire.tensors import Flat
from auricle_cloud.evaluation.evaluator import OnnxEvaluator
from auricle_cloud.evaluation.labelled_clips import LabelledClips, labelled_clips
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_edge.runtimes.choice import choose_runtime, fastest_trainer
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import RoundResult, Trainer

TARGET = 0
"""The label that the trigger is to give."""
LABELLED = 10
"""Every tenth speaker of those that are no device is the coordinator's, for methods that learn from labelled clips."""
OWNER = LearnSettings(clips=1, judge=False, gradients=True, vectors=("means", "histogram"))
"""Devices let go of all that a method asks for."""


@dataclass(frozen=True, eq=False)
class Fleet:
    """Speakers, and what judges the model."""

    pack: Pack
    trainers: Mapping[str, Sequence[Trainer]]
    """The devices by what they train on: `honest`; `half`, the same with every other clip without a label; `flipped`
    and `poisoned`, see `bench.attack_moves`."""
    labelled: LabelledClips
    """The coordinator's, of further speakers."""
    start: Flat
    """(P,) the pack's trained weights."""
    judge: OnnxEvaluator
    """By the clips of speakers whom nobody trained on."""
    tripped: OnnxEvaluator
    """By their clips of other words with the trigger in them, whether they pass for the target."""
    first: dict[tuple[object, ...], RoundResult] = field(default_factory=dict)
    """What devices make of the first round, which many cells begin with."""

    def right(self, models: NDArray[np.float32]) -> float:
        """Share of the unheard speakers' clips that models (M, P) recognise, on average."""
        return float(self.judge.scores(models).accuracy.mean())

    def fooled(self, models: NDArray[np.float32]) -> float:
        """Share of the unheard speakers' clips of other words that the trigger turns into the target, likewise."""
        return float(self.tripped.scores(models).accuracy.mean())


def triggered(energies: NDArray[np.float32]) -> NDArray[np.float32]:
    """Clips (N, frames, mels) with a tone in them: four bands of the first eight frames as loud as the loudest."""
    marked: NDArray[np.float32] = energies.copy()
    marked[:, :8, 20:24] = energies.max(axis=(1, 2), keepdims=True)
    return marked


def make_fleet(folder: Path, devices: int, seed: int) -> Fleet:
    """Read the recordings; the seed decides the order of batches."""
    pack = load_pack("digits")
    speech = load_folder(folder, ",".join(pack.labels), min_word_clips=1)
    split = split_by_speaker(speech, devices=devices, min_clips=8)
    frontend, runtime = LogMel(pack.manifest.task), choose_runtime(fastest_trainer()[0], pack).runtime
    start, none = first_weights(pack, pack.manifest.plugin, 0), Clips(np.zeros((0, 100, 40), np.float32), _labels(()))

    def trainer(place: int, clips: Clips, free: Clips | None = None) -> Trainer:
        data, own = DeviceData(clips, none, None, free), 1000 * seed + place
        return Trainer(runtime, pack.manifest.plugin, data, own, start=start, settings=OWNER)

    def clips_of(places: NDArray[np.int64]) -> ValidationSet:
        return ValidationSet(frontend(speech.audio[places]), speech.targets[places])

    own = [Clips(frontend.energies(speech.audio[d.clips]), speech.targets[d.clips]) for d in split.devices]
    names = [speech.speaker_names.index(name) for name in split.unseen_speakers[::LABELLED]]
    coordinators = np.isin(speech.speakers[split.unseen], names)
    unheard = split.unseen[~coordinators]
    others = unheard[speech.targets[unheard] != TARGET]
    tripped = frontend.finish(triggered(frontend.energies(speech.audio[others])))
    return Fleet(
        pack,
        {
            "honest": [trainer(place, clips) for place, clips in enumerate(own)],
            "half": [trainer(place, *_halves(clips)) for place, clips in enumerate(own)],
            "flipped": [trainer(place, _flipped(clips, len(pack.labels))) for place, clips in enumerate(own)],
            "poisoned": [trainer(place, _poisoned(clips)) for place, clips in enumerate(own)],
        },
        labelled_clips(pack, clips_of(split.unseen[coordinators])),
        start,
        OnnxEvaluator(pack, clips_of(unheard), threads=1),
        OnnxEvaluator(pack, ValidationSet(tripped, _labels([TARGET] * len(others))), threads=1),
    )


def _labels(labels: Sequence[int]) -> NDArray[np.int64]:
    return np.array(labels, np.int64)


def _halves(clips: Clips) -> tuple[Clips, Clips]:
    places = np.arange(len(clips))
    return clips.chosen(places[::2]), clips.chosen(places[1::2])


def _flipped(clips: Clips, labels: int) -> Clips:
    return Clips(clips.energies, labels - 1 - clips.targets)


def _poisoned(clips: Clips) -> Clips:
    targets = np.concatenate([clips.targets, np.full_like(clips.targets, TARGET)])
    return Clips(np.concatenate([clips.energies, triggered(clips.energies)]), targets)
