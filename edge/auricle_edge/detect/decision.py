"""From posteriors, one row a hop, to decisions: smoothing, threshold, patience and refractory time of each keyword."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.errors import SettingsError, nearest
from auricle_edge.detect.settings import DetectSettings


def is_keyword(label: str) -> bool:
    """Whether a label is a word that can be heard: `_unknown_` and `_silence_` are not."""
    return not (label.startswith("_") and label.endswith("_"))


class Decider:
    """Says when a keyword was heard.

    The posterior of each label is averaged over the last W windows, of which those that nobody judged, because the
    gate was closed, count as 0. A keyword is heard when its average has reached its threshold in K windows in a row,
    once, until it falls below it again; sooner than the refractory time after it was heard before, it is not. Only the
    keyword with the highest average can be heard (after Chen, Parada and Heigold, ICASSP 2014, section 2.3).

    Parameters
    ----------
    labels
        L labels.
    settings
        W, K, thresholds and times.

    Raises
    ------
    SettingsError
        A threshold for something that is no keyword, or there is no keyword.
    """

    def __init__(self, labels: Sequence[str], settings: DetectSettings) -> None:
        self.labels = tuple(labels)
        self._patience = settings.patience
        self._refractory = round(settings.refractory / settings.hop)
        self._default = settings.threshold
        self._keywords = np.array([is_keyword(label) for label in labels])
        if not self._keywords.any():
            raise SettingsError(f"There is no keyword among the labels {', '.join(self.labels)}.")
        self._window = np.zeros((settings.smoothing, len(labels)))
        self.set_thresholds(settings.thresholds)
        self.reset()

    def set_thresholds(self, thresholds: Mapping[str, float]) -> None:
        """Take these thresholds, and the default for every other keyword; SettingsError as above."""
        words = [label for label in self.labels if is_keyword(label)]
        for word in thresholds:
            if word not in words:
                raise SettingsError(f'There is no keyword "{word}" to set a threshold for: {nearest(word, words)}')
        self._thresholds = np.array([thresholds.get(label, self._default) for label in self.labels])

    def reset(self) -> None:
        """Forget everything: there is a gap."""
        self._window[:] = 0
        self._place = 0
        self._above = np.zeros(len(self.labels), np.int64)
        self._heard = np.zeros(len(self.labels), np.bool_)
        self._rest = np.zeros(len(self.labels), np.int64)

    @property
    def smoothed(self) -> NDArray[np.float64]:
        """The averages (L,) as they are now."""
        smoothed: NDArray[np.float64] = self._window.mean(axis=0)
        return smoothed

    @property
    def closeness(self) -> NDArray[np.float64]:
        """The averages as shares of their thresholds (L,); 0 for what is no keyword."""
        thresholds = np.maximum(self._thresholds, 1e-9)
        closeness: NDArray[np.float64] = np.where(self._keywords, self.smoothed / thresholds, 0.0)
        return closeness

    def step(self, posteriors: NDArray[np.float32] | None) -> tuple[int, float] | None:
        """Take the posteriors (L,) of the newest window, None when nobody judged it.

        Returns
        -------
        tuple or None
            Index of the keyword that was heard, and its average.
        """
        self._window[self._place] = 0 if posteriors is None else posteriors
        self._place = (self._place + 1) % len(self._window)
        smoothed = self.smoothed
        above = self._keywords & (smoothed >= self._thresholds)
        self._above = np.where(above, self._above + 1, 0)
        self._heard &= above
        self._rest = np.maximum(self._rest - 1, 0)
        best = int(np.argmax(np.where(self._keywords, smoothed, -1)))
        if self._above[best] < self._patience or self._heard[best] or self._rest[best]:
            return None
        self._heard[best] = True
        self._rest[best] = self._refractory
        return best, float(smoothed[best])
