"""What a round teaches with clips without labels where its plan asks for FixMatch (FedRPO; ALGORITHMS 5, A35, A36).

f = f_s + λ f_u: f_s the mean cross-entropy of weakly augmented clips with labels, f_u the mean over all clips without
labels of 1[max q >= τ] CE(argmax q, p(strong)), q the received model's answer to the weak view. A device without labels
has f_u alone. The pack's `fixmatch` step graph is that loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.speech.augment import Augmentation
from auricle.wire.plan import FixMatch, Plan
from auricle_learning.methods.method import NO_CHANGES, JobChanges
from auricle_learning.methods.passes import graph_optimizer, terms_of
from auricle_learning.runtimes import Runtime
from auricle_learning.training.batches import Features, Pseudo, batches, pseudo_labelled
from auricle_learning.training.carried import Carried
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import Clips, DeviceData

Array = NDArray[Any]

WEAK = Augmentation(tempo=0.0, warp=0.0, gain_db=0.0, noise_probability=0.0, time_masks=0, mel_masks=0)
"""The weak view: moved in time by up to 10 frames, and nothing else."""


def taught_by(plan: Plan, settings: LearnSettings) -> FixMatch | None:
    """τ and λ of a round: the plan's, or else the device's own; None where its owner has λ = 0."""
    if not settings.unlabelled:
        return None
    return plan.fixmatch or FixMatch(threshold=settings.confidence, weight=settings.unlabelled)


@dataclass(frozen=True)
class Count:
    """The clips that a device trains on in a round."""

    labelled: int
    unlabelled: int
    """Counted only where the plan asks for FixMatch: elsewhere a device speaks of its labelled clips alone."""

    @property
    def all(self) -> int:
        """Of both kinds."""
        return self.labelled + self.unlabelled


def counted(plan: Plan | None, settings: LearnSettings, data: DeviceData) -> Count:
    """Count a round's clips; without a plan those with labels."""
    free = 0 if data.unlabelled is None else len(data.unlabelled)
    asked = plan is not None and plan.fixmatch and settings.unlabelled
    return Count(len(data.train), free if asked else 0)


def has_graph(runtime: Runtime, plan: Plan, changes: JobChanges = NO_CHANGES) -> bool:
    """Whether a plan's round with clips without labels has a step graph of its own.

    None has a term of the gradient besides, neither the plan's nor those that the round's method brings.
    """
    fits = plan.mode == "supervised" and not terms_of(plan, changes)
    return fits and runtime.has("fixmatch", runtime.pack.manifest.plugin, graph_optimizer(plan))


def labelled_by(
    logits: Callable[[Clips], NDArray[np.float32]],
    plan: Plan,
    settings: LearnSettings,
    data: DeviceData,
    *,
    graph: bool,
) -> Pseudo | None:
    """A device's clips without labels, labelled by the received model; None where they can teach nothing.

    Parameters
    ----------
    logits
        Of the received model for clips as they are.
    graph
        Whether the round has a graph of its own, which may be sure of weak views where nothing is sure as it is.
    """
    clips, taught = data.unlabelled, taught_by(plan, settings)
    if clips is None or not len(clips) or taught is None:
        return None
    pseudo = pseudo_labelled(clips, logits(clips), taught.threshold)
    return pseudo if len(pseudo.sure) or (plan.fixmatch and (graph or not len(data.train))) else None


def two_view_batches(
    clips: Clips,
    free: Clips,
    labels: int,
    size: int,
    rng: np.random.Generator,
    weak: Features,
    strong: Features,
    carried: Carried | None = None,
) -> Iterator[dict[str, Array]]:
    """One epoch for a `fixmatch` graph: every clip of the larger set once, those of the other one as often as fits.

    Padding weighs 0, and so does the labelled half of a device without labels, whose loss is then λ f_u.

    Parameters
    ----------
    clips, free
        With labels, and without: one of them may be empty. Targets of the latter mean nothing.
    labels, size
        Of the task, and of a batch.
    weak, strong
        Augmented features of mel energies.
    carried
        Windows among the labelled clips; of a device without labels there are none.
    """
    places = size - (0 if carried is None else carried.places(size))
    most = max(math.ceil(len(clips) / places), math.ceil(len(free) / size))
    views = _again(lambda: _views(free, size, rng, weak, strong))
    if not len(clips):
        for view in islice(views, most):
            nothing = {"target": np.zeros((size, labels), np.float32), "weight": np.zeros(size, np.float32)}
            yield {**view, "x": view["weak"], **nothing}
        return
    labelled = _again(lambda: batches(clips, labels, size, rng, weak, carried))
    for own, view in islice(zip(labelled, views, strict=False), most):
        yield {**own, **view}


def _views(
    free: Clips, size: int, rng: np.random.Generator, weak: Features, strong: Features
) -> Iterator[dict[str, Array]]:
    """Both views of every clip once; the last batch is filled up with clips of weight 0."""
    order = rng.permutation(len(free))
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        energies = free.energies[np.concatenate([chosen, np.zeros(size - len(chosen), chosen.dtype)])]
        weight = (np.arange(size) < len(chosen)).astype(np.float32)
        yield {"weak": weak(energies), "strong": strong(energies), "weight.unlabelled": weight}


def _again(epoch: Callable[[], Iterator[dict[str, Array]]]) -> Iterator[dict[str, Array]]:
    """Epoch after epoch."""
    while True:
        yield from epoch()
