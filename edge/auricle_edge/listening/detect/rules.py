"""Which keywords count, and from which average: always, while the device waits for a wake word, and after one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auricle.errors import SettingsError, nearest
from auricle_edge.listening.detect.settings import DetectSettings


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

    Without wake words every keyword always counts. With them, only these count while the device waits; in the window
    every keyword does, the wake words at their usual thresholds. A wake word is still in the sound then and would hold
    back the command that follows it: it yields.

    Raises
    ------
    SettingsError
        A threshold or a wake word that is no keyword, a wake word twice or among the commands, no command left, or no
        keyword at all.
    """
    words = [label for label in labels if is_keyword(label)]
    if not words:
        raise SettingsError(f"There is no keyword among the labels {', '.join(labels)}.")
    _check(settings.thresholds, words, 'There is no keyword "{}" to set a threshold for')
    _check(settings.wake, words, '[detect] wake: there is no keyword "{}"')
    if len(set(settings.wake)) != len(settings.wake):
        raise SettingsError("[detect] wake lists a word twice.")
    if settings.wake and not set(words) - set(settings.wake):
        raise SettingsError("[detect] wake names every keyword, so that no command is left: name fewer.")
    commands = [word for word in words if word not in settings.wake]
    _check(settings.commands, commands, '[detect.commands]: there is no command "{}"')
    return _rules(labels, settings)


def _check(named: Iterable[str], known: Sequence[str], wrong: str) -> None:
    for word in named:
        if word not in known:
            raise SettingsError(f"{wrong.format(word)}: {nearest(word, known)}")


def _rules(labels: Sequence[str], settings: DetectSettings) -> Rules:
    def thresholds(special: Mapping[str, float]) -> NDArray[np.float64]:
        usual = {**dict.fromkeys(labels, settings.threshold), **settings.thresholds, **special}
        return np.array([usual[label] for label in labels])

    keywords = np.array([is_keyword(label) for label in labels])
    wake = np.array([label in settings.wake for label in labels])
    nobody = np.zeros(len(labels), np.bool_)
    waiting = Rule(wake if settings.wake else keywords, thresholds({}), nobody)
    return Rules(waiting, Rule(keywords, thresholds(settings.commands), wake) if settings.wake else waiting)
