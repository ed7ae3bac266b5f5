"""What a round trains on and is judged by: bounded in memory by choice, balanced over the labels by weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.packs.manifest import SILENCE
from auricle.speech.features import LogMel
from auricle_edge.clips.choice import ClipSettings
from auricle_edge.clips.coding import Content, energies_of
from auricle_edge.clips.record import Clip, value
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.vector_shelf import clip_name

NO_LABEL = -1
"""Target of an unlabelled clip."""


@dataclass(frozen=True)
class TrainingSet:
    """Clips as arrays, and those that could not be read."""

    data: DeviceData
    unread: dict[str, DataError]
    """By id."""
    ids: dict[bytes, str]
    """Where the front-end has a network, of the clips by the names of their energies."""


def training_set(
    clips: Sequence[Clip], content: Callable[[Clip], Content], frontend: LogMel, settings: ClipSettings
) -> TrainingSet:
    """Choose, read and weigh.

    A part has at most `training_clips` clips, taken from the labels in turn, in each the most valuable and then the
    newest first: memory is bounded and a frequent label does not crowd out a rare one. What imbalance is left is taken
    by weights: a clip weighs w_i min(b, m / m_l), where w_i is the weight of its source, m_l the sum of these over its
    label, m their mean over the labels, b `largest_boost`; all are then scaled to mean 1. The held-out part is not
    weighted. Noise is what was kept of seconds in which nobody spoke and is not held out.

    Parameters
    ----------
    clips
        All that are kept; damaged ones, and those whose word the pack does not know, are left out.
    content
        Reads one; DataError where it is not whole.
    """
    labels = frontend.task.labels
    usable = [clip for clip in clips if not clip.damaged]
    labelled = [clip for clip in usable if clip.record.word in labels]
    reader = _Reader(content, frontend, {label: i for i, label in enumerate(labels)})
    train = reader.read(_choose((c for c in labelled if not c.record.held_out), settings.training_clips))
    held = reader.read(_choose((c for c in labelled if c.record.held_out), settings.training_clips))
    free = [clip for clip in usable if clip.record.source == "unlabelled"]
    unlabelled = reader.read(_choose(free, settings.training_clips))
    weights = balance(train.weights, train.targets, settings.largest_boost)
    quiet = labels.index(SILENCE) if SILENCE in labels else NO_LABEL
    noise = train.energies[train.targets == quiet]
    data = DeviceData(
        Clips(train.energies, train.targets, weights),
        Clips(held.energies, held.targets),
        noise.reshape(-1, noise.shape[2]) if len(noise) else None,
        unlabelled=unlabelled if len(unlabelled) else None,
    )
    return TrainingSet(data, reader.unread, reader.ids)


def balance(weights: NDArray[np.float32], targets: NDArray[np.int64], largest_boost: float) -> NDArray[np.float32]:
    """Weights (N,) under which every label counts the same, none boosted by more than `largest_boost`; mean 1."""
    if not len(weights) or not weights.any():
        return np.ones_like(weights)
    masses = np.bincount(targets, weights)
    present = masses > 0
    boost = np.zeros_like(masses)
    boost[present] = np.minimum(largest_boost, masses[present].mean() / masses[present])
    even = weights * boost[targets]
    scaled: NDArray[np.float32] = (even / even.mean()).astype(np.float32)
    return scaled


def _choose(clips: Iterable[Clip], most: int) -> list[Clip]:
    """At most so many clips, from the labels in turn."""
    best = sorted(clips, key=lambda c: (-value(c.record.source), -c.record.created, c.id))
    turn: dict[str | None, int] = {}
    order = []
    for clip in best:
        turn[clip.record.word] = turn.get(clip.record.word, 0) + 1
        order.append((turn[clip.record.word], clip.record.word or "", clip.id, clip))
    return [clip for *_, clip in sorted(order, key=lambda entry: entry[:3])[:most]]


class _Reader:
    """Reads clips one by one into arrays."""

    def __init__(self, content: Callable[[Clip], Content], frontend: LogMel, targets: dict[str, int]) -> None:
        self._content, self._frontend, self._targets = content, frontend, targets
        self.unread: dict[str, DataError] = {}
        self.ids: dict[bytes, str] = {}

    def read(self, clips: Sequence[Clip]) -> Clips:
        task = self._frontend.task
        energies = np.empty((len(clips), task.frames, task.frontend.mels), np.float32)
        kept: list[Clip] = []
        for clip in clips:
            try:
                energies[len(kept)] = energies_of(self._content(clip), self._frontend)
                if task.frontend.network is not UNSET:
                    self.ids.setdefault(clip_name(energies[len(kept)]), clip.id)
                kept.append(clip)
            except DataError as error:
                self.unread[clip.id] = error
        targets = np.array([self._targets.get(c.record.word or "", NO_LABEL) for c in kept], np.int64)
        weights = np.array([c.record.weight for c in kept], np.float32)
        return Clips(energies[: len(kept)], targets, weights)
