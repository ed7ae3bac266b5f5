"""Sounds and a store for the tests of clips: small, quick and the same every time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.packs.pack import Task
from auricle.speech.features import LogMel
from auricle_edge.clips import ClipSettings, ClipStore, NewClip, Source

LABELS = ("yes", "no", "_unknown_", "_silence_")
LENGTH = 16_000
FRONTEND = LogMel(Task(labels=LABELS))
NO_UNKNOWN = LogMel(Task(labels=("yes", "no")))
START = 1_790_000_000.0


def tone(seed: int, level: float = 3000.0, length: int = LENGTH) -> NDArray[np.int16]:
    """A second of noise that differs by seed."""
    return np.random.default_rng(seed).normal(0, level, length).astype(np.int16)


def spoken(
    seconds: float = 4.0, at: float = 1.0, lasting: float = 0.5, level: float = 6000.0, room: float = 20.0
) -> NDArray[np.int16]:
    """A room in which a burst of noise stands for a word."""
    rng = np.random.default_rng(0)
    sound = rng.normal(0, room, int(seconds * 16_000))
    first, after = int(at * 16_000), int((at + lasting) * 16_000)
    sound[first:after] += rng.normal(0, level, len(sound[first:after]))
    return np.clip(sound, -32_768, 32_767).astype(np.int16)


def new(seed: int = 0, word: str | None = "yes", source: Source = "enrolled", **more: Any) -> NewClip:
    """A clip to add."""
    return NewClip(tone(seed), word, source, **{"weight": 1.0, **more})


class Hands:
    """A clock that goes when it is told to."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        """What time it is."""
        return self.now


def store(folder: Path, *, frontend: LogMel = FRONTEND, **more: Any) -> ClipStore:
    """A store whose held-out part is not left to chance: without other settings the chance is drawn as 0.999."""
    fields = msgspec.structs.fields(ClipSettings)
    settings = {field.name: more.pop(field.name) for field in fields if field.name in more}
    given = {"draw": lambda: 0.999, "clock": Hands(), **more}
    return ClipStore(folder / "clips", ClipSettings(**settings), frontend, **given)
