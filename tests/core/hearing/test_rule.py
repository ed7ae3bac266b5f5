"""The rule over a whole stream gives what the detector's own decider gives, hop by hop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from auricle.errors import DataError
from auricle.hearing.rule import Rule, detect, smooth
from auricle_edge.listening.detect import DetectSettings
from auricle_edge.listening.detect.decision import Decider

LABELS = ("yes", "_unknown_", "no", "up", "_silence_")
LEVELS = np.array([0.0, 0.2, 0.35, 0.5, 0.7, 1.0])


def decided(posteriors: np.ndarray, threshold: float | dict[str, float], rule: Rule) -> list[tuple[int, int, float]]:
    """Hop, label and score of each detection of the decider itself."""
    by_word = threshold if isinstance(threshold, dict) else dict.fromkeys(("yes", "no", "up"), threshold)
    chosen = DetectSettings(
        smoothing=rule.smoothing, patience=rule.patience, refractory=rule.refractory, hop=rule.hop, thresholds=by_word
    )
    decider = Decider(LABELS, chosen)
    steps = ((hop, decider.step(row)) for hop, row in enumerate(posteriors))
    return [(hop, *step) for hop, step in steps if step is not None]


def swept(posteriors: np.ndarray, thresholds: np.ndarray, rule: Rule) -> list[list[tuple[int, int, float]]]:
    """The same of the rule, for each threshold."""
    found = detect(posteriors, LABELS, thresholds, rule)
    rows = [found.only(found.threshold == number) for number in range(len(thresholds))]
    return [list(zip(r.hop.tolist(), r.label.tolist(), r.score.tolist(), strict=True)) for r in rows]


@settings(max_examples=150, deadline=None)
@given(
    arrays(np.float32, st.tuples(st.integers(0, 60), st.just(5)), elements=st.floats(0, 1, width=32)),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from((0.0, 0.1, 0.4, 1.0)),
)
@pytest.mark.slow
def test_it_hears_what_the_decider_hears(rows: np.ndarray, smoothing: int, patience: int, refractory: float) -> None:
    """To the last bit of the score, at every threshold, those of 0 and 1 among them."""
    rule = Rule(0.1, smoothing, patience, refractory)
    assert swept(rows, LEVELS, rule) == [decided(rows, float(level), rule) for level in LEVELS]


def test_it_hears_what_the_decider_hears_of_slow_posteriors() -> None:
    """Long rises, that the random rows above seldom have; a closed gate is a row of zeros."""
    rng = np.random.default_rng(1)
    walk = np.cumsum(rng.normal(0, 0.6, (3_000, 5)), axis=0)
    walk -= np.array([walk[max(0, i - 40) : i + 1].mean(axis=0) for i in range(len(walk))])
    rows = (np.exp(walk) / np.exp(walk).sum(axis=1, keepdims=True)).astype(np.float32)
    rows[rng.random(len(rows)) < 0.03] = 0
    rule = Rule()
    found = swept(rows, LEVELS, rule)
    assert sum(map(len, found)) > 100
    assert found == [decided(rows, float(level), rule) for level in LEVELS]


def test_averages_are_added_up_in_the_deciders_order() -> None:
    """Of numbers so far apart that the order of a sum decides its last bit."""
    rng = np.random.default_rng(3)
    rows = np.ldexp(np.float32(1), rng.integers(-60, 1, (60, 5))).astype(np.float32)
    for window in (1, 2, 3, 4):
        decider, averages = Decider(LABELS, DetectSettings(smoothing=window)), []
        for row in rows:
            decider.step(row)
            averages.append(decider.smoothed)
        np.testing.assert_array_equal(smooth(rows, window), averages)


def test_each_word_may_have_its_own_threshold() -> None:
    """A row of thresholds stands for one setting of the device."""
    rows = np.random.default_rng(2).dirichlet((0.4,) * 5, 500).astype(np.float32)
    by_word = {"yes": 0.2, "no": 0.5, "up": 0.35}
    level = np.array([[by_word.get(label, 0.0) for label in LABELS]])
    assert swept(rows, level, Rule()) == [decided(rows, by_word, Rule())]


def test_hop_by_hop_by_hand() -> None:
    """Means of two windows: 0, .3, .6, .75, .65, .25, .25, .6, .7. At 0.6 it is heard at hops 3 and 8, at 0.76 never.

    The patience of two wants 0.6 and 0.75 in a row; the word falls below 0.6 at hop 5. At 0.2 it never falls.
    """
    yes = [0.0, 0.6, 0.6, 0.9, 0.4, 0.1, 0.4, 0.8, 0.6]
    rows = np.array([[value, 1 - value, 0, 0, 0] for value in yes], np.float32)
    found = detect(rows, LABELS, np.array([0.2, 0.59, 0.76]), Rule(0.1, 2, 2, 0.0))
    assert sorted(zip(found.threshold.tolist(), found.hop.tolist(), strict=True)) == [(0, 2), (1, 3), (1, 8)]
    assert found.score == pytest.approx([0.6, 0.75, 0.7])
    assert set(found.label.tolist()) == {0}


def test_posteriors_of_other_labels_are_refused() -> None:
    with pytest.raises(DataError, match=r"shape \(4, 3\) are not rows of 5 labels"):
        detect(np.zeros((4, 3), np.float32), LABELS, LEVELS, Rule())
    with pytest.raises(DataError, match="with a keyword"):
        detect(np.zeros((4, 1), np.float32), ("_silence_",), LEVELS, Rule())
