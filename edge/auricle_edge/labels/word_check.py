"""Is a take the word that it is meant to be? The model that listens says so, or how alike the takes are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from auricle.packs.manifest import SPECIAL_LABELS
from auricle.speech.features import Energies, LogMel
from auricle.speech.quantiles import quantile
from auricle_edge.labels.candidates import Recognise
from auricle_edge.labels.settings import LabelSettings
from auricle_edge.listening.sound import RATE

CEPSTRA_COEFFICIENTS = 13
"""Coefficients that are compared, without the one of loudness."""
ABOVE_SHARE = 0.35
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
    noise = 0.3 * quantile(energies.ravel(), 0.3) + floor
    logs = np.log(energies.astype(np.float64) + noise)
    level = np.convolve(logs.mean(axis=1), np.full(3, 1 / 3), "same")
    quiet, peak = quantile(level, 0.1), level.max()
    word = np.flatnonzero(level >= quiet + ABOVE_SHARE * (peak - quiet))
    logs = logs[word[0] : word[-1] + 1]
    bands = np.arange(logs.shape[1]) + 0.5
    cosines = np.cos(np.pi * np.arange(1, CEPSTRA_COEFFICIENTS + 1)[:, None] * bands / logs.shape[1])
    found = logs @ cosines.T * np.sqrt(2 / logs.shape[1])
    centred: Cepstra = found - found.mean(axis=0)
    return centred


def distance(one: Cepstra, other: Cepstra) -> float:
    """How far two words are from each other: near 0 for the same sound, about 1 for words that have nothing in common.

    It is the cost of the best alignment over the lengths of both (Sakoe and Chiba, IEEE Transactions on Acoustics,
    Speech, and Signal Processing 26(1), 1978, symmetric form), as a share of what aligning with the other word played
    backwards costs: the same frames in another order, which takes voice, noise and length out of the figure.
    """
    backwards = _alignment_cost(one, other[::-1])
    return _alignment_cost(one, other) / backwards if backwards > 0 else 1.0


def _alignment_cost(one: Cepstra, other: Cepstra) -> float:
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


Doubt = Literal["other", "unlike"]

SHIFT = RATE // 10
"""Samples between two windows of a take: the hop of detection."""
REACH_WINDOWS = 3
"""Windows before and after the one that has the word in its middle."""
SMOOTHING_WINDOWS = 3
"""Windows whose posteriors are averaged, as in detection."""
AGREEING_TAKES = 2
"""Other takes that a take must agree with where the model does not know the voice."""


@dataclass(frozen=True, eq=False)
class Spoken:
    """A take, and what the model hears in it."""

    clip: NDArray[np.int16]
    """(clip_samples,)"""
    score: float
    """Highest smoothed posterior of the wanted word over the windows."""
    likest: str
    """The keyword with the highest smoothed posterior."""
    likest_score: float
    shape: Cepstra
    """For the comparison with other takes."""


@dataclass(frozen=True, eq=False)
class Checked:
    """What is to be done with a take."""

    keep: tuple[Spoken, ...]
    """Takes to keep now: this one, and with it earlier ones that were put aside; empty where it is asked for again."""
    said: str
    """The sentence for the person."""
    spoken: Spoken
    doubt: Doubt | None


class WordCheck:
    """Judges the takes of one word by a model.

    Parameters
    ----------
    word
        That is wanted.
    frontend
        Of the pack.
    recognise
        The model that listens: posteriors (N, L) of log-mels (N, T, mels).
    settings
        What counts as the word.
    keep
        Keep takes that the model doubts, too: somebody says that they are right.
    """

    def __init__(
        self, word: str, frontend: LogMel, recognise: Recognise, settings: LabelSettings, *, keep: bool = False
    ) -> None:
        self._word, self._frontend, self._recognise = word, frontend, recognise
        self._settings, self._keep = settings, keep
        self._aside: list[Spoken] = []
        self._kept: list[Spoken] = []

    def judge(self, samples: NDArray[np.int16], start: int) -> Checked:
        """Judge a take.

        Parameters
        ----------
        samples
            (n,) that were heard since the prompt.
        start
            Of the clip in them.
        """
        spoken = self.listen(samples, start)
        doubt = self._doubt(spoken)
        if doubt is None:
            return self._accept((spoken,), "Good.", spoken, None)
        if self._keep:
            return self._accept((spoken,), f"Kept as you wish, though {self._reason(spoken, doubt)}.", spoken, doubt)
        if spoken.likest != self._word and spoken.likest_score >= self._settings.sounds_other:
            return Checked((), f'That sounded like "{spoken.likest}". Say "{self._word}".', spoken, doubt)
        alike = self._alike(spoken)
        if alike is not None:
            said = "Good: I do not know this voice yet, but your takes agree."
            return self._accept((*alike, spoken), said, spoken, doubt)
        self._aside.append(spoken)
        return Checked((), f"I am not sure: {self._reason(spoken, doubt)}. Say it again.", spoken, doubt)

    def listen(self, samples: NDArray[np.int16], start: int) -> Spoken:
        """What the model hears in a take, over the places that a window can have around it."""
        length, labels = self._frontend.task.clip_samples, self._frontend.task.labels
        places = [start + step * SHIFT for step in range(-REACH_WINDOWS, REACH_WINDOWS + 1)]
        windows = np.stack([samples[p : p + length] for p in places if 0 <= p <= len(samples) - length])
        energies = self._frontend.energies(windows)
        posteriors = np.nan_to_num(np.asarray(self._recognise(self._frontend.finish(energies)), np.float64))
        peaks = _smooth(posteriors).max(axis=0)
        words = [label for label in labels if label not in SPECIAL_LABELS]
        likest = max(words, key=lambda word: float(peaks[labels.index(word)]))
        clip = samples[start : start + length]
        middle = self._frontend.energies(clip[np.newaxis])[0]
        return Spoken(
            clip=clip.copy(),
            score=_share(peaks[labels.index(self._word)]),
            likest=likest,
            likest_score=_share(peaks[labels.index(likest)]),
            shape=cepstra(middle, self._frontend.task.frontend.floor),
        )

    def _doubt(self, spoken: Spoken) -> Doubt | None:
        """Why the model doubts it; None: it hears the word, and no other keyword more."""
        enough = self._settings.sounds_like
        if spoken.likest == self._word and spoken.score >= enough:
            return None
        return "other" if spoken.likest != self._word and spoken.likest_score >= enough else "unlike"

    def _reason(self, spoken: Spoken, doubt: Doubt) -> str:
        return f'it sounded like "{spoken.likest}"' if doubt == "other" else f'it did not sound like "{self._word}"'

    def _alike(self, spoken: Spoken) -> tuple[Spoken, ...] | None:
        """Takes put aside that agree with this one; None where too few takes do, those that are kept among them."""

        def agrees(other: Spoken) -> bool:
            return distance(spoken.shape, other.shape) <= self._settings.takes_agree

        aside = tuple(other for other in self._aside if agrees(other))
        return aside if len(aside) + sum(map(agrees, self._kept)) >= AGREEING_TAKES else None

    def _accept(self, keep: Sequence[Spoken], said: str, spoken: Spoken, doubt: Doubt | None) -> Checked:
        self._aside = [other for other in self._aside if all(other is not each for each in keep)]
        self._kept += keep
        return Checked(tuple(keep), said, spoken, doubt)


def _smooth(posteriors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means (W', L) of neighbouring rows of (W, L); of all rows where they are too few."""
    width = min(SMOOTHING_WINDOWS, len(posteriors))
    means: NDArray[np.float64] = np.lib.stride_tricks.sliding_window_view(posteriors, width, axis=0).mean(axis=-1)
    return means


def _share(value: float) -> float:
    return float(np.clip(value, 0.0, 1.0))
