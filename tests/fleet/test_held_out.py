"""What devices' models recognise of their own held-out clips, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from auricle_fleet.population.held_out import HeldOutScore, fleet_score, macro_f1, newest_scores, score_labels


def test_macro_f1_is_the_mean_over_labels_that_are_there_or_recognised() -> None:
    targets, recognised = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 5])
    assert macro_f1(targets, recognised) == pytest.approx((2 / 3 + 2 / 4 + 0) / 3)
    assert score_labels(targets, recognised) == HeldOutScore(0.5, macro_f1(targets, recognised))
    assert macro_f1(targets, targets) == 1 and macro_f1(targets, targets + 2) == 0


def test_of_a_fleet_each_device_counts_with_its_newest() -> None:
    first = {name: {"own": HeldOutScore(0.0, 0.0)} for name in "ab"}
    later = {"a": {"own": HeldOutScore(1.0, 0.5)}, "c": {"received": HeldOutScore(0.25, 0.25)}}
    scores = newest_scores([first, later])
    own = fleet_score(scores, "own")
    assert own is not None and (own.accuracy, own.f1, own.devices) == (0.5, 0.25, 2)
    assert own.worst == pytest.approx(0.1)
    assert fleet_score(scores, "trained") is None
