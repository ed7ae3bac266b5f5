"""Hearing more or less: steps by which all thresholds are shifted."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from auricle_edge.listening.detect.decision import is_keyword
from auricle_edge.listening.detect.settings import DetectSettings

STEP = 0.05
"""Of smoothed posterior: a threshold of 0.8 is 0.75 at +1 and 0.9 at -2."""
LEAST, MOST = 0.1, 0.99
"""Thresholds are not shifted beyond these."""


def shifted(threshold: float, step: int) -> float:
    """A threshold, `step` steps more sensitive; one that is beyond the limits already stays where it is."""
    low, high = min(LEAST, threshold), max(MOST, threshold)
    return round(min(max(threshold - step * STEP, low), high), 6)


def tuned(settings: DetectSettings, labels: Sequence[str], step: int) -> DetectSettings:
    """The settings with the threshold of each keyword among the labels shifted; those themselves at step 0."""
    if step == 0:
        return settings
    words = [label for label in labels if is_keyword(label)]
    thresholds = {word: shifted(settings.thresholds.get(word, settings.threshold), step) for word in words}
    commands = {word: shifted(level, step) for word, level in settings.commands.items()}
    return msgspec.structs.replace(settings, thresholds=thresholds, commands=commands)
