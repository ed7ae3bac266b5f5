"""What a round teaches with clips without labels where its plan asks for FixMatch (FedRPO; ALGORITHMS 5, A35, A36).

f = f_s + λ f_u: f_s the mean cross-entropy of weakly augmented clips with labels, f_u the mean over all clips without
labels of 1[max q >= τ] CE(argmax q, p(strong)), q the received model's answer to the weak view. A device without labels
has f_u alone. The pack's `fixmatch` step graph is that loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.speech.augment import Augmentation
from auricle.wire.plan import FixMatch, Plan
from auricle_learning.methods.method import NO_CHANGES, JobChanges
from auricle_learning.methods.passes import graph_optimizer, terms_of
from auricle_learning.training.batches import (
    EpochInputs,
    Features,
    Pseudo,
    batches,
    fixmatch_batches,
    mixed_batches,
    pseudo_labelled,
)
from auricle_learning.training.carried import Carried
from auricle_learning.training.mechanism import DeviceRound, Mechanism
from auricle_learning.training.speech_data import Clips

Array = NDArray[Any]

WEAK = Augmentation(tempo=0.0, warp=0.0, gain_db=0.0, noise_probability=0.0, time_masks=0, mel_masks=0)
"""The weak view: moved in time by up to 10 frames, and nothing else."""


class Unlabelled(Mechanism):
    """The received model teaches clips without labels: with the plan's τ and λ, or else the device's own.

    Its owner turns it off with λ = 0.
    """

    def __init__(self, of: DeviceRound) -> None:
        self._plugin, self._runtime, self._settings = of.plugin, of.runtime, of.settings
        self._pseudo = self._pseudo_labels(of)
        if self._pseudo is not None:
            self.loss, self.sure = self._pseudo.loss, len(self._pseudo.sure)

    def _pseudo_labels(self, of: DeviceRound) -> Pseudo | None:
        """The clips without labels, labelled by the received model; None where they can teach nothing."""
        clips, plan = of.data.unlabelled, of.plan
        if clips is None or not len(clips) or not self._settings.unlabelled:
            return None
        pseudo = pseudo_labelled(clips, of.logits(clips), self._taught(plan).threshold)
        # a graph of the round's own may be sure of weak views where nothing is sure as it is
        views = plan.fixmatch and (self._has_graph(plan) or not len(of.data.train))
        return pseudo if len(pseudo.sure) or views else None

    def _taught(self, plan: Plan) -> FixMatch:
        return plan.fixmatch or FixMatch(threshold=self._settings.confidence, weight=self._settings.unlabelled)

    def _has_graph(self, plan: Plan, changes: JobChanges = NO_CHANGES) -> bool:
        """Whether a round has a step graph of its own: none has a term of the gradient, the plan's or the method's."""
        fits = plan.mode == "supervised" and not terms_of(plan, changes)
        return fits and self._runtime.has("fixmatch", self._runtime.pack.manifest.plugin, graph_optimizer(plan))

    def changes(self, place: int, plan: Plan, changes: JobChanges) -> JobChanges:
        """Train on both kinds of clips: by a graph of FixMatch's loss, or else by batches that come close to it."""
        pseudo, asked, taught = self._pseudo, bool(plan.fixmatch), self._taught(plan)
        if pseudo is None:
            return replace(changes, batches=_weak_batches) if asked else changes
        plain = changes.trains == "plugin" and changes.kind is None
        if not plain or not self._has_graph(plan, changes):
            return replace(changes, batches=partial(_joint_batches, pseudo, taught.weight, weak=asked))
        return replace(
            changes,
            kind="fixmatch",
            vectors={"teacher": self._plugin},
            scalars={**changes.scalars, "threshold": taught.threshold, "lambda": taught.weight},
            batches=partial(_two_views if asked else _beside, pseudo),
        )


def _weak_batches(of: EpochInputs) -> Iterator[dict[str, Array]]:
    """Clips with labels, weakly augmented."""
    return batches(of.clips, of.labels, of.size, of.rng, of.moved, of.carried)


def _joint_batches(pseudo: Pseudo, weight: float, of: EpochInputs, *, weak: bool) -> Iterator[dict[str, Array]]:
    """Both kinds of clips for a graph that knows nothing of labels that are missing."""
    if not len(of.clips):
        return batches(pseudo.clips.chosen(pseudo.sure), of.labels, of.size, of.rng, of.strong)
    features = of.moved if weak else of.features
    return mixed_batches(of.clips, pseudo, weight, of.labels, of.size, of.rng, features, of.strong, of.carried)


def _two_views(pseudo: Pseudo, of: EpochInputs) -> Iterator[dict[str, Array]]:
    return two_view_batches(of.clips, pseudo.clips, of.labels, of.size, of.rng, of.moved, of.strong, of.carried)


def _beside(pseudo: Pseudo, of: EpochInputs) -> Iterator[dict[str, Array]]:
    """Labelled clips as often as without the others, which only come along."""
    if not len(of.clips):
        return _joint_batches(pseudo, 0.0, of, weak=False)
    how = of.labels, of.size, of.rng, of.features, of.plain, of.strong
    return fixmatch_batches(of.clips, pseudo, *how, of.carried)


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
    """EpochInputs after epoch."""
    while True:
        yield from epoch()
