"""Hard negatives: which of the sounds without a keyword a model takes for one, so that it meets them more often."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.hearing.rule import keyword_mask
from auricle.speech.features import LogMel
from auricle_export.pretrain.mined import Mined, MinedWindows
from auricle_export.pretrain.sounds import Sounds
from auricle_export.pretrain.windows import Bank

Recognise = Callable[[NDArray[np.float32]], NDArray[np.float32]]

HOP = 10
"""Frames between two windows that are judged."""
_WINDOWS = 512


def mine(bank: Bank, frontend: LogMel, labels: Sequence[str], recognise: Recognise) -> Mined:
    """Let a model listen to every sound without a keyword."""
    keywords = keyword_mask(labels)

    def worst(sounds: Sounds, frames: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        found = np.zeros(len(chosen), np.float32)
        for start in range(0, len(chosen), _WINDOWS):
            part, first = chosen[start : start + _WINDOWS], frames[start : start + _WINDOWS]
            source = first[:, None] + np.arange(frontend.task.frames)
            inside = (source >= 0) & (source < sounds.lengths[part][:, None])
            rows = np.where(inside, source + sounds.starts[part][:, None], len(sounds.energies) - 1)
            posteriors = recognise(frontend.finish(sounds.energies[rows]))
            found[start : start + _WINDOWS] = posteriors[:, keywords].max(axis=1)
        return found

    def of_words(sounds: Sounds) -> NDArray[np.float32]:
        every = np.arange(len(sounds))
        late = sounds.ends - frontend.task.frames + 5
        return np.maximum(worst(sounds, late, every), worst(sounds, sounds.begins - 20, every))

    def of_streams(sounds: Sounds) -> MinedWindows:
        counts = np.maximum(1, (sounds.lengths - frontend.task.frames) // HOP + 1)
        chosen = np.repeat(np.arange(len(sounds)), counts)
        frames = (np.arange(len(chosen)) - np.repeat(np.cumsum(counts) - counts, counts)) * HOP
        return MinedWindows(worst(sounds, frames, chosen), chosen, frames)

    none = MinedWindows(np.zeros(0, np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64))
    return Mined(
        others=of_words(bank.others),
        alike=of_words(bank.alike),
        running=of_streams(bank.running),
        together=none if bank.together is None else of_streams(bank.together),
        noise=of_streams(bank.noise),
    )
