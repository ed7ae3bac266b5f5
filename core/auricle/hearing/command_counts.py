"""What became of wake words and commands that were said, and what was heard that nobody said."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from auricle.hearing.curve import WITHIN_SECONDS
from auricle.hearing.utterances import Scene, Spoken
from auricle.hearing.wake_scenes import COMMAND, OVER_SPEECH, WAKE, WAKE_ALONE
from auricle.hearing.waking import Heard
from auricle.speech.audio import SAMPLE_RATE


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
    opened: int = 0
    """Of these, heard, or followed by a command all the same: their windows opened."""
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


def command_counts(scene: Scene, found: Sequence[Heard], window: float, clear: Collection[str] = ()) -> CommandCounts:
    """Judge what was heard in a scene of wake words and commands in noise, or in one without keywords.

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
    counts = _of_words(scene, found, window, clear, (WAKE, WAKE_ALONE, COMMAND))
    for stretch in scene.stretches:
        inside = [h for h in found if stretch.start <= h.decided < stretch.end]
        commands = sum(h.command for h in inside)
        hours = (stretch.end - stretch.start) / SAMPLE_RATE / 3600
        counts += CommandCounts(false_wakes=len(inside) - commands, false_commands=commands, hours=hours)
    return counts


def counts_over_speech(
    scene: Scene, found: Sequence[Heard], window: float, clear: Collection[str] = ()
) -> CommandCounts:
    """The same of wake words and commands that are said over running speech."""
    return _of_words(scene, found, window, clear, tuple(OVER_SPEECH.values()))


def _of_words(
    scene: Scene, found: Sequence[Heard], window: float, clear: Collection[str], kinds: Sequence[str]
) -> CommandCounts:
    """Of the words of three kinds: before a command, alone, and a command."""
    counts, words = CommandCounts(), scene.words
    followed, alone, command = kinds
    for number, word in enumerate(words):
        if word.kind not in (followed, alone):
            continue
        woken = any(h.word == word.word and _during(h, word) for h in found if not h.command)
        counts += CommandCounts(wakes=1, woken=int(woken))
        if word.kind == alone:
            until = word.end + (WITHIN_SECONDS + window) * SAMPLE_RATE
            false = any(h.command and word.start <= h.decided <= until for h in found)
            counts += CommandCounts(alone=1, opened=int(woken or false), false=int(false))
        elif number + 1 < len(words) and words[number + 1].kind == command:
            judged = _command(word, words[number + 1], found)
            known = words[number + 1].recording in clear
            counts += replace(
                judged, commands=1, reached=int(woken), clear=int(known), clear_right=judged.right if known else 0
            )
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
    return word.start <= heard.decided <= word.end + WITHIN_SECONDS * SAMPLE_RATE


def _command(wake: Spoken, command: Spoken, found: Sequence[Heard]) -> CommandCounts:
    until = command.end + WITHIN_SECONDS * SAMPLE_RATE
    first = next((h for h in found if h.command and wake.start <= h.decided <= until), None)
    if first is None:
        return CommandCounts()
    right = first.word == command.word and first.decided >= command.start
    return CommandCounts(right=int(right), wrong=int(not right))
