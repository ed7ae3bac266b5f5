"""Which keywords count, and from which average: as the device and its pack say, asleep and awake, more or less keen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.errors import SettingsError, closest, nearest
from auricle.hearing.rule import refractory_of
from auricle.packs.manifest import Listening
from auricle.packs.pack import Pack
from auricle.settings import toml_key
from auricle.speech.spelling import Spelling, small_letters
from auricle_edge.listening.detect.settings import ANY_DROP, DetectSettings, DetectTable, DeviceSettings


def is_keyword(label: str) -> bool:
    """Whether a label is a word that can be heard: `_unknown_` and `_silence_` are not."""
    return not (label.startswith("_") and label.endswith("_"))


@dataclass(frozen=True, eq=False)
class Rule:
    """What counts at a time, by label."""

    active: NDArray[np.bool_]
    """(L,) keywords that count."""
    thresholds: NDArray[np.float64]
    """(L,) averages from which they do."""
    yielding: NDArray[np.bool_]
    """(L,) keywords that hold back a lower one only while they can be heard themselves."""


@dataclass(frozen=True, eq=False)
class Rules:
    """What counts while the device waits, and in the window after a wake word; both are one without wake words."""

    waiting: Rule
    awake: Rule


def make_rules(labels: Sequence[str], settings: DetectSettings) -> Rules:
    """The rules of a pack's labels (L) under settings.

    Without wake words every keyword always counts; so it does where all of them are wake words, since no command could
    follow. Else only wake words count while the device waits; in the window every keyword does, the wake words at
    their usual thresholds. A wake word is still in the sound then and would hold back the command that follows it: it
    yields.

    Raises
    ------
    SettingsError
        A threshold or a wake word that is not a keyword, a wake word twice or among the commands, or no keyword at all.
    """
    words = [label for label in labels if is_keyword(label)]
    if not words:
        raise SettingsError(f"There is no keyword among the labels {', '.join(labels)}.")
    _check(settings.thresholds, words, 'There is no keyword "{}" to set a threshold for')
    _check_wake(settings.wake, words)
    if len(set(settings.wake)) != len(settings.wake):
        raise SettingsError("[detect] wake lists a word twice.")
    wake = _real_wake_words(settings.wake, labels)
    commands = [word for word in words if word not in wake]
    _check(settings.commands, commands, '[detect.commands]: there is no command "{}"')
    return _rules(labels, settings, wake)


def _check(named: Iterable[str], known: Sequence[str], wrong: str) -> None:
    for word in named:
        if word not in known:
            raise SettingsError(f"{wrong.format(word)}: {nearest(word, known)}")


SLIP = 0.75
"""How alike a wake word is, at the least, to the keyword of as many words that was meant."""


def _check_wake(wake: Sequence[str], known: Sequence[str]) -> None:
    """Name the keyword that was meant; for any other text the command that makes a pack with it."""
    missing = [word for word in wake if word not in known]
    for word in missing:
        alike = [each for each in known if len(each.split()) == len(word.split())]
        if closest(word, alike, SLIP) or "_" in word or not any(map(str.isalpha, word)):
            _check((word,), known, '[detect] wake: there is no keyword "{}"')
    if missing:
        file = "-".join(re.findall(r"\w+", missing[0].lower()))
        raise SettingsError(
            f'[detect] wake: the pack has no keyword "{missing[0]}": make one that has with auricle export wakeword '
            f"{' '.join(map(_for_shell, wake))} --out {file}.tar.zst, and name that as pack."
        )


def _for_shell(word: str) -> str:
    """A phrase as the command takes it, in small letters and single spaces, for a shell."""
    import shlex  # for a mistake only: a device that listens does without

    word = small_letters(word)
    return f'"{word}"' if re.fullmatch(r"\w[\w' -]* [\w' -]*", word) else shlex.quote(word)


def _rules(labels: Sequence[str], settings: DetectSettings, waited_for: Sequence[str]) -> Rules:
    def thresholds(special: Mapping[str, float]) -> NDArray[np.float64]:
        usual = {**dict.fromkeys(labels, settings.threshold), **settings.thresholds, **special}
        return np.array([usual[label] for label in labels])

    keywords = np.array([is_keyword(label) for label in labels])
    wake = np.array([label in waited_for for label in labels])
    nobody = np.zeros(len(labels), np.bool_)
    waiting = Rule(wake if waited_for else keywords, thresholds({}), nobody)
    return Rules(waiting, Rule(keywords, thresholds(settings.commands), wake) if waited_for else waiting)


T = TypeVar("T")


def detect_settings(said: DetectTable, pack: Pack) -> DetectSettings:
    """Settings for a detector: the table `[detect]`, over the pack's `listening`, over the defaults.

    Thresholds are merged word by word; capitals, marks and dots of words do not matter. A `threshold` in the table is
    for every keyword that the table itself gives none: the pack's are then left out. `wake = []` makes a pack with wake
    words listen to every keyword always; so do wake words that are all keywords of the pack: no command can follow.

    Raises
    ------
    SettingsError
        A word that is not a keyword of the pack, with the nearest that is, or a wake word twice.
    """
    listening, said = pack.listening or Listening(hop=pack.manifest.task.usual_hop), _as_spelt(said, pack.labels)
    wake = _real_wake_words(listening.wake if said.wake is None else said.wake, pack.labels)
    in_sight, packs_drop = refractory_of(pack.manifest.task.seconds), listening.command_drop
    settings = DetectSettings(
        **{name: getattr(said, name) for name in DeviceSettings.__struct_fields__},
        refractory=_first(said.refractory, in_sight),
        hangover=_first(said.hangover, in_sight),
        hop=_first(said.hop, listening.hop),
        smoothing=_first(said.smoothing, listening.smoothing),
        patience=_first(said.patience, listening.patience),
        threshold=_first(said.threshold, DetectSettings().threshold),
        thresholds={**(listening.thresholds if said.threshold is None else {}), **said.thresholds},
        wake=wake,
        window=_first(said.window, listening.window),
        commands=_commands(listening.commands, said.commands, wake),
        command_drop=_first(said.command_drop, ANY_DROP if packs_drop is UNSET else packs_drop),
    )
    make_rules(pack.labels, settings)
    return settings


def thresholds_table(thresholds: Mapping[str, object]) -> str:
    """The lines of edge.toml for thresholds by word; a phrase, or a word with other letters than a to z, is quoted."""
    return "\n".join(["[detect.thresholds]", *(f"{toml_key(word)} = {value}" for word, value in thresholds.items())])


def _as_spelt(said: DetectTable, labels: Sequence[str]) -> DetectTable:
    """The table with its words as labels have them."""
    spelling = Spelling(filter(is_keyword, labels))
    wake = None if said.wake is None else tuple(map(spelling.typed, said.wake))
    thresholds, commands = (
        {spelling.typed(word): level for word, level in levels.items()} for levels in (said.thresholds, said.commands)
    )
    return msgspec.structs.replace(said, wake=wake, thresholds=thresholds, commands=commands)


def _real_wake_words(wake: tuple[str, ...], labels: Sequence[str]) -> tuple[str, ...]:
    """The wake words; none where they are all keywords that there are."""
    return () if sorted(wake) == sorted(filter(is_keyword, labels)) else wake


def _commands(packs: Mapping[str, float], own: Mapping[str, float], wake: tuple[str, ...]) -> dict[str, float]:
    """The pack's thresholds of commands, but for words that are wake words here, and the device's own over them."""
    kept = {word: threshold for word, threshold in packs.items() if word not in wake}
    return {**kept, **own}


def _first(own: T | None, usual: T) -> T:
    return usual if own is None else own


STEP = 0.05
"""Of smoothed posterior: a threshold of 0.8 is 0.75 at +1 and 0.9 at -2."""
LEAST, MOST = 0.1, 0.99
"""Thresholds are not shifted beyond these."""


def shift_threshold(threshold: float, step: int) -> float:
    """A threshold, `step` steps more sensitive; one that is beyond the limits already stays where it is."""
    low, high = min(LEAST, threshold), max(MOST, threshold)
    return round(min(max(threshold - step * STEP, low), high), 6)


def tune(settings: DetectSettings, labels: Sequence[str], step: int) -> DetectSettings:
    """The settings with the threshold of each keyword among the labels shifted; those themselves at step 0."""
    if step == 0:
        return settings
    words = [label for label in labels if is_keyword(label)]
    thresholds = {word: shift_threshold(settings.thresholds.get(word, settings.threshold), step) for word in words}
    commands = {word: shift_threshold(level, step) for word, level in settings.commands.items()}
    return msgspec.structs.replace(settings, thresholds=thresholds, commands=commands)
