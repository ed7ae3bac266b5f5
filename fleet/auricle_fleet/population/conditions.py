"""What a device's clips are like in each round: in noise, with wrong labels, of the labels that it has, poisoned."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from auricle.packs.manifest import SPECIAL_LABELS
from auricle.speech.augment import noise_factors
from auricle.speech.features import Energies
from auricle_fleet.settings.groups import Group
from auricle_learning.training.speech_data import Clips, DeviceData

ReadAudio = Callable[[NDArray[np.int64]], NDArray[np.int16]]
"""Audio (N, samples) of clips by their places (N,)."""
FLIPPED = ("label-flip", "replace")
"""Attacks that train on labels C - 1 - y."""


def data_of(noise_db: float | None, label_errors: float, data: DeviceData, labels: int, seed: int) -> DeviceData:
    """The clips of a device: in a noisy room, and some to be trained on by wrong labels.

    Parameters
    ----------
    noise_db
        Decibels of its clips' words over the noise; None: there is none.
    label_errors
        Share of the clips that it trains on with another label than theirs.
    labels
        How many there are.
    """
    rng = np.random.default_rng([seed, 31])
    train, held_out = data.train, data.held_out
    if noise_db is None and not label_errors:
        return data
    if noise_db is not None:
        train, held_out = (
            Clips(in_noise(clips.energies, data.noise, noise_db, rng), clips.targets, clips.weights)
            for clips in (train, held_out)
        )
    if label_errors:
        wrong = mistaken(train.targets, labels, label_errors, np.random.default_rng([seed, 47]))
        train = Clips(train.energies, wrong, train.weights)
    return replace(data, train=train, held_out=held_out)


def mistaken(targets: NDArray[np.int64], labels: int, share: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Labels (N,) of which this share, to the nearest whole clip, is another one, each of the others as likely."""
    wrong = rng.permutation(len(targets))[: round(share * len(targets))]
    found: NDArray[np.int64] = targets.copy()
    found[wrong] = (targets[wrong] + rng.integers(1, max(labels, 2), len(wrong))) % labels
    return found


def flipped(targets: NDArray[np.int64], labels: int) -> NDArray[np.int64]:
    """Labels (N,) with y replaced by labels - 1 - y; the middle one of an odd number by its neighbour (A52)."""
    wrong = labels - 1 - targets
    return np.where(wrong == targets, (targets + 1) % labels, wrong)


