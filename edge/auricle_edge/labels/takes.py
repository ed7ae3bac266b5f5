"""One take of an enrolment: is it a word, whole, loud enough and not too loud?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from auricle_edge.labels.levels import FRAME, SILENT, levels, stretches
from auricle_edge.labels.settings import LabelSettings

Fault = Literal["nothing", "early", "short", "long", "quiet", "noise", "clipping"]

ADVICE: dict[Fault, str] = {
    "nothing": "Nothing was heard. Is the microphone muted? Speak up.",
    "early": "You began too early. Wait for the prompt.",
    "short": "That was too short for a word.",
    "long": "That was too long. Say the word alone.",
    "quiet": "That was too quiet. Come nearer.",
    "noise": "The room is too loud. Come nearer, or wait.",
    "clipping": "That was too loud. Move away, or lower the microphone's gain.",
}
PAUSE = 30
"""Frames of quiet that end a word: 300 ms."""
SHORTEST = 8
"""Frames of the shortest word; what is shorter is a click, and waited out."""
RANGE = 30.0
"""Decibels below the loudest frame at which a word begins and ends."""
LOUD = 32_700
"""A sample is at full scale from here."""


@dataclass(frozen=True, eq=False)
class Take:
    """What became of a take."""

    clip: NDArray[np.int16] | None
    """(clip_samples,) with the word in it; None where something was wrong."""
    fault: Fault | None
    peak_dbfs: float
    """Level of the word's loudest 10 ms."""
    clipping: float
    """Part of its samples at full scale."""
    start: int = 0
    """First sample of the clip in what was heard since the prompt."""


def judged(samples: NDArray[np.int16], room_dbfs: float, length: int, settings: LabelSettings) -> Take | None:
    """Judge what was heard since the prompt; None while the word has not ended.

    Parameters
    ----------
    samples
        (n,) since the prompt.
    room_dbfs
        Level of the room before it.
    length
        Samples of a clip.
    """
    found = levels(samples)
    loud = found > max(room_dbfs + settings.noise_db / 2, found.max(initial=SILENT) - RANGE)
    words = stretches(loud, PAUSE)
    over = len(samples) >= settings.take_seconds * 100 * FRAME
    if not words:
        return Take(None, "nothing", float(found.max(initial=SILENT)), 0.0) if over else None
    first, after = next((word for word in words if word[1] - word[0] >= SHORTEST), words[-1])
    if after - first < SHORTEST and not over:
        return None
    if len(found) - after < PAUSE and not over:
        return Take(None, "long", float(found.max()), 0.0) if (after - first) * FRAME > 1.5 * length else None
    word = samples[first * FRAME : after * FRAME]
    peak = float(found[first:after].max())
    clipping = float(np.mean(np.abs(word.astype(np.int32)) >= LOUD))
    fault = _fault(first, after, peak, clipping, room_dbfs, length, settings)
    if fault is not None:
        return Take(None, fault, peak, clipping)
    start = max(0, (first + after) * FRAME // 2 - length // 2)
    if len(samples) < start + length:
        return None if not over else Take(None, "long", peak, clipping)
    return Take(samples[start : start + length].copy(), None, peak, clipping, start)


def _fault(
    first: int, after: int, peak: float, clipping: float, room_dbfs: float, length: int, settings: LabelSettings
) -> Fault | None:
    faults: tuple[tuple[bool, Fault], ...] = (
        (first * FRAME < settings.early_seconds * 100 * FRAME, "early"),
        (after - first < SHORTEST, "short"),
        ((after - first) * FRAME > length, "long"),
        (clipping > settings.clipping, "clipping"),
        (peak < settings.quiet_dbfs, "quiet"),
        (peak < room_dbfs + settings.noise_db, "noise"),
    )
    return next((fault for wrong, fault in faults if wrong), None)
