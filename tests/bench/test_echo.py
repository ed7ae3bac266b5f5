"""What `bench/echo.py` counts: how much of an echo is left, whatever a canceller does to the near end."""

from __future__ import annotations

import numpy as np
import pytest
from bench.echo import ours
from bench.echo_sound import Case, double_talk

RNG = np.random.default_rng(4)
SPEECH = [RNG.standard_normal(32_000).astype(np.float32) for _ in range(2)]


def test_the_reduction_is_that_of_the_echo_alone() -> None:
    """A tenth of the echo's amplitude is left, 20 dB; the near end, halved by the canceller, does not count."""
    echo = np.tile([1000.0, -1000.0], 16_000).astype(np.float32)
    near = np.tile([40, 80, -40, -80], 8_000).astype(np.int16)
    case = Case(near, echo, echo.astype(np.int16))
    left = (near // 2 + echo / 10).astype(np.int16)
    assert case.reduction(left, near // 2, 0.5, 2.0) == pytest.approx(20.0)
    assert case.microphone.min() == -1080


@pytest.mark.parametrize("decibels", [0.0, 20.0])
def test_double_talk_has_the_level_that_is_asked_for(decibels: float) -> None:
    case = double_talk(SPEECH, SPEECH, np.random.default_rng(0), decibels, distorts=True)
    talk = case.near[160_000:].astype(np.float64)
    ratio = 10 * np.log10(np.mean(np.square(case.echo, dtype=np.float64)) / np.mean(talk**2))
    assert ratio == pytest.approx(decibels, abs=0.6)
    assert np.abs(case.near[:160_000]).max() < 200
    left, near, seconds = ours(case)
    assert len(left) == len(near) == len(case.far) and seconds > 0
