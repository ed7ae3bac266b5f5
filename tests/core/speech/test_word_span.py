"""The span of a word: pauses inside it belong to it, longer ones end it, on both sides."""

from __future__ import annotations

import numpy as np

from auricle.speech.features import word_span

FLOOR = 1e-6


def _sound(*spans: tuple[int, int]) -> np.ndarray:
    energies = np.full((100, 40), 1e-4, np.float32)
    for begin, end in spans:
        energies[begin:end] = 1.0 if begin == spans[0][0] else 0.9
    return energies


def test_a_pause_inside_a_word_does_not_end_it_and_a_longer_one_does() -> None:
    assert word_span(_sound((20, 30), (38, 45), (70, 80)), FLOOR) in ((20, 45), (19, 46))  # averaged over three frames


def test_what_comes_before_a_longer_pause_is_another_word() -> None:
    assert word_span(_sound((60, 70), (50, 54), (5, 20)), FLOOR) in ((50, 70), (49, 71))


def test_the_span_stays_inside_the_recording() -> None:
    assert word_span(_sound((0, 100)), FLOOR) == (0, 1)  # nothing stands out of it
    assert word_span(_sound((90, 100)), FLOOR) in ((90, 100), (89, 100))
