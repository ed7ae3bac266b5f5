"""What turns log-mels into posteriors: any function that does, the mean of several, or two stages of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.float32]
Posteriors = NDArray[np.float32]
Recognise = Callable[[Features], Posteriors]
"""Posteriors (N, labels) of log-mels (N, T, mels)."""


def ensemble(parts: Sequence[Recognise]) -> Recognise:
    """Recognise by the mean of the posteriors of several."""

    def recognise(features: Features) -> Posteriors:
        mean: Posteriors = np.mean([part(features) for part in parts], axis=0, dtype=np.float32)
        return mean

    return recognise


SINGLE = 0.5
"""Posterior from which a keyword counts in a clip that is judged alone."""


@dataclass(frozen=True, eq=False)
class Cascade:
    """Two stages: the second judges only the windows in which the first proposes a keyword.

    A detector decides by its own averages and thresholds what is proposed (`Decider.proposes`); a window that was
    proposed counts with the mean of both posteriors, every other with those of the first stage alone. Called like any
    other recogniser, on clips that stand alone, it takes `SINGLE` for the threshold of every keyword.
    """

    first: Recognise
    second: Recognise
    keywords: NDArray[np.bool_]
    """(L,) labels that may be proposed."""
    share: float
    """Share of its threshold from which a keyword is proposed."""

    def judged(self, features: Features, proposed: Posteriors) -> Posteriors:
        """Posteriors (N, L) of windows (N, T, mels) that the first stage gave `proposed` (N, L)."""
        mean: Posteriors = ((proposed + self.second(features)) / 2).astype(np.float32)
        return mean

    def __call__(self, features: Features) -> Posteriors:
        """Posteriors (N, L) of clips (N, T, mels)."""
        found: Posteriors = self.first(features).copy()
        asked = (found[:, self.keywords] >= self.share * SINGLE).any(axis=1)
        if asked.any():
            found[asked] = self.judged(features[asked], found[asked])
        return found
