"""What the models of a device recognise of its own held-out clips, and what that comes to over a fleet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

ModelRole = Literal["received", "trained", "own"]
MODELS: tuple[ModelRole, ...] = ("received", "trained", "own")
"""The shared model as a round brings it, the same after local training, and the model that the device would use: its
own, or else the trained one."""
WORST_PERCENTILE = 10
"""Percentile of the devices that stands for the worst of them."""


class HeldOutScore(msgspec.Struct, frozen=True):
    """Of one model on the held-out clips of one device."""

    accuracy: float
    f1: float
    """Macro F1, see `macro_f1`."""


DeviceScores = dict[str, dict[ModelRole, HeldOutScore]]
"""Of devices by name, of each of its models."""


class FleetScore(msgspec.Struct, frozen=True, kw_only=True):
    """Of one model over all devices that have taken part, each with its newest."""

    accuracy: float
    """Mean of the devices."""
    worst: float
    """Percentile `WORST_PERCENTILE` of their accuracies, between two of them in proportion."""
    f1: float
    """Mean of the devices' macro F1."""
    devices: int


def macro_f1(targets: NDArray[np.int64], recognised: NDArray[np.int64]) -> float:
    """Mean over labels of F1 = 2 TP / (2 TP + FP + FN), of labels that are in the targets (H,) or recognised (H,).

    A label that is in neither has no F1 and does not count. H is 1 or more.
    """
    labels = np.union1d(targets, recognised)
    right = np.array([np.sum((targets == label) & (recognised == label)) for label in labels])
    said = np.array([np.sum(targets == label) + np.sum(recognised == label) for label in labels])
    return float(np.mean(2 * right / said))


def score_labels(targets: NDArray[np.int64], recognised: NDArray[np.int64]) -> HeldOutScore:
    """Accuracy and macro F1 of labels (H,) beside those that are right (H,), H 1 or more."""
    return HeldOutScore(float(np.mean(targets == recognised)), macro_f1(targets, recognised))


def newest_scores(by_round: Iterable[DeviceScores]) -> DeviceScores:
    """The newest scores of each device, of those of all rounds in their order."""
    newest: DeviceScores = {}
    for scores in by_round:
        newest.update(scores)
    return newest


def fleet_score(scores: DeviceScores, model: ModelRole) -> FleetScore | None:
    """What one model comes to over the devices; None where none has one."""
    each_device = [each[model] for each in scores.values() if model in each]
    if not each_device:
        return None
    accuracies = [each.accuracy for each in each_device]
    return FleetScore(
        accuracy=float(np.mean(accuracies)),
        worst=float(np.percentile(accuracies, WORST_PERCENTILE)),
        f1=float(np.mean([each.f1 for each in each_device])),
        devices=len(each_device),
    )
