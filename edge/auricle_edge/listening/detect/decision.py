"""From posteriors, one row a hop, to decisions: what was heard or almost heard, and what counts now.

    asleep --wake word--> awake --command (heard), or the window is over--> asleep

The wake word again makes the window as long as at the beginning. Without wake words a detector is always open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.hearing.waking import guard_hops
from auricle_edge.listening.detect.rules import Rule, make_rules
from auricle_edge.listening.detect.settings import DetectSettings
from auricle_edge.listening.sound import RATE, Detection


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

    def step(
        self, posteriors: NDArray[np.float32] | None, *, awake: bool = False, rise: float = 0.0
    ) -> tuple[int, float] | None:
        """Take the posteriors (L,) of the newest window, None when nobody judged it.

        Parameters
        ----------
        awake
            Whether a wake word was heard just before, so that commands count.
        rise
            By how much their thresholds are higher in this window, since it is fainter than the wake word (`Awake`).

        Returns
        -------
        tuple or None
            Index of the keyword that was heard, and its average.
        """
        rule = self._follow(awake)
        self._window[self._place] = 0 if posteriors is None else posteriors
        self._place = (self._place + 1) % len(self._window)
        smoothed = self.smoothed
        above = rule.active & (smoothed >= rule.thresholds + np.where(rule.yielding, 0.0, rise))
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


@dataclass(frozen=True)
class NearMiss:
    """A keyword that was almost heard."""

    word: str
    score: float
    """Its smoothed posterior where it came nearest to the threshold."""
    start: int
    """First sample of the window that was judged there, as in `Detection`."""
    end: int


class NearWatch:
    """Follows a detector hop by hop; the same sound gives the same near-misses however it was cut into blocks.

    A near-miss is a run of hops in which the closeness (smoothed posterior over threshold) of the keyword that is
    closest stays at `share` or more, and in which no keyword was accepted. What follows an acceptance within the
    refractory time, or before everything fell below `share`, is the end of the same word and counts for nothing.

    Parameters
    ----------
    labels
        L labels.
    share
        Of the threshold, above 0 and at most 1.
    rest
        Hops of the refractory time.
    found
        Called with each near-miss when its run is over, by the thread that listens: it must not block.
    """

    def __init__(self, labels: tuple[str, ...], share: float, rest: int, found: Callable[[NearMiss], None]) -> None:
        self._labels, self._share, self._rest, self._found = labels, share, rest, found
        self.reset()

    def reset(self) -> None:
        """Forget everything: there is a gap."""
        self._best: NearMiss | None = None
        self._closest = 0.0
        self._accepted = False
        self._left = 0

    def hop(
        self, window: tuple[int, int], smoothed: NDArray[np.float64], closeness: NDArray[np.float64], accepted: bool
    ) -> None:
        """Take a hop: its window, the averages (L,), their shares of the thresholds (L,), whether one was accepted."""
        self._left = max(0, self._left - 1)
        if accepted:
            self._best, self._accepted, self._left = None, True, self._rest
            return
        label = int(np.argmax(closeness))
        if closeness[label] < self._share:
            self._end()
        elif not self._accepted and (self._best is None or closeness[label] > self._closest):
            self._closest = float(closeness[label])
            self._best = NearMiss(self._labels[label], float(smoothed[label]), *window)

    def _end(self) -> None:
        """A run is over."""
        best, self._best, self._closest = self._best, None, 0.0
        self._accepted = self._accepted and self._left > 0
        if best is not None:
            self._found(best)


RISE = 0.05
"""Of smoothed posterior, by which a command's threshold is higher for each decibel that it is too faint."""


@dataclass(frozen=True)
class Awake:
    """The time after a wake word."""

    wake: Detection
    left: int
    """Hops that are still to come."""
    guard: int
    """Of these, the first in which no command can have been said yet."""

    @property
    def listens(self) -> bool:
        """Whether commands count in the hop that comes now."""
        return self.guard == 0

    def rise(self, level: float, drop: float) -> float:
        """By how much thresholds of commands are higher for what is fainter than the wake word, of smoothed posterior.

        Who says a wake word says the command from the same place. Somebody who reads or talks in the background is
        fainter, or the wake word would hardly have been heard, and goes on while commands count.

        Parameters
        ----------
        level
            dBFS of the loudest 0.3 s of the newest window, as the wake word's `level`.
        drop
            Decibels by which a command may be fainter at its own threshold; each further one adds `RISE`.
        """
        return 0.0 if self.wake.level is None else RISE * max(0.0, self.wake.level - level - drop)

    def after_hop(self) -> Awake | None:
        """What is left after a hop; None when the window is over."""
        return replace(self, left=self.left - 1, guard=max(0, self.guard - 1)) if self.left > 1 else None


def waken(wake: Detection, window: float, hop: float) -> Awake:
    """The window that a wake word opens.

    Commands count from the first hop whose window of sound ends `SHORTEST_SECONDS` (`auricle.hearing.waking`) or more
    after the wake word: the end of the word by its energy, or where that is not known the end of the window it was
    heard in.

    Parameters
    ----------
    wake
        The wake word.
    window, hop
        Seconds.
    """
    hops = max(1, round(window / hop))
    return Awake(wake, hops, min(guard_hops((wake.end - wake.word_end) / RATE, hop), hops - 1))
