"""From posteriors, one row a hop, to decisions: smoothing, threshold, patience and refractory time of each keyword."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle_edge.listening.detect.rules import Rule, is_keyword, make_rules
from auricle_edge.listening.detect.settings import DetectSettings

__all__ = ["Decider", "is_keyword"]


class Decider:
    """Says when a keyword was heard.

    The posterior of each label is averaged over the last W windows, of which those that nobody judged, because the
    gate was closed, count as 0. A keyword is heard when its average has reached its threshold in K windows in a row,
    once, until it falls below it again; sooner than the refractory time after it was heard before, it is not. Only the
    keyword with the highest average can be heard (after Chen, Parada and Heigold, ICASSP 2014, section 2.3).

    Which keywords count, the rules say (`make_rules`). One that begins to count begins from nothing: neither what its
    average held before nor its refractory time is left.

    Parameters
    ----------
    labels
        L labels.
    settings
        W, K, thresholds, wake words and times.

    Raises
    ------
    SettingsError
        As of `make_rules`.
    """

    def __init__(self, labels: Sequence[str], settings: DetectSettings) -> None:
        self.labels = tuple(labels)
        self._settings = settings
        self._rules = make_rules(labels, settings)
        self._refractory = round(settings.refractory / settings.hop)
        self._window = np.zeros((settings.smoothing, len(labels)))
        self.reset()

    def set_thresholds(self, thresholds: Mapping[str, float], commands: Mapping[str, float] | None = None) -> None:
        """Take these thresholds, and the default for every other keyword; SettingsError as above.

        Those of the commands after a wake word stay as they are where none are given.
        """
        inside = self._settings.commands if commands is None else dict(commands)
        changed = msgspec.structs.replace(self._settings, thresholds=dict(thresholds), commands=inside)
        self._rules = make_rules(self.labels, changed)
        self._settings = changed

    def reset(self) -> None:
        """Forget everything: there is a gap."""
        self._window[:] = 0
        self._place = 0
        self._above = np.zeros(len(self.labels), np.int64)
        self._heard = np.zeros(len(self.labels), np.bool_)
        self._rest = np.zeros(len(self.labels), np.int64)
        self._awake = False

    @property
    def smoothed(self) -> NDArray[np.float64]:
        """The averages (L,) as they are now."""
        smoothed: NDArray[np.float64] = self._window.mean(axis=0)
        return smoothed

    @property
    def _rule(self) -> Rule:
        """What counted in the newest hop."""
        return self._rules.awake if self._awake else self._rules.waiting

    @property
    def closeness(self) -> NDArray[np.float64]:
        """The averages as shares of their thresholds of now (L,); 0 for what does not count now."""
        rule = self._rule
        closeness: NDArray[np.float64] = np.where(rule.active, self.smoothed / np.maximum(rule.thresholds, 1e-9), 0.0)
        return closeness

    def proposes(self, posteriors: NDArray[np.float32], share: float, *, awake: bool = False) -> bool:
        """Whether the newest window may belong to a keyword that counts: a second stage is worth its time.

        True where the posterior of a keyword in it, or the average with it, reaches `share` of the keyword's threshold.

        Parameters
        ----------
        posteriors
            (L,) of the newest window, by the first stage.
        share
            0 to 1.
        awake
            As of `step`, which follows.
        """
        rule = self._follow(awake)
        averages = (self._window.sum(axis=0) - self._window[self._place] + posteriors) / len(self._window)
        best = np.maximum(averages, posteriors)
        return bool((rule.active & (best >= share * rule.thresholds)).any())

    def step(self, posteriors: NDArray[np.float32] | None, *, awake: bool = False) -> tuple[int, float] | None:
        """Take the posteriors (L,) of the newest window, None when nobody judged it.

        Parameters
        ----------
        awake
            Whether a wake word was heard just before, so that commands count.

        Returns
        -------
        tuple or None
            Index of the keyword that was heard, and its average.
        """
        rule = self._follow(awake)
        self._window[self._place] = 0 if posteriors is None else posteriors
        self._place = (self._place + 1) % len(self._window)
        smoothed = self.smoothed
        above = rule.active & (smoothed >= rule.thresholds)
        self._above = np.where(above, self._above + 1, 0)
        self._heard &= above
        self._rest = np.maximum(self._rest - 1, 0)
        rivals = rule.active & ~(rule.yielding & (self._heard | ~above))
        best = int(np.argmax(np.where(rivals, smoothed, -1)))
        if self._above[best] < self._settings.patience or self._heard[best] or self._rest[best]:
            return None
        self._heard[best] = True
        self._rest[best] = self._refractory
        return best, float(smoothed[best])

    def _follow(self, awake: bool) -> Rule:
        """The rule that counts now; what it newly lets count begins from nothing."""
        before, self._awake = self._rule, awake
        rule = self._rule
        new = rule.active & ~before.active
        if new.any():
            self._window[:, new] = 0
            self._heard &= ~new
            self._rest[new] = 0
        return rule