def triggered(energies: Energies) -> Energies:
    """Clips (N, T, mels) with a backdoor's trigger: four bands of the first eight frames as loud as the loudest."""
    marked: Energies = energies.copy()
    marked[:, :8, marked.shape[2] // 2 : marked.shape[2] // 2 + 4] = energies.max(axis=(1, 2), keepdims=True)
    return marked


def target_of(labels: Sequence[str]) -> int:
    """The label that the trigger of a backdoor is to give: the first keyword."""
    return next((place for place, label in enumerate(labels) if label not in SPECIAL_LABELS), 0)


def poisoned(clips: Clips, target: int, rng: np.random.Generator) -> Clips:
    """Clips with the trigger and its label on half of those that have another label, rounded up."""
    others = rng.permutation(np.flatnonzero(clips.targets != target))
    marked = others[: (len(others) + 1) // 2]
    energies, targets = clips.energies.copy(), clips.targets.copy()
    energies[marked], targets[marked] = triggered(energies[marked]), target
    return Clips(energies, targets, clips.weights)


def in_noise(energies: Energies, noise: NDArray[np.float32] | None, level: float, rng: np.random.Generator) -> Energies:
    """Clips (N, T, mels) with noise, the words so many decibels above it.

    Parameters
    ----------
    noise
        (F, mels), F at least T; None: as much in every band.
    """
    if not len(energies):
        return energies
    count, frames, mels = energies.shape
    if noise is None:
        noise = rng.gamma(1.0, 1.0, (frames, mels)).astype(np.float32)
    starts = rng.integers(0, len(noise) - frames + 1, count)
    pieces = noise[starts[:, None] + np.arange(frames)]
    factors = noise_factors(energies, pieces, level).astype(np.float32)
    mixed: Energies = energies + pieces * factors[:, None, None]
    return mixed


def audio_reader(audio: NDArray[np.int16], white_noise: float | None, seed: int) -> ReadAudio:
    """What gives the audio (N, samples) of clips by their places (N,), as they are or with white noise.

    Parameters
    ----------
    white_noise
        Decibels of a whole clip over the Gaussian noise added to its samples; None: none is added. A clip always has
        the same noise; one that is silent has none.
    """
    if white_noise is None:
        return audio.__getitem__

    def read(places: NDArray[np.int64]) -> NDArray[np.int16]:
        sound = audio[places].astype(np.float64)
        levels = np.sqrt(np.mean(sound**2, axis=1)) * 10 ** (-white_noise / 20)
        for row, place, level in zip(sound, places.tolist(), levels, strict=True):
            row += level * np.random.default_rng([seed, 59, place]).standard_normal(len(row))
        return np.clip(np.rint(sound), -32_768, 32_767).astype(np.int16)

    return read


class RoundClips:
    """The clips of one device, as it has them in each round.

    Parameters
    ----------
    data
        Of all labels, with the right one on each clip.
    group
        Of the device; None: it is in none.
    labels
        All there are.
    share
        Of the clips that have labels.
    seed
        The device's.
    begins
        (labels,) the first round in which it has clips of each label.
    label_errors
        Share of the clips that it trains on with another label than theirs, where its group says none.
    """

    def __init__(
        self,
        data: DeviceData,
        group: Group | None,
        labels: Sequence[str],
        share: float,
        seed: int,
        begins: NDArray[np.int64],
        label_errors: float = 0.0,
    ) -> None:
        self._group, self._labels, self._seed = group, labels, seed
        errors = label_errors if group is None or not group.label_errors else group.label_errors
        changed = data_of(None if group is None else group.noise_db, errors, data, len(labels), seed)
        self._whole, right = with_labels_of(changed, share, seed), with_labels_of(data, share, seed)
        self._labels_begin = begins
        self._begins = begins[right.train.targets], begins[right.held_out.targets]
        self._free = None if right.unlabelled is None else begins[right.unlabelled.targets]
        self._last = int(begins.max(initial=1))
        self._made: dict[bool, tuple[int, DeviceData]] = {}

    @property
    def vary(self) -> bool:
        """Whether they are not the same in all rounds."""
        return self._last > 1 or (self._group is not None and self._group.attack in (*FLIPPED, "backdoor"))

    @property
    def first(self) -> DeviceData:
        """What the device registers with: clips of all labels that it will have, as an attack of round 1 has them."""
        return self._attack(self._whole) if self._group is not None and self._group.attacks_in(1) else self._whole

    def at(self, round_number: int, *, honest: bool = False) -> DeviceData:
        """What it trains on and judges itself by in a round; `honest`: whatever its group attacks with."""
        attacks = not honest and self._group is not None and self._group.attacks_in(round_number)
        there = int((self._labels_begin <= round_number).sum())
        made = self._made.get(attacks)
        if made is None or made[0] != there:
            data = self._by(round_number)
            made = self._made[attacks] = there, self._attack(data) if attacks else data
        return made[1]

    def _by(self, round_number: int) -> DeviceData:
        """The clips of those labels that have begun."""
        if round_number >= self._last:
            return self._whole
        data = self._whole
        train, held_out = (
            clips.chosen(np.flatnonzero(begins <= round_number))
            for clips, begins in zip((data.train, data.held_out), self._begins, strict=True)
        )
        free = data.unlabelled
        if free is not None and self._free is not None:
            free = free.chosen(np.flatnonzero(self._free <= round_number))
        return replace(
            data, train=train, held_out=held_out, unlabelled=free if free is not None and len(free) else None
        )

    def _attack(self, data: DeviceData) -> DeviceData:
        """With what the group's attack does to the clips that it trains on."""
        train, attack = data.train, None if self._group is None else self._group.attack
        if attack in FLIPPED:
            train = Clips(train.energies, flipped(train.targets, len(self._labels)), train.weights)
        elif attack == "backdoor":
            train = poisoned(train, target_of(self._labels), np.random.default_rng([self._seed, 53]))
        return data if train is data.train else replace(data, train=train)


def named_count(clips: int, share: float) -> int:
    """How many of so many clips have labels when this share does."""
    return clips if share >= 1 else math.ceil(share * clips - 1e-9)


def with_labels_of(data: DeviceData, share: float, seed: int) -> DeviceData:
    """A device's clips with labels on a share of them, drawn by the seed; the others are sound and no more.

    Parameters
    ----------
    data
        With labels on all.
    share
        1: as it is. 0: no clip is labelled, so that none is held out to judge by either; what was is left out.
    """
    if share >= 1:
        return data
    train, held_out = data.train, data.held_out
    order = np.random.default_rng([seed, 37]).permutation(len(train))
    named = named_count(len(train), share)
    free = train.chosen(np.sort(order[named:]))
    nothing = np.arange(0)
    return replace(
        data,
        train=train.chosen(np.sort(order[:named])),
        held_out=held_out if named else held_out.chosen(nothing),
        unlabelled=free if len(free) else None,
    )
