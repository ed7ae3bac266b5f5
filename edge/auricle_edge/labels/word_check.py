"""Is a take the word that it is meant to be? The model that listens says so, or else the takes together do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from auricle.packs.manifest import SPECIAL_LABELS
from auricle.speech.features import LogMel
from auricle_edge.labels.agreement import Cepstra, cepstra, distance
from auricle_edge.labels.candidates import Recognise
from auricle_edge.labels.settings import LabelSettings
from auricle_edge.listening.sound import RATE

Doubt = Literal["other", "unlike"]

SHIFT = RATE // 10
"""Samples between two windows of a take: the hop of detection."""
REACH = 3
"""Windows before and after the one that has the word in its middle."""
SMOOTHING = 3
"""Windows whose posteriors are averaged, as in detection."""
AGREEING = 2
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
            return self._accepted((spoken,), "Good.", spoken, None)
        if self._keep:
            return self._accepted((spoken,), f"Kept as you wish, though {self._reason(spoken, doubt)}.", spoken, doubt)
        if spoken.likest != self._word and spoken.likest_score >= self._settings.sounds_other:
            return Checked((), f'That sounded like "{spoken.likest}". Say "{self._word}".', spoken, doubt)
        alike = self._alike(spoken)
        if alike is not None:
            said = "Good: I do not know this voice yet, but your takes agree."
            return self._accepted((*alike, spoken), said, spoken, doubt)
        self._aside.append(spoken)
        return Checked((), f"I am not sure: {self._reason(spoken, doubt)}. Say it again.", spoken, doubt)

    def listen(self, samples: NDArray[np.int16], start: int) -> Spoken:
        """What the model hears in a take, over the places that a window can have around it."""
        length, labels = self._frontend.task.clip_samples, self._frontend.task.labels
        places = [start + step * SHIFT for step in range(-REACH, REACH + 1)]
        windows = np.stack([samples[p : p + length] for p in places if 0 <= p <= len(samples) - length])
        energies = self._frontend.energies(windows)
        posteriors = np.nan_to_num(np.asarray(self._recognise(self._frontend.finish(energies)), np.float64))
        peaks = _smoothed(posteriors).max(axis=0)
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
        return aside if len(aside) + sum(map(agrees, self._kept)) >= AGREEING else None

    def _accepted(self, keep: Sequence[Spoken], said: str, spoken: Spoken, doubt: Doubt | None) -> Checked:
        self._aside = [other for other in self._aside if all(other is not each for each in keep)]
        self._kept += keep
        return Checked(tuple(keep), said, spoken, doubt)


def _smoothed(posteriors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means (W', L) of neighbouring rows of (W, L); of all rows where they are too few."""
    width = min(SMOOTHING, len(posteriors))
    means: NDArray[np.float64] = np.lib.stride_tricks.sliding_window_view(posteriors, width, axis=0).mean(axis=-1)
    return means


def _share(value: float) -> float:
    return float(np.clip(value, 0.0, 1.0))
