"""A wake word, then a command: what a device that sleeps until it is woken makes of a stream of posteriors.

Asleep, only the wake words count, and the highest among them. One that is heard opens a window of time in which the
commands count, from averages that begin at nothing. The first command that is heard closes it; so does its end. A wake
word that is heard again begins it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from auricle.errors import DataError
from auricle.hearing.curve import WITHIN
from auricle.hearing.rule import Posteriors, Rule, detect, keyword_mask
from auricle.hearing.scenes import COMMAND, WAKE, WAKE_ALONE, Scene, Spoken
from auricle.speech.audio import SAMPLE_RATE


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


def heard_awake(posteriors: Posteriors, labels: Sequence[str], waking: Waking) -> list[Heard]:
    """What is heard in a stream (hops, L), in order.

    Raises
    ------
    DataError
        A wake word or a command is not among the labels, or has no threshold.
    """
    commands = [
        label for label, word in zip(labels, keyword_mask(labels), strict=True) if word and label not in waking.wake
    ]
    if not set(waking.wake) <= set(labels) or not waking.wake:
        raise DataError(f"The wake words {', '.join(waking.wake)} are not labels of the model: {', '.join(labels)}.")
    missing = {*waking.wake, *commands} - {*waking.thresholds, *waking.commands}
    if missing:
        raise DataError(f'There is no threshold for "{min(missing)}".')
    wakes = _of(posteriors, labels, waking.wake, waking.thresholds, waking.rule)
    length = max(1, round(waking.window / waking.rule.hop))
    step = round(waking.rule.hop * SAMPLE_RATE)
    found: list[Heard] = []
    for number, (hop, word) in enumerate(wakes):
        found.append(Heard(word, (hop + 1) * step, command=False))
        end = min(hop + 1 + length, wakes[number + 1][0] if number + 1 < len(wakes) else len(posteriors))
        said = _of(posteriors[hop + 1 : end], labels, commands, waking.commands, waking.rule)[:1]
        found += [Heard(command, (hop + 1 + at + 1) * step, command=True) for at, command in said]
    return found


def _of(
    posteriors: Posteriors, labels: Sequence[str], words: Sequence[str], thresholds: Mapping[str, float], rule: Rule
) -> list[tuple[int, str]]:
    """Hop and word of each detection where only these words count."""
    columns = [labels.index(word) for word in words]
    levels = np.array([[thresholds[word] for word in words]])
    found = detect(posteriors[:, columns], words, levels, rule)
    return [(int(hop), words[int(label)]) for hop, label in zip(found.hop, found.label, strict=True)]


def command_counts(scene: Scene, found: Sequence[Heard], window: float) -> CommandCounts:
    """Judge what was heard in a scene of wake words and commands, or in one without keywords.

    A command is right when it is heard as itself from its start to a second after its end, wrong when the first command
    heard from the wake word's start on is another one, or the same too early. After a wake word without a command any
    command in its window is false.
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
            counts += replace(_command(word, words[number + 1], found), commands=1, reached=int(woken))
    for stretch in scene.stretches:
        inside = [h for h in found if stretch.start <= h.decided < stretch.end]
        commands = sum(h.command for h in inside)
        hours = (stretch.end - stretch.start) / SAMPLE_RATE / 3600
        counts += CommandCounts(false_wakes=len(inside) - commands, false_commands=commands, hours=hours)
    return counts


def _during(heard: Heard, word: Spoken) -> bool:
    return word.start <= heard.decided <= word.end + WITHIN * SAMPLE_RATE


def _command(wake: Spoken, command: Spoken, found: Sequence[Heard]) -> CommandCounts:
    until = command.end + WITHIN * SAMPLE_RATE
    first = next((h for h in found if h.command and wake.start <= h.decided <= until), None)
    if first is None:
        return CommandCounts()
    right = first.word == command.word and first.decided >= command.start
    return CommandCounts(right=int(right), wrong=int(not right))
