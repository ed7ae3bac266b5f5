"""A wake word, then a command: what a device that sleeps until it is woken makes of a stream of posteriors.

Asleep, only the wake words count, and the highest among them. One that is heard opens a window of time in which the
commands count, from averages that begin at nothing, as soon as one can have been said. The first command that is heard
closes it; so does its end. A wake word that is heard again makes it whole again.

`auricle_edge.listening.detect` (`Decider`, `states`) are the rules themselves; this gives exactly their events, but for
one thing: how long a command cannot have been said yet depends on where the wake word ended, which a detector takes
from the energy of the sound. Here it is the same for every wake word (`Waking.guard`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.hearing.curve import WITHIN
from auricle.hearing.rule import Posteriors, Rule, held, keyword_mask, smoothed
from auricle.hearing.scenes import COMMAND, WAKE, WAKE_ALONE, Scene, Spoken
from auricle.speech.audio import SAMPLE_RATE

SHORTEST = 0.3
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
    since the word's end. 0 is for words that are decided `SHORTEST` less a hop after their end, or later."""


@dataclass(frozen=True)
class Heard:
    """A wake word, or a command in its window."""

    word: str
    decided: int
    """Sample at which it was decided."""
    command: bool


@dataclass(frozen=True)
class CommandCounts:
    """What became of wake words and commands; sums of scenes."""

    wakes: int = 0
    """Wake words said in scenes of commands, with a command or without."""
    woken: int = 0
    """Of these, heard."""
    commands: int = 0
    """Commands said after a wake word."""
    reached: int = 0
    """Of these, said after a wake word that was heard."""
    right: int = 0
    wrong: int = 0
    """Taken for another command, or one heard before it was said."""
    clear: int = 0
    """Commands whose recording alone is named rightly."""
    clear_right: int = 0
    """Of these, taken rightly."""
    alone: int = 0
    """Wake words without a command."""
    false: int = 0
    """Of these, followed by a command that nobody said."""
    false_wakes: int = 0
    """In sound without keywords."""
    false_commands: int = 0
    """The same: what a device would have done that nobody wanted."""
    hours: float = 0.0
    """Of sound without keywords."""

    def __add__(self, other: CommandCounts) -> CommandCounts:
        return CommandCounts(
            *(getattr(self, name) + getattr(other, name) for name in CommandCounts.__dataclass_fields__)
        )


def guard_hops(since_end: float, hop: float) -> int:
    """Hops after the one in which a wake word was heard in which no command can have been said yet.

    Parameters
    ----------
    since_end
        Seconds from the end of the wake word to the end of the window of sound that it was heard in.
    hop
        Seconds.
    """
    return max(0, math.ceil(round((SHORTEST - since_end) / hop, 6)) - 1)


def heard_awake(posteriors: Posteriors, labels: Sequence[str], waking: Waking) -> list[Heard]:
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
        self._averages = smoothed(posteriors, waking.rule.smoothing)
        self._steady = held(self._averages, waking.rule.patience)
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
        averages = smoothed(rows, self._rule.smoothing)[begin - first :]
        steady = held(averages, self._rule.patience)
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


def command_counts(scene: Scene, found: Sequence[Heard], window: float, clear: Collection[str] = ()) -> CommandCounts:
    """Judge what was heard in a scene of wake words and commands, or in one without keywords.

    A command is right when it is heard as itself from its start to a second after its end, wrong when the first command
    heard from the wake word's start on is another one, or the same too early. After a wake word without a command any
    command in its window is false.

    Parameters
    ----------
    window
        Seconds in which commands count after a wake word.
    clear
        Fingerprints of recordings that a model names rightly when it hears them alone.
    """
    counts = CommandCounts()
    words = scene.words
    for number, word in enumerate(words):
        if word.kind not in (WAKE, WAKE_ALONE):
            continue
        woken = any(h.word == word.word and _during(h, word) for h in found if not h.command)
        counts += CommandCounts(wakes=1, woken=int(woken))
        if word.kind == WAKE_ALONE:
            until = word.end + (WITHIN + window) * SAMPLE_RATE
            false = any(h.command and word.start <= h.decided <= until for h in found)
            counts += CommandCounts(alone=1, false=int(false))
        elif number + 1 < len(words) and words[number + 1].kind == COMMAND:
            judged = _command(word, words[number + 1], found)
            known = words[number + 1].recording in clear
            counts += replace(
                judged, commands=1, reached=int(woken), clear=int(known), clear_right=judged.right if known else 0
            )
    for stretch in scene.stretches:
        inside = [h for h in found if stretch.start <= h.decided < stretch.end]
        commands = sum(h.command for h in inside)
        hours = (stretch.end - stretch.start) / SAMPLE_RATE / 3600
        counts += CommandCounts(false_wakes=len(inside) - commands, false_commands=commands, hours=hours)
    return counts


def wakes_heard(scene: Scene, found: Sequence[Heard], wake: Sequence[str]) -> list[tuple[Spoken, bool]]:
    """Each wake word that is said in a scene of any kind, and whether it was heard; each detection counts once."""
    left = [heard for heard in found if not heard.command]
    said = []
    for word in scene.words:
        if word.word in wake:
            heard = next((h for h in left if h.word == word.word and _during(h, word)), None)
            said.append((word, heard is not None))
            left = [h for h in left if h is not heard]
    return said


def _during(heard: Heard, word: Spoken) -> bool:
    return word.start <= heard.decided <= word.end + WITHIN * SAMPLE_RATE


def _command(wake: Spoken, command: Spoken, found: Sequence[Heard]) -> CommandCounts:
    until = command.end + WITHIN * SAMPLE_RATE
    first = next((h for h in found if h.command and wake.start <= h.decided <= until), None)
    if first is None:
        return CommandCounts()
    right = first.word == command.word and first.decided >= command.start
    return CommandCounts(right=int(right), wrong=int(not right))
