"""One take of an enrolment: is it a word, whole, standing out of the room's noise, and not too loud?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from auricle.speech.quantiles import quantile
from auricle_edge.labels.settings import LabelSettings
from auricle_edge.listening.sound import RATE

FRAME = RATE // 100
"""Samples of a frame: 10 ms."""
FULL_SCALE = 32_768.0
SILENT_DBFS = -96.0
"""dB of full scale: nothing is quieter in 16 bits."""


def levels(samples: NDArray[np.int16]) -> NDArray[np.float64]:
    """Root mean square (F,) of each whole frame of (n,) samples, in dB of full scale."""
    frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME).astype(np.float64) / FULL_SCALE
    power = np.maximum(np.square(frames).mean(axis=1), 10 ** (SILENT_DBFS / 10))
    found: NDArray[np.float64] = 10 * np.log10(power)
    return found


def room(found: NDArray[np.float64]) -> float:
    """The room's level: what a fifth of the frames stay below."""
    return quantile(found, 0.2) if len(found) else SILENT_DBFS


def stretches(loud: NDArray[np.bool_], gap: int) -> list[tuple[int, int]]:
    """Runs (first, after) of loud frames (F,); those at most `gap` quiet frames apart are one."""
    found: list[tuple[int, int]] = []
    for frame in np.flatnonzero(loud):
        if found and frame - found[-1][1] <= gap:
            found[-1] = (found[-1][0], int(frame) + 1)
        else:
            found.append((int(frame), int(frame) + 1))
    return found


def loudest_word(
    samples: NDArray[np.int16], length: int, above: float = 10.0, known: Sequence[tuple[int, int]] = ()
) -> int | None:
    """First sample of the clip of `length` samples around the loudest stretch that may be a word; None without one.

    A stretch is what stands `above` dB over the room, with pauses of at most 150 ms, and may be a word if it lasts
    80 ms to one and a half clips. The clip has it in its middle as far as the sound reaches. Nothing counts in `known`,
    ranges (first, after) of samples of which it is clear already what they are, nor the rest of a loud run of which
    half or more lies in one: a word may last longer than the window in which it was heard.
    """
    found = levels(samples)
    loud = found > room(found) + above
    taken = np.zeros(len(loud), np.bool_)
    for first, after in known:
        taken[max(0, first) // FRAME : max(0, after) // FRAME] = True
    for first, after in stretches(loud, 0):
        loud[first:after] &= ~taken[first:after] & (2 * taken[first:after].sum() < after - first)
    candidates = [
        (float(10 * np.log10(np.sum(10 ** (found[a:b] / 10)))), -a, b)
        for a, b in stretches(loud, 15)
        if 8 <= b - a <= 3 * length // (2 * FRAME)
    ]
    if not candidates or len(samples) < length:
        return None
    _, negative, after = max(candidates)
    middle = (after - negative) * FRAME // 2
    return int(np.clip(middle - length // 2, 0, len(samples) - length))


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
PAUSE_FRAMES = 30
"""Frames of quiet that end a word: 300 ms."""
SHORTEST_FRAMES = 8
"""Frames of the shortest word; what is shorter is a click, and waited out."""
RANGE_DB = 30.0
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


def judge_take(samples: NDArray[np.int16], room_dbfs: float, length: int, settings: LabelSettings) -> Take | None:
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
    loud = found > max(room_dbfs + settings.noise_db / 2, found.max(initial=SILENT_DBFS) - RANGE_DB)
    words = stretches(loud, PAUSE_FRAMES)
    over = len(samples) >= settings.take_seconds * 100 * FRAME
    if not words:
        return Take(None, "nothing", float(found.max(initial=SILENT_DBFS)), 0.0) if over else None
    first, after = next((word for word in words if word[1] - word[0] >= SHORTEST_FRAMES), words[-1])
    if after - first < SHORTEST_FRAMES and not over:
        return None
    if len(found) - after < PAUSE_FRAMES and not over:
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
        (after - first < SHORTEST_FRAMES, "short"),
        ((after - first) * FRAME > length, "long"),
        (clipping > settings.clipping, "clipping"),
        (peak < settings.quiet_dbfs, "quiet"),
        (peak < room_dbfs + settings.noise_db, "noise"),
    )
    return next((fault for wrong, fault in faults if wrong), None)
