"""Do two takes sound like the same word? Dynamic time warping of their cepstra, without any trained model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auricle.speech.features import Energies

CEPSTRA = 13
"""Coefficients that are compared, without the one of loudness."""
ABOVE = 0.35
"""Share of the way from the quietest to the loudest frame from which a frame belongs to the word."""

Cepstra = NDArray[np.float64]
"""(F, CEPSTRA) of the frames of a word, less their mean."""


def cepstra(energies: Energies, floor: float) -> Cepstra:
    """Cepstra (F, CEPSTRA) of the word in a clip's mel energies (T, mels), their mean over the word taken away.

    The mean holds what room and microphone do to all frames alike (cepstral mean subtraction, Atal 1974).

    Parameters
    ----------
    floor
        Energy below which the front-end does not look.
    """
    noise = 0.3 * float(np.percentile(energies, 30)) + floor
    logs = np.log(energies.astype(np.float64) + noise)
    level = np.convolve(logs.mean(axis=1), np.full(3, 1 / 3), "same")
    quiet, peak = np.percentile(level, 10), level.max()
    word = np.flatnonzero(level >= quiet + ABOVE * (peak - quiet))
    logs = logs[word[0] : word[-1] + 1]
    bands = np.arange(logs.shape[1]) + 0.5
    cosines = np.cos(np.pi * np.arange(1, CEPSTRA + 1)[:, None] * bands / logs.shape[1])
    found = logs @ cosines.T * np.sqrt(2 / logs.shape[1])
    centred: Cepstra = found - found.mean(axis=0)
    return centred


def distance(one: Cepstra, other: Cepstra) -> float:
    """How far two words are from each other: near 0 for the same sound, about 1 for words that have nothing in common.

    It is the cost of the best alignment over the lengths of both (Sakoe and Chiba, IEEE Transactions on Acoustics,
    Speech, and Signal Processing 26(1), 1978, symmetric form), as a share of what aligning with the other word played
    backwards costs: the same frames in another order, which takes voice, noise and length out of the figure.
    """
    backwards = _aligned(one, other[::-1])
    return _aligned(one, other) / backwards if backwards > 0 else 1.0


def _aligned(one: Cepstra, other: Cepstra) -> float:
    """Cost of the best alignment, over n + m."""
    gaps = np.linalg.norm(one[:, None] - other[None], axis=2)
    n, m = gaps.shape
    cost = np.full((n + 1, m + 1), np.inf)
    cost[0, 0] = 0.0
    for diagonal in range(2, n + m + 1):
        i = np.arange(max(1, diagonal - m), min(n, diagonal - 1) + 1)
        j = diagonal - i
        cheapest = np.minimum(np.minimum(cost[i - 1, j], cost[i, j - 1]), cost[i - 1, j - 1])
        cost[i, j] = gaps[i - 1, j - 1] + cheapest
    return float(cost[n, m] / (n + m))
