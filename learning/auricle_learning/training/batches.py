"""A round's batches: labelled clips by their weights, and clips without labels as FixMatch takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle_learning.training.carried import Carried
from auricle_learning.training.speech_data import Clips

Array = NDArray[Any]
Features = Callable[[NDArray[np.float32]], Array]
"""Mel energies (B, T, mels) to log-mels (B, T, mels)."""


@dataclass(frozen=True, eq=False)
class EpochInputs:
    """What the batches of a pass are made of."""

    clips: Clips
    """With labels."""
    labels: int
    size: int
    """Of a batch."""
    rng: np.random.Generator
    plain: Features
    """Of clips as they are."""
    moved: Features
    """Moved in time alone."""
    strong: Features
    """Of other voices, levels and noises."""
    augment: bool
    """Whether clips with labels are changed so."""
    carried: Carried | None = None
    """Windows among them."""
    known: NDArray[np.float32] | None = None
    """(N, T, mels) log-mels of the clips as they are, where these are at hand."""

    @property
    def features(self) -> Features:
        """Of clips with labels."""
        return self.strong if self.augment else self.plain

    def batches(self) -> Iterator[dict[str, Array]]:
        """The clips with labels alone."""
        known = None if self.augment else self.known
        return batches(self.clips, self.labels, self.size, self.rng, self.features, self.carried, known)


@dataclass(frozen=True, eq=False)
class Pseudo:
    """Clips without labels, and what the received model is sure of (FixMatch; ALGORITHMS 5, A35, A36)."""

    clips: Clips
    """All of them; the targets are the teacher's, and each weighs 1."""
    sure: NDArray[np.int64]
    """(c,) positions of those whose largest posterior reaches the threshold."""
    loss: float = 0.0
    """f_u of the teacher itself: mean over all of -log max q where it is sure, 0 where it is not."""

    @property
    def share(self) -> float:
        """The sure clips as a share of all: what f_u's mean over the whole set leaves."""
        return len(self.sure) / max(len(self.clips), 1)


def pseudo_labelled(clips: Clips, logits: NDArray[np.float32], confidence: float) -> Pseudo:
    """Label clips by a teacher's logits (U, L) on their weak view.

    The label is the largest posterior's, of equal ones the lowest; it is believed from `confidence` on, inclusive.
    """
    z = logits.astype(np.float64)
    z = np.exp(z - z.max(axis=1, keepdims=True))
    posteriors = z / z.sum(axis=1, keepdims=True)
    (sure,) = np.nonzero(posteriors.max(axis=1) >= confidence)
    loss = -float(np.log(posteriors.max(axis=1)[sure]).sum()) / max(len(clips), 1)
    return Pseudo(Clips(clips.energies, posteriors.argmax(axis=1)), sure, loss)


def batches(
    clips: Clips,
    labels: int,
    size: int,
    rng: np.random.Generator,
    features: Features,
    carried: Carried | None = None,
    known: NDArray[np.float32] | None = None,
) -> Iterator[dict[str, Array]]:
    """One epoch of shuffled batches; the last, partial one is padded with samples of weight 0.

    The step graphs divide a batch's weights by their sum: a batch's loss is the weighted mean of its samples'.

    Parameters
    ----------
    carried
        Sound of which windows take the last places of each batch, other windows in each; together they weigh its
        `share` of the batch. Without, all places are the clips'.
    known
        What `features` makes of the clips, (N, T, mels), where that is at hand.
    """
    windows = 0 if carried is None else carried.places(size)
    if carried is not None and windows:
        for batch in batches(clips, labels, size - windows, rng, features, known=known):
            drawn = carried.draw(windows, rng)
            weight = float(batch["weight"].sum()) * carried.share / (1 - carried.share)
            yield {
                "x": np.concatenate([batch["x"], features(drawn.energies)]),
                "target": np.concatenate([batch["target"], np.eye(labels, dtype=np.float32)[drawn.targets]]),
                "weight": np.concatenate([batch["weight"], np.full(windows, weight / windows, np.float32)]),
            }
        return
    order = rng.permutation(len(clips))
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        # a partial one has its own clips again: a mean over the batch, as of a map, is one over these
        padded = chosen if len(chosen) == size else np.resize(chosen, size)
        yield {
            "x": features(clips.energies[padded]) if known is None else known[padded],
            "target": np.eye(labels, dtype=np.float32)[clips.targets[padded]],
            "weight": (np.arange(size) < len(chosen)).astype(np.float32) * clips.weights[padded],
        }


def mixed_batches(
    clips: Clips,
    pseudo: Pseudo,
    weight: float,
    labels: int,
    size: int,
    rng: np.random.Generator,
    features: Features,
    strong: Features,
    carried: Carried | None = None,
) -> Iterator[dict[str, Array]]:
    """One epoch over the labelled clips; the second half of each batch are sure clips, strongly augmented.

    With s the share of sure clips, a batch's weights are 1 for the labelled part and `weight` * s for the other one, so
    the graph's weighted mean is (f_s + weight * f_u) / (1 + weight * s): FixMatch's loss in its direction, with f_u a
    mean over all clips without labels of which the unsure ones add nothing. Windows of `carried` are in the labelled
    half.
    """
    half = size // 2
    others = _forever(pseudo.sure, rng)
    for labelled in batches(clips, labels, size - half, rng, features, carried):
        chosen = np.array([next(others) for _ in range(half)])
        target = np.eye(labels, dtype=np.float32)[pseudo.clips.targets[chosen]]
        yield {
            "x": np.concatenate([labelled["x"], strong(pseudo.clips.energies[chosen])]),
            "target": np.concatenate([labelled["target"], target]),
            "weight": np.concatenate(
                [_scaled(labelled["weight"], 1.0), _scaled(np.ones(half, np.float32), weight * pseudo.share)]
            ),
        }


def fixmatch_batches(
    clips: Clips,
    pseudo: Pseudo,
    labels: int,
    size: int,
    rng: np.random.Generator,
    features: Features,
    weak: Features,
    strong: Features,
    carried: Carried | None = None,
) -> Iterator[dict[str, Array]]:
    """One epoch over the labelled clips for a `fixmatch` graph, each batch with as many clips without labels."""
    others = _forever(np.arange(len(pseudo.clips)), rng)
    count = min(size, len(pseudo.clips))
    for labelled in batches(clips, labels, size, rng, features, carried):
        chosen = np.array([next(others) for _ in range(count)])
        padded = np.resize(chosen, size)
        energies = pseudo.clips.energies[padded]
        yield {
            **labelled,
            "weak": weak(energies),
            "strong": strong(energies),
            "weight.unlabelled": (np.arange(size) < count).astype(np.float32),
        }


def _forever(positions: NDArray[np.int64], rng: np.random.Generator) -> Iterator[int]:
    """Every position once in each turn, in another order each time."""
    while True:
        yield from rng.permutation(positions)


def _scaled(weights: Array, total: float) -> Array:
    """The weights with this sum; zeros stay zeros."""
    return (weights * (total / max(float(weights.sum()), 1e-12))).astype(np.float32)
