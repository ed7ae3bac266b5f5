"""Which sound is meant by "missed": of the last seconds by the clock, and nothing that was accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle_edge.labels.surroundings import Ears
from auricle_edge.labels.takes import loudest_word
from auricle_edge.listening.sound import RATE, Detection


@dataclass(frozen=True, eq=False)
class Missed:
    """The clip of a word that was missed."""

    start: int
    """Number of its first sample."""
    samples: NDArray[np.int16]
    """(length,)"""
    seconds_ago: float
    """From its middle until the person said so."""


def find_missed(
    ears: Ears, accepted: Sequence[Detection], seconds: float, length: int, at: float
) -> Missed | Detection:
    """The clip around the loudest sound that may be the word; the last detection where nothing else sounds like one.

    Parameters
    ----------
    ears
        The detector.
    accepted
        Detections that nobody denied: what they were made of was not missed.
    seconds
        Before `at` in which the word was said.
    length
        Samples of a clip.
    at
        When the person said so, by the clock by which blocks arrive.

    Raises
    ------
    DataError
        No sound came in those seconds, or nothing in it sounds like a word.
    """
    arrived, newest = ears.arrived, ears.newest
    now = newest if arrived is None else newest + round((at - arrived) * RATE)
    begin, end = max(ears.oldest, now - round(seconds * RATE)), min(newest, now)
    if begin >= end:
        raise DataError(
            f"Nothing was kept: no sound came in the last {seconds:g} seconds. auricle edge status says whether the "
            "microphone is muted or gone."
        )
    sound = ears.audio(begin, end)
    place = loudest_word(sound, length, known=[(each.start - begin, each.end - begin) for each in accepted])
    if place is not None:
        start = begin + place
        return Missed(start, sound[place : place + length], (now - start - length / 2) / RATE)
    last = max((each for each in accepted if each.end > begin), key=lambda each: each.end, default=None)
    if last is not None:
        return last
    raise DataError(
        f"Nothing in the last {len(sound) / RATE:.1f} seconds sounds like a word: say it, and tell me sooner."
    )
