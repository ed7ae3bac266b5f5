"""Decisions from posteriors worked out by hand, and what must not depend on how labels are ordered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from auricle.errors import SettingsError
from auricle_edge.listening.detect import DetectSettings
from auricle_edge.listening.detect.decision import Decider

LABELS = ("yes", "no", "_unknown_", "_silence_")


def _decider(**changes: object) -> Decider:
    values = {"smoothing": 1, "patience": 1, "threshold": 0.5, "refractory": 0.0}
    return Decider(LABELS, DetectSettings(**{**values, **changes}))  # type: ignore[arg-type]


def _heard(decider: Decider, yes: Sequence[float | None]) -> list[tuple[int, float]]:
    """Steps at which `yes` was heard and its average, for posteriors of it; None: nobody judged."""
    heard = []
    for step, posterior in enumerate(yes):
        row = None if posterior is None else np.array([posterior, 0, 1 - posterior, 0], np.float32)
        decision = decider.step(row)
        if decision is not None:
            assert decision[0] == 0
            heard.append((step, round(decision[1], 6)))
    return heard


def test_the_average_of_three_windows_reaches_the_threshold() -> None:
    """(0 + 0 + 0.9) / 3 = 0.3, (0 + 0.9 + 0.9) / 3 = 0.6, and the window before the first counts as 0."""
    assert _heard(_decider(smoothing=3), [0.9, 0.9, 0.9]) == [(1, 0.6)]


def test_a_window_that_nobody_judged_counts_as_zero() -> None:
    """(0.9 + 0 + 0.9) / 3 = 0.6; without the closed gate it would have been heard a step before."""
    assert _heard(_decider(smoothing=3), [0.9, None, 0.9]) == [(2, 0.6)]


def test_patience_waits_for_windows_in_a_row() -> None:
    """Two above, one below, three above: only the third of these is the third in a row."""
    assert _heard(_decider(patience=3), [0.6, 0.7, 0.4, 0.6, 0.7, 0.8]) == [(5, 0.8)]


def test_a_keyword_is_heard_once_until_it_falls_below_its_threshold() -> None:
    """The same rise is one word, however long it lasts."""
    assert _heard(_decider(), [0.6, 0.9, 0.9, 0.9, 0.4, 0.7]) == [(0, 0.6), (5, 0.7)]


def test_a_keyword_that_rises_again_too_soon_waits_for_the_refractory_time() -> None:
    """0.3 s are three hops: heard at 0, again at 3 at the earliest, and then only if it is still there."""
    assert _heard(_decider(refractory=0.3), [0.6, 0.4, 0.7, 0.8, 0.9]) == [(0, 0.6), (3, 0.8)]
    assert _heard(_decider(refractory=0.3), [0.6, 0.4, 0.7, 0.4, 0.4]) == [(0, 0.6)]


def test_the_refractory_time_is_each_keywords_own() -> None:
    """`no` right after `yes` is heard, `yes` right after `no` is too soon after the first `yes`."""
    decider = _decider(refractory=1.0)
    words = [decider.step(np.array(row, np.float32)) for row in ([0.9, 0, 0, 0], [0, 0.9, 0, 0], [0.9, 0, 0, 0])]
    assert [None if w is None else w[0] for w in words] == [0, 1, None]


def test_each_keyword_has_its_own_threshold() -> None:
    """`yes` needs 0.8, `no` the default of 0.5."""
    decider = _decider(thresholds={"yes": 0.8})
    assert decider.step(np.array([0.7, 0.3, 0, 0], np.float32)) is None
    heard = decider.step(np.array([0.4, 0.6, 0, 0], np.float32))
    assert heard is not None and heard[0] == 1


def test_only_the_highest_of_two_keywords_above_their_thresholds_is_heard() -> None:
    """Not the other one in the next window either, as long as it stays the lower."""
    decider = _decider(threshold=0.3)
    row = np.array([0.35, 0.55, 0.1, 0], np.float32)
    heard = [decider.step(row) for _ in range(3)]
    assert heard[0] is not None and heard[0][0] == 1 and heard[1:] == [None, None]


def test_unknown_and_silence_are_never_heard() -> None:
    """However sure the model is."""
    decider = _decider(threshold=0.0)
    for row in ([0, 0, 1, 0], [0, 0, 0, 1]):
        decision = decider.step(np.array(row, np.float32))
        assert decision is None or LABELS[decision[0]] == "yes"
    decider = _decider(threshold=0.1)
    assert not any(decider.step(np.array([0, 0, half, 1 - half], np.float32)) for half in (0.0, 0.5, 1.0))


def test_after_a_gap_nothing_is_left() -> None:
    """Neither the average nor the patience nor the refractory time."""
    decider = _decider(smoothing=2, refractory=60.0)
    assert _heard(decider, [0.9, 0.9]) == [(1, 0.9)]
    decider.reset()
    assert _heard(decider, [0.9, 0.9]) == [(1, 0.9)]


def test_a_threshold_for_no_keyword_is_refused_with_a_hint() -> None:
    """Neither an unknown word nor `_unknown_` has one; a refused change changes nothing."""
    with pytest.raises(SettingsError, match=r'no keyword "yess".*did you mean "yes"'):
        _decider(thresholds={"yess": 0.5})
    with pytest.raises(SettingsError, match='no keyword "_unknown_"'):
        _decider(thresholds={"_unknown_": 0.5})
    decider = _decider()
    with pytest.raises(SettingsError):
        decider.set_thresholds({"yes": 0.99, "on": 0.1})
    assert _heard(decider, [0.6]) == [(0, 0.6)]


def test_labels_without_a_keyword_are_refused() -> None:
    """There would be nothing to hear."""
    with pytest.raises(SettingsError, match="no keyword among"):
        Decider(("_unknown_", "_silence_"), DetectSettings())


@settings(max_examples=40)
@given(
    arrays(np.float32, (25, 4), elements=st.floats(0, 1, width=32), unique=True),
    st.permutations(range(4)),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_the_order_of_the_labels_does_not_matter(
    rows: np.ndarray, order: list[int], smoothing: int, patience: int
) -> None:
    """The same words with the same averages at the same steps."""
    chosen = DetectSettings(smoothing=smoothing, patience=patience, threshold=0.4, refractory=0.2)
    plain, permuted = Decider(LABELS, chosen), Decider([LABELS[i] for i in order], chosen)
    for row in rows:
        one, other = plain.step(row), permuted.step(row[order])
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert (LABELS[one[0]], one[1]) == (permuted.labels[other[0]], pytest.approx(other[1]))


def _reference(rows: np.ndarray, smoothing: int, patience: int, rest: int) -> list[tuple[int, int]]:
    """The rule without wake words, written down again window by window: steps and labels of what is heard at 0.4."""
    heard: list[tuple[int, int]] = []
    last: dict[int, int] = {}
    since: dict[int, int] = {}
    for step in range(len(rows)):
        averages = rows[max(0, step + 1 - smoothing) : step + 1].astype(float).sum(axis=0) / smoothing
        for word in (0, 1):
            if averages[word] < 0.4:
                since.pop(word, None)
            else:
                since.setdefault(word, step)
        best = int(averages[1] > averages[0])
        ready = best in since and step - since[best] >= patience - 1 and last.get(best, -1) < since[best]
        if ready and step - last.get(best, -rest) >= rest:
            last[best] = step
            heard.append((step, best))
    return heard


@settings(max_examples=60)
@given(
    arrays(np.float32, (30, 4), elements=st.floats(0, 1, width=32), unique=True), st.integers(1, 4), st.integers(1, 3)
)
def test_without_wake_words_it_is_the_rule_as_it_was(rows: np.ndarray, smoothing: int, patience: int) -> None:
    """Against the rule written down in another way; 0.3 s of refractory time are three hops."""
    chosen = DetectSettings(smoothing=smoothing, patience=patience, threshold=0.4, refractory=0.3)
    decider = Decider(LABELS, chosen)
    decisions = [(step, decider.step(row)) for step, row in enumerate(rows)]
    found = [(step, decision[0]) for step, decision in decisions if decision is not None]
    assert found == _reference(rows, smoothing, patience, 3)
