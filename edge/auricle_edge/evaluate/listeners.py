"""What is judged: a pack's models with their own weights, with others, several together, or in two stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec import UNSET

from auricle.errors import DataError, SettingsError
from auricle.files import read_kept
from auricle.hearing.rule import Rule
from auricle.hearing.waking import Waking
from auricle.packs.pack import Pack
from auricle.packs.start import read_start, start_weights
from auricle.wire.tensors import Flat
from auricle_edge.listening.detect import Cascade, DetectSettings, Recognise, ensemble
from auricle_edge.listening.detect.rules import is_keyword
from auricle_learning.runtimes import Runtime, recogniser


@dataclass(frozen=True, eq=False)
class Listener:
    """A name, and what recognises."""

    name: str
    recognise: Recognise
    weights: int
    """How many every window goes through."""
    second_weights: int = 0
    """How many those windows go through that the second stage judges, too."""


SECOND = ",second:"
"""What stands between the two stages of a listener."""
FORMS = "NAME=MODEL, NAME=MODEL:FILE.safetensors, NAME=MODEL+MODEL or NAME=MODEL,second:MODEL"


def listeners_of(given: Sequence[str], pack: Pack, choose: Callable[[], Runtime]) -> list[Listener]:
    """Listeners of `NAME=STAGE[,second:STAGE]`, a stage being `MODEL[:FILE.safetensors][+MODEL[:FILE]...]`.

    Several models of a stage judge with the mean of their posteriors; a second stage judges what the first proposes, as
    on a device (`Cascade`). Where none is given, it is what a device listens with that nobody has taught: the pack's
    plug-in, and the second stage that the pack names.

    Parameters
    ----------
    choose
        Gives the runtime; asked once all weights are read.

    Raises
    ------
    SettingsError
        One is not written so, or a name is there twice.
    PackError
        The pack has no such model, no weights of it, or the file's are not its.
    """
    stages = [_stages(text) for text in given or [_usual(pack)]]
    names = [name for name, _, _ in stages]
    if len(set(names)) != len(names):
        raise SettingsError(f"--weights names {max(names, key=names.count)} twice: give each its own name.")
    models = {model for _, *both in stages for stage in both if stage for model in stage.split("+")}
    weights = {model: _weights(pack, model) for model in sorted(models)}
    made = _Models(pack.labels, weights, choose())
    return [_listener(name, one, two, made) for name, one, two in stages]


def _usual(pack: Pack) -> str:
    plugin, second = pack.manifest.plugin, UNSET if pack.listening is None else pack.listening.second_stage
    return f"{plugin}={plugin}" if second is UNSET else f"both stages={plugin}{SECOND}{second}"


class _Models:
    """Models by how they are named, each made once."""

    def __init__(self, labels: Sequence[str], weights: Mapping[str, Flat], runtime: Runtime) -> None:
        self.labels = labels
        self._weights, self._runtime = weights, runtime
        self._made: dict[str, tuple[Recognise, int]] = {}

    def stage(self, names: str) -> tuple[Recognise, int]:
        """What `MODEL[:FILE][+MODEL[:FILE]...]` recognises with, and how many weights it has."""
        parts = [self._model(name) for name in names.split("+")]
        size = sum(weights for _, weights in parts)
        return (parts[0][0] if len(parts) == 1 else ensemble([recognise for recognise, _ in parts])), size

    def _model(self, name: str) -> tuple[Recognise, int]:
        if name not in self._made:
            weights = self._weights[name]
            self._made[name] = recogniser(self._runtime, name.partition(":")[0], weights), len(weights)
        return self._made[name]


def _stages(text: str) -> tuple[str, str, str]:
    """A listener's name and its stages, the second one empty where it has none."""
    name, equals, said = text.partition("=")
    one, comma, two = said.partition(SECOND)
    if not equals or not name or not one or bool(comma) != bool(two) or SECOND in two:
        raise SettingsError(f'--weights "{text}" is not {FORMS}.')
    return name, one, two


def _listener(name: str, one: str, two: str, models: _Models) -> Listener:
    first, size = models.stage(one)
    if not two:
        return Listener(name, first, size)
    second, more = models.stage(two)
    keywords = np.array([is_keyword(label) for label in models.labels])
    return Listener(name, Cascade(first, second, keywords, DetectSettings().proposal), size, more)


def _weights(pack: Pack, named: str) -> Flat:
    """The weights (P,) of `MODEL[:FILE]`."""
    model, _, file = named.partition(":")
    if not file:
        pack.table(model)
        return start_weights(pack, model)
    try:
        data = read_kept(Path(file))
    except OSError as error:
        raise DataError(f"The weights {file} cannot be read: {error.strerror}.") from error
    return read_start(data, pack.table(model), file)


def rule_of(settings: DetectSettings) -> Rule:
    """The rule of these settings, but for the thresholds."""
    return Rule(settings.hop, settings.smoothing, settings.patience, settings.refractory)


def thresholds_of(labels: Sequence[str], settings: DetectSettings) -> dict[str, float]:
    """The threshold of each keyword."""
    return {label: settings.thresholds.get(label, settings.threshold) for label in labels if is_keyword(label)}


def waking_of(labels: Sequence[str], settings: DetectSettings, guard: int = 0) -> Waking | None:
    """How a device sleeps and wakes with these settings; None without wake words.

    Parameters
    ----------
    guard
        Hops after each wake word in which no command counts, which a detector finds by the sound (`Waking`).
    """
    if not settings.wake:
        return None
    usual = thresholds_of(labels, settings)
    commands = {word: settings.commands.get(word, level) for word, level in usual.items() if word not in settings.wake}
    wake = {word: usual[word] for word in settings.wake}
    return Waking(settings.wake, wake, commands, settings.window, rule_of(settings), guard)
