"""Hits by the word's level over the background, and of words over a loudspeaker's sound by that and its kind."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from auricle.hearing.curve import Mask
from auricle.hearing.utterances import Spoken
from auricle_edge.evaluate.clips import Share

BANDS = ((-math.inf, 5.0), (5.0, 10.0), (10.0, 15.0), (15.0, math.inf))
"""dB of the word over the background."""
TELEVISION, MUSIC = "television", "music"
"""Kinds of sound from a loudspeaker, under keywords and without any."""
AROUND = (TELEVISION, MUSIC)


def name_band(low: float, high: float) -> str:
    """Write a band."""
    if not math.isfinite(low):
        return f"under {high:g} dB"
    return f"from {low:g} dB" if not math.isfinite(high) else f"{low:g} to {high:g} dB"


def within(words: Sequence[Spoken], low: float, high: float) -> Mask:
    """Which words (N,) have a level in a band."""
    return np.array([low <= word.snr < high for word in words], dtype=np.bool_)


def shares_around(words: Iterable[tuple[Spoken, bool]]) -> dict[str, Share]:
    """Count words that were heard or not, by the kind of sound from a loudspeaker and the word's level over it."""
    counted = [(word, right) for word, right in words if word.kind in AROUND]
    found: dict[str, Share] = {}
    for kind in AROUND:
        for low, high in BANDS:
            hits = [right for word, right in counted if word.kind == kind and low <= word.snr < high]
            if hits:
                found[f"{kind}, {name_band(low, high)}"] = Share(sum(hits), len(hits))
    return found
