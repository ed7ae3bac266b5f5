"""Which model judges, and which thresholds: counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from auricle_edge.listening.detect.recognisers import Candidate, Merit, both, choose_model, merit

LABELS = ("yes", "no", "_unknown_")


def _candidate(name: str, rows: list[list[float]], cost: int = 1, *, trained: bool = True) -> Candidate:
    posteriors = np.array(rows, np.float32)
    return Candidate(name, lambda features: posteriors, cost, trained)


TARGETS = np.array([0] * 6 + [1] * 6 + [2] * 4)
FEATURES = np.zeros((16, 2, 2), np.float32)
RIGHT = [[0.9, 0.1, 0.0]] * 6 + [[0.1, 0.9, 0.0]] * 6 + [[0.1, 0.1, 0.8]] * 4


def test_hits_and_false_accepts_are_counted_at_the_threshold() -> None:
    """Of three keywords one is heard, one is not sure enough, one is another word; one of two others is accepted."""
    posteriors = np.array([[0.9, 0.1, 0], [0.4, 0.3, 0.3], [0.8, 0.2, 0], [0.6, 0.1, 0.3], [0.4, 0.3, 0.3]], np.float32)
    counted = merit(posteriors, np.array([0, 0, 1, 2, 2]), LABELS, 0.5)
    assert counted == Merit(hits=1, keywords=3, false_accepts=1, others=2)
    assert counted.value == pytest.approx(1 / 3 - 1 / 2)


def test_the_best_on_held_out_clips_is_taken_and_said_why() -> None:
    """The plug-in takes two of four other sounds for a word; the device's own misses one of twelve words."""
    plugin = _candidate("plugin", [*RIGHT[:14], [0.9, 0.1, 0], [0.1, 0.9, 0]])
    personal = _candidate("personal", [[0.0, 0.1, 0.9], *RIGHT[1:]], 3)
    choice = choose_model([personal, plugin], FEATURES, TARGETS, LABELS)
    assert choice.candidate.name == "personal"
    assert choice.reason == (
        "Best on held-out clips: personal hears 11 of 12 keywords and 0 of 4 other sounds as one; "
        "plugin hears 12 of 12 keywords and 2 of 4 other sounds as one."
    )
    assert choice.merits["plugin"].value == 0.5


def test_of_equals_the_cheapest_is_taken() -> None:
    """An ensemble that is no better is not worth its time."""
    plugin, personal = _candidate("plugin", RIGHT, 26_572), _candidate("personal", RIGHT, 71_564)
    choice = choose_model([both(personal, plugin), personal, plugin], FEATURES, TARGETS, LABELS)
    assert choice.candidate is plugin
    assert choice.reason.startswith("As good and cheaper on held-out clips: plugin hears 12 of 12")


def test_both_together_may_be_better_than_each() -> None:
    """Each is wrong about another clip, and sure where it is right."""
    one = _candidate("personal", [[0.3, 0.7, 0.0], *RIGHT[1:]])
    other = _candidate("plugin", [RIGHT[0], [0.3, 0.7, 0.0], *RIGHT[2:]])
    choice = choose_model([one, other, both(one, other)], FEATURES, TARGETS, LABELS)
    assert (choice.candidate.name, choice.merits["ensemble"].hits, choice.candidate.cost) == ("ensemble", 12, 2)


def test_with_too_few_clips_the_plugin_judges_if_it_was_trained() -> None:
    """Nine clips say nothing; an untrained plug-in says less."""
    few = TARGETS[:9]
    personal, plugin = _candidate("personal", RIGHT), _candidate("plugin", RIGHT)
    choice = choose_model([personal, plugin, both(personal, plugin)], FEATURES[:9], few, LABELS)
    assert (choice.candidate.name, choice.merits) == ("plugin", {})
    assert (
        choice.reason == "The model plugin listens, since it comes trained: "
        "9 of 10 held-out keyword clips are too few to compare models."
    )
    scratch = _candidate("plugin", RIGHT, trained=False)
    assert choose_model([scratch, personal], FEATURES[:9], few, LABELS).candidate.name == "personal"


def test_without_other_sounds_the_hits_decide() -> None:
    """And the reason says that nothing else was tried."""
    better, worse = _candidate("personal", RIGHT[:12]), _candidate("plugin", [[0.0, 0.0, 1.0]] * 12)
    choice = choose_model([worse, better], FEATURES[:12], TARGETS[:12], LABELS)
    assert choice.candidate is better
    assert "there is no other sound to try" in choice.reason
