"""Precision of keywords at given recalls, and what else a run keeps for the tables of a suite."""

from __future__ import annotations

import numpy as np
import pytest
from tests.core.bare_pack import bare_pack

from auricle_fleet.population.attacks import Attackers, attackers
from auricle_fleet.population.data import FleetData
from auricle_fleet.population.fleet_clips import FleetClips
from auricle_fleet.population.judging import RECALLS, keyword_precision
from auricle_fleet.settings.groups import Group
from auricle_learning.training.speech_data import Clips, DeviceData

LABELS = ("yes", "no", "_unknown_", "_silence_")


def posteriors(*rows: tuple[float, float, float, float]) -> np.ndarray:
    return np.log(np.array(rows, np.float32))


def at(recall: float, precision: tuple[float | None, ...] | None) -> float | None:
    assert precision is not None
    return precision[round(recall * 20) - 1]


def test_precision_of_a_keyword_is_told_at_the_highest_threshold_that_reaches_a_recall() -> None:
    """Of "yes" 0.9 right, 0.8 an other word, 0.6 "no", 0.5 right; of "no" 0.7 right, 0.4 an other word, 0.2 twice."""
    logits = posteriors(
        (0.9, 0.05, 0.03, 0.02),
        (0.8, 0.4, 0.05, 0.05),
        (0.1, 0.7, 0.1, 0.1),
        (0.6, 0.2, 0.1, 0.1),
        (0.5, 0.1, 0.3, 0.1),
        (0.1, 0.2, 0.6, 0.1),
    )
    found = keyword_precision(logits, np.array([0, 2, 1, 1, 0, 1]), LABELS)
    assert at(0.3, found) == 1
    assert at(0.4, found) == at(0.5, found) == pytest.approx((1 + 3 / 4) / 2)
    assert at(0.55, found) == at(1.0, found) == pytest.approx((2 / 4 + 3 / 4) / 2)
    assert found is not None and len(found) == len(RECALLS) == 20


def test_clips_of_the_same_score_are_accepted_together_in_any_order() -> None:
    same = (0.6, 0.2, 0.1, 0.1)
    for targets in ([0, 2], [2, 0]):
        found = keyword_precision(posteriors(same, same), np.array(targets), LABELS)
        assert found == (0.5,) * 20
    assert keyword_precision(posteriors(same), np.array([2]), LABELS) is None
    assert keyword_precision(np.zeros((1, 4), np.float32) + 1000, np.array([0]), LABELS) == (1.0,) * 20


def test_training_clips_are_counted_by_label_however_they_lie() -> None:
    pack = bare_pack("gsc12")
    energies = np.zeros((6, 1, 1), np.float32)
    unseen = Clips(energies[:0], np.zeros(0, np.int64))
    targets = np.array([0, 1, 1, 2, 5, 5])

    def counted(devices: object) -> list[int]:
        data = FleetData(pack, devices, unseen, 0, np.zeros(0, np.int64), ())  # type: ignore[arg-type]
        assert data.label_clips.sum() == data.training_clips
        return data.label_clips.tolist()

    bounds = np.array([[0, 2, 3], [3, 3, 4], [4, 6, 6]])  # holds out the third and the fourth
    assert counted(FleetClips(energies, targets, ("a", "b", "c"), bounds)) == [1, 1, 0, 0, 0, 2, *[0] * 6]
    shared = FleetClips(energies, targets, ("a", "b", "c"), bounds, order=np.array([1, 1, 0, 0, 3, 1]))
    assert counted(shared) == [0, 3, 1, *[0] * 9]
    plain = (("a", DeviceData(Clips(energies[:2], targets[:2]), Clips(energies[2:], targets[2:]), None)),)
    assert counted(plain) == [1, 1, *[0] * 10]


def test_the_devices_of_groups_that_attack_are_named() -> None:
    once = Group(name="once", count=2, attack="replace", attack_rounds=(3, 9))
    noisy, always = Group(name="noisy", noise_db=5.0), Group(name="always", attack="sign-flip")
    found = attackers(["a", "b", "c", "d", "e"], [once, None, noisy, once, always])
    assert found == (
        Attackers(group="once", devices=("a", "d"), rounds=(3, 9)),
        Attackers(group="always", devices=("e",)),
    )
    assert [n for n in (1, 3, 9) if found[0].attack_in(n)] == [3, 9] and found[1].attack_in(7)
