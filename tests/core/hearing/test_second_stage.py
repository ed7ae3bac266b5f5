"""Two stages over a whole stream give what the detector's own decider comes to, hop by hop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from auricle.errors import DataError
from auricle.hearing.proposal import PROPOSAL_SHARE
from auricle.hearing.second_stage import cascade, levels_of, proposals
from auricle_edge.listening.detect import DetectSettings
from auricle_edge.listening.detect.decision import Decider

LABELS = ("yes", "no", "_unknown_", "_silence_")


def decided(first: np.ndarray, second: np.ndarray, chosen: DetectSettings) -> tuple[np.ndarray, list[bool]]:
    """What a decider that waits takes for the posteriors of each window, and whether it asked the second stage."""
    decider, rows, asked = Decider(LABELS, chosen), [], []
    for one, two in zip(first, second, strict=True):
        open_ = bool(one.any())
        asked.append(open_ and decider.proposes(one, chosen.proposal))
        rows.append(((one + two) / 2).astype(np.float32) if asked[-1] else one)
        decider.step(rows[-1] if open_ else None)
    return np.array(rows), asked


@settings(max_examples=100, deadline=None)
@given(
    arrays(np.float32, st.tuples(st.just(2), st.integers(1, 60), st.just(4)), elements=st.floats(0, 1, width=32)),
    st.integers(1, 4),
    st.sampled_from((0.0, 0.5, 0.7, 1.0)),
)
def test_it_proposes_what_the_decider_proposes(both: np.ndarray, smoothing: int, share: float) -> None:
    """To the last bit, with a closed gate where the first stage has nothing."""
    first, second = both
    second[~first.any(axis=1)] = 0
    chosen = DetectSettings(smoothing=smoothing, thresholds={"yes": 0.7, "no": 0.5}, proposal=share)
    levels = levels_of(LABELS, {"yes": 0.7, "no": 0.5})
    rows, asked = decided(first, second, chosen)
    assert np.array_equal(cascade(first, second, levels, smoothing, share), rows)
    assert proposals(first, second, levels, smoothing, share).tolist() == asked


@pytest.mark.parametrize("wake", [(), ("yes",)])
def test_a_long_stream_hovers_around_the_share(wake: tuple[str, ...]) -> None:
    """A device that waits for "yes" asks for no other word."""
    rng = np.random.default_rng(0)
    first, second = (rng.dirichlet([0.3, 0.3, 1, 1], 3_000).astype(np.float32) for _ in range(2))
    first[100:130] = second[100:130] = 0
    thresholds = {"yes": 0.7, "no": 0.5}
    levels = levels_of(LABELS, {word: thresholds[word] for word in wake or thresholds})
    chosen = DetectSettings(thresholds=thresholds, wake=wake)
    rows, asked = decided(first, second, chosen)
    found = cascade(first, second, levels, chosen.smoothing)
    assert np.array_equal(found, rows) and 0.05 < np.mean(asked) < 0.9
    assert not proposals(first, second, levels, chosen.smoothing)[100:130].any()


def test_by_hand() -> None:
    """Half of 0.8 is 0.4. 0.6 reaches it and becomes (0.6 + 0.2) / 2; then (0.4 + 0.3) / 2 does not, nor 0.3."""
    first = np.array([[0.39, 0], [0.6, 0], [0.3, 0], [0.1, 0.9]], np.float32)
    second = np.array([[1, 0], [0.2, 0.8], [1, 0], [1, 0]], np.float32)
    levels = np.array([0.8, np.inf])
    assert proposals(first, second, levels, 2).tolist() == [False, True, False, False]
    expected = [[0.39, 0], [0.4, 0.4], [0.3, 0], [0.1, 0.9]]
    np.testing.assert_allclose(cascade(first, second, levels, 2), expected, atol=1e-6)
    assert first[1, 0] == np.float32(0.6)


def test_a_second_stage_that_says_the_same_changes_nothing() -> None:
    rows = np.random.default_rng(1).dirichlet(np.ones(4), 500).astype(np.float32)
    levels = levels_of(LABELS, {"yes": 0.8, "no": 0.8})
    assert proposals(rows, rows, levels, 3).any() and np.array_equal(cascade(rows, rows, levels, 3), rows)


def test_levels_are_of_keywords_that_have_a_threshold() -> None:
    assert levels_of(LABELS, {"no": 0.5, "_silence_": 0.1}).tolist() == [np.inf, 0.5, np.inf, np.inf]


def test_what_is_proposed_is_what_a_device_proposes_that_is_told_nothing() -> None:
    assert DetectSettings().proposal == PROPOSAL_SHARE


def test_shapes_that_do_not_fit_are_refused() -> None:
    rows = np.zeros((5, 4), np.float32)
    with pytest.raises(DataError, match="do not fit"):
        cascade(rows, rows[:4], np.full(4, 0.5), 3)
    with pytest.raises(DataError, match="do not fit"):
        proposals(rows, rows, np.full(3, 0.5), 3)
