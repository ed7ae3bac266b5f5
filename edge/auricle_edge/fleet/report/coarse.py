"""Figures made coarse before they leave the device."""

from __future__ import annotations

from typing import Literal, get_args

from auricle.wire.kinds import Rounded

STEPS: tuple[Rounded, ...] = get_args(Rounded)
DECIBELS = 3
QUIETEST = -96
"""dB of full scale: 16 bits hold nothing quieter."""


def rounded(count: int) -> Rounded:
    """The nearest count that may be said, the lower one of two; 1,000 for all above.

    Counts up to 3 stay as they are; above, the error is a quarter at most.
    """
    return min(STEPS, key=lambda step: (abs(step - count), step))


def decibels(level: float) -> int:
    """A level in dB of full scale, to the nearest 3 dB from -96 to 0."""
    return max(QUIETEST, min(0, DECIBELS * round(level / DECIBELS)))


def full_scale(share: float) -> Literal["none", "trace", "some", "much"]:
    """How much of the sound is at full scale: nothing, below 0.1 %, below 1 %, or more."""
    if share <= 0:
        return "none"
    return "trace" if share < 0.001 else "some" if share < 0.01 else "much"


def offset(mean: float) -> Literal["none", "small", "large"]:
    """How far the sound's mean is from 0, of full scale: below 0.1 %, below 1 %, or more."""
    return "none" if abs(mean) < 0.001 else "small" if abs(mean) < 0.01 else "large"
