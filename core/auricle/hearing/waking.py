"""A wake word, then a command: what a device that sleeps until it is woken makes of a stream of posteriors.

Asleep, only the wake words count, and the highest among them. One that is heard opens a window of time in which the
commands count, from averages that begin at nothing, as soon as one can have been said. The first command that is heard
closes it; so does its end. A wake word that is heard again makes it whole again.

`auricle_edge.listening.detect` (`Decider`, `states`) are the rules themselves; this gives exactly their events, but for
two things that a detector takes from the sound. How long a command cannot have been said yet depends on where the wake
word ended; here it is the same for every wake word (`Waking.guard`). And a command that is fainter than its wake word
counts here at its threshold, which a pack's `command_drop` makes higher for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.hearing.rule import Posteriors, Rule, hold, keyword_mask, smooth
from auricle.speech.audio import SAMPLE_RATE

SHORTEST_SECONDS = 0.3
"""Seconds that a command lasts at least: sooner after the wake word, what sounds like one is the wake word itself."""
_NEVER = -(1 << 62)


@dataclass(frozen=True)
class Waking:
    """How a device with wake words listens."""

    wake: tuple[str, ...]
    thresholds: Mapping[str, float]
    """Of the wake words."""
    commands: Mapping[str, float]
    """Of every other keyword."""
    window: float = 3.0
    """Seconds after the wake word was heard in which commands count."""
    rule: Rule = field(default_factory=Rule)
    guard: int = 0
    """Hops after the one in which a wake word was heard in which commands do not count yet: `guard_hops` of the time
    since the word's end. 0 is for words that are decided `SHORTEST_SECONDS` less a hop after their end, or later."""


@dataclass(frozen=True)
class Heard:
    """A wake word, or a command in its window."""

    word: str
    decided: int
    """Sample at which it was decided."""
    command: bool


def guard_hops(since_end: float, hop: float) -> int:
    """Hops after the one in which a wake word was heard in which no command can have been said yet.

    Parameters
    ----------
    since_end
        Seconds from the end of the wake word to the end of the window of sound that it was heard in.
    hop
        Seconds.
    """
    return max(0, math.ceil(round((SHORTEST_SECONDS - since_end) / hop, 6)) - 1)


def hear_awake(posteriors: Posteriors, labels: Sequence[str], waking: Waking) -> list[Heard]:
    """What is heard in a stream (hops, L), in order: exactly what a detector hears whose wake words end as assumed.

    Raises
    ------
    DataError
        A wake word or a command is not among the labels, or has no threshold.
    """
    words = [label for label, word in zip(labels, keyword_mask(labels), strict=True) if word]
    if not set(waking.wake) <= set(words) or not waking.wake:
        raise DataError(f"The wake words {', '.join(waking.wake)} are not labels of the model: {', '.join(labels)}.")
    missing = {word for word in words if word not in (waking.thresholds if word in waking.wake else waking.commands)}
    if missing:
        raise DataError(f'There is no threshold for "{min(missing)}".')
    return _Walk(posteriors[:, [labels.index(word) for word in words]], words, waking).heard()


class _Walk:
    """A stream hop by hop where a wake word can be heard or the device is awake, and in one step where not.

    Parameters
    ----------
    posteriors
        (hops, K) of the keywords.
    words
        K keywords, in the order of the labels: of equal averages the first is the highest.
    waking
        With a threshold for each.
    """

    def __init__(self, posteriors: Posteriors, words: Sequence[str], waking: Waking) -> None:
        self._posteriors, self._words, self._rule = posteriors, words, waking.rule
        self._wake = np.array([word in waking.wake for word in words])
        said = [(waking.thresholds if word in waking.wake else waking.commands)[word] for word in words]
        self._levels = np.array(said)
        self._length = max(1, round(waking.window / waking.rule.hop))
        self._guard = min(max(0, waking.guard), self._length - 1)
        self._averages = smooth(posteriors, waking.rule.smoothing)
        self._steady = hold(self._averages, waking.rule.patience)
        above = self._averages >= self._levels
        self._fell = np.maximum.accumulate(np.where(above, -1, np.arange(len(posteriors))[:, None]), axis=0)
        """(hops, K) the last hop in which each average was below its threshold."""
        self._last = np.full(len(words), _NEVER)
        """(K,) the hop in which each wake word was heard last."""

    def heard(self) -> list[Heard]:
        """Everything, in order."""
        found: list[Heard] = []
        able = np.flatnonzero((self._steady >= self._levels)[:, self._wake].any(axis=1))
        hop = 0
        while (place := np.searchsorted(able, hop)) < len(able):
            hop = int(able[place])
            woken = self._decide(hop, self._averages[hop], self._steady[hop], self._wake)
            if woken is not None:
                hop = self._awake(hop, woken, found)
            hop += 1
        return found

    def _awake(self, hop: int, woken: int, found: list[Heard]) -> int:
        """From the hop in which a wake word was heard to the last one of its window, which is returned."""
        begin, end, word = hop + 1 + self._guard, hop + 1 + self._length, woken
        found.append(self._event(hop, word))
        averages, steady = self._from(begin, end)
        while hop + 1 < min(end, len(self._posteriors)):
            hop += 1
            listens = hop >= begin
            said = self._listen(hop, averages[hop - begin], steady[hop - begin]) if listens else self._sleeping(hop)
            if said is None:
                continue
            found.append(self._event(hop, said))
            if not self._wake[said]:
                return hop
            end = hop + 1 + self._length
            begin = begin if listens and not self._guard else hop + 1 + self._guard
            averages, steady = self._from(begin, end)
        return hop

    def _from(self, begin: int, end: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Averages (hops, K) from a hop on, and their least over the patience; those of commands begin at nothing."""
        # From a whole number of windows on, so that they are added in the order of the whole stream.
        first = begin - begin % self._rule.smoothing
        rows = self._posteriors[first:end].copy()
        rows[: begin - first] = 0
        averages = smooth(rows, self._rule.smoothing)[begin - first :]
        steady = hold(averages, self._rule.patience)
        averages[:, self._wake] = self._averages[begin:end, self._wake]
        steady[:, self._wake] = self._steady[begin:end, self._wake]
        return averages, steady

    def _sleeping(self, hop: int) -> int | None:
        return self._decide(hop, self._averages[hop], self._steady[hop], self._wake)

    def _listen(self, hop: int, averages: NDArray[np.float64], steady: NDArray[np.float64]) -> int | None:
        """A wake word holds a command back only while it can be heard itself."""
        able = (averages >= self._levels) & (self._fell[hop] >= self._last)
        return self._decide(hop, averages, steady, ~self._wake | able)

    def _decide(
        self, hop: int, averages: NDArray[np.float64], steady: NDArray[np.float64], rivals: NDArray[np.bool_]
    ) -> int | None:
        """The highest of the rivals, where it is heard in this hop."""
        best = int(np.argmax(np.where(rivals, averages, -1)))
        fell, last = self._fell[hop, best] >= self._last[best], self._last[best]
        if steady[best] < self._levels[best] or not fell or hop - last < self._rule.rest:
            return None
        if self._wake[best]:
            self._last[best] = hop
        return best

    def _event(self, hop: int, word: int) -> Heard:
        step = round(self._rule.hop * SAMPLE_RATE)
        return Heard(self._words[word], (hop + 1) * step, command=not self._wake[word])
