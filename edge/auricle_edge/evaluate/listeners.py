"""What is judged: a pack's models with their own weights, with others, or several together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from auricle.errors import DataError, SettingsError
from auricle.hearing.rule import Rule
from auricle.hearing.waking import Waking
from auricle.packs.pack import Pack
from auricle.packs.start import read_start, start_weights
from auricle.wire.tensors import Flat
from auricle_edge.listening.detect import DetectSettings, Recognise, ensemble
from auricle_edge.listening.detect.decision import is_keyword
from auricle_edge.runtimes import Runtime, recogniser


@dataclass(frozen=True, eq=False)
class Listener:
    """A name, and what recognises."""

    name: str
    recognise: Recognise
    weights: int
    """How many a window goes through."""


def listeners_of(given: Sequence[str], pack: Pack, runtime: Runtime) -> list[Listener]:
    """Listeners of `NAME=MODEL[:FILE.safetensors][+MODEL[:FILE]...]`; the pack's plug-in where none is given.

    Raises
    ------
    SettingsError
        One is not written so, or a name is there twice.
    PackError
        The pack has no such model, no weights of it, or the file's are not its.
    """
    made = [_listener(text, pack, runtime) for text in given or [f"{pack.manifest.plugin}={pack.manifest.plugin}"]]
    names = [listener.name for listener in made]
    if len(set(names)) != len(names):
        raise SettingsError(f"--weights names {max(names, key=names.count)} twice: give each its own name.")
    return made


def _listener(text: str, pack: Pack, runtime: Runtime) -> Listener:
    name, equals, models = text.partition("=")
    if not equals or not name or not models:
        raise SettingsError(
            f'--weights "{text}" is not NAME=MODEL, NAME=MODEL:FILE.safetensors or NAME=MODEL+MODEL:FILE.'
        )
    parts, size = list[Recognise](), 0
    for part in models.split("+"):
        model, _, file = part.partition(":")
        weights = _weights(pack, model, file)
        parts.append(recogniser(runtime, model, weights))
        size += len(weights)
    return Listener(name, parts[0] if len(parts) == 1 else ensemble(parts), size)


def _weights(pack: Pack, model: str, file: str) -> Flat:
    if not file:
        pack.table(model)
        return start_weights(pack, model)
    try:
        data = Path(file).read_bytes()
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
