"""PKCF on a device (MuPFL, eq. 16, 21): it tunes its classifier before it trains, and says gradients by class after."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle.wire.plan import Plan
from auricle.wire.prior_knowledge import PriorKnowledge, class_gradient, classifier_epoch, in_turn, split_classifier
from auricle.wire.tensors import Flat
from auricle_learning.methods.method import JobChanges
from auricle_learning.methods.vectors import GRADIENTS
from auricle_learning.training.mechanism import DeviceRound, Mechanism

log = logging.getLogger("auricle.edge")


def tuned(plugin: Flat, prior: PriorKnowledge | None, checkpoint: Callable[[], bool] = lambda: False) -> Flat:
    """The plug-in (P,) with its classifier trained on the coordinator's features: v <- v - rate ∇ mean CE(H, labels).

    The features are taken in turn, one of each class and then the next of each, so that a step sees all classes alike;
    the body of the model stays as it was. Without any feature it is the plug-in as it came.

    Parameters
    ----------
    plugin, prior
        What was received, and what was lent beside it; without the latter the plug-in stays as it came.
    checkpoint
        Called before every epoch. It may wait, and says whether the round is over: what is left is then left out.

    Raises
    ------
    AuricleError
        A weight is not finite any more.
    """
    if prior is None:
        return plugin
    features, labels = in_turn(prior.features, prior.labels)
    weight, bias = split_classifier(plugin[-prior.classifier.size :], prior.classes)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(prior.tuning.epochs if len(features) else 0):
            if checkpoint():
                break
            weight, bias = classifier_epoch(weight, bias, features, labels, prior.tuning.rate)
        found: Flat = plugin.copy()
        found[-prior.classifier.size :] = np.concatenate([weight.ravel(), bias])
    if not np.isfinite(found).all():
        raise AuricleError("Tuning the classifier on what the coordinator lent gave weights that are not finite.")
    return found


def said_gradients(
    seen: Iterator[NDArray[np.float32]],
    targets: NDArray[np.int64],
    prior: PriorKnowledge,
    checkpoint: Callable[[], bool] = lambda: False,
) -> Flat | None:
    """What a device says of its clips, see `class_gradients`; None where it takes part in the round without.

    That is where the runtime or the pack cannot give what the classifier sees, which a line of the log says, or where
    the round is over.

    Parameters
    ----------
    seen
        Makes pieces (n, d) of what the classifier sees of its clips, one after the other.
    targets, prior
        As of `class_gradients`.
    checkpoint
        Called before every piece. It may wait, and says whether the round is over.
    """
    pieces = []
    while True:
        if checkpoint():
            return None
        try:
            pieces.append(next(seen))
        except StopIteration:
            return class_gradients(np.concatenate(pieces), targets, prior)
        except AuricleError as error:
            log.warning("this round goes without gradients of the classifier: %s", error)
            return None


def class_gradients(features: NDArray[np.float32], targets: NDArray[np.int64], prior: PriorKnowledge) -> Flat:
    """The gradients (C (C d + C),) of the coordinator's classifier on a device's clips, a class after the other.

    Parameters
    ----------
    features, targets
        (N, d) what the classifier sees of its clips with a label, and these labels (N,). A class without a clip has
        zeros, which say nothing of it; so has a number that is not finite, of a model that diverged.
    prior
        Has the classifier at which they are taken, which the coordinator chooses (docs/privacy.md).
    """
    weight, bias = split_classifier(prior.classifier, prior.classes)
    found = np.zeros((prior.classes, prior.classifier.size))
    for label in np.unique(targets):
        found[label] = class_gradient(features[targets == label].astype(np.float64), int(label), weight, bias)
    return np.nan_to_num(found, posinf=0.0, neginf=0.0).astype(np.float32).ravel()


class ClassifierTuning(Mechanism):
    """PKCF in a round on a device: nothing where the round lends nothing."""

    def __init__(self, of: DeviceRound) -> None:
        self._round = of

    def changes(self, place: int, plan: Plan, changes: JobChanges) -> JobChanges:
        """Tune the classifier before the first pass."""
        prior, checkpoint = self._round.lent.prior, self._round.checkpoint
        if prior is None or place:
            return changes
        return replace(changes, tune=lambda begin: tuned(begin, prior, checkpoint))

    def vectors(self, trained: Flat) -> Mapping[str, Flat]:
        """The classifier's gradients by class on the clips with a label, where the owner gives them away."""
        of, prior = self._round, self._round.lent.prior
        if prior is None or GRADIENTS.allowed_by not in of.settings.allowed:
            return {}
        see = partial(of.runtime.embeddings, of.runtime.pack.manifest.plugin, trained)
        clips = of.data.train
        gradients = said_gradients(map(see, of.features(clips)), clips.targets, prior, of.checkpoint)
        return {} if gradients is None else {GRADIENTS.name: gradients}
