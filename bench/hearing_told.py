"""What a process that listens is told and what it says of itself, as JSON; and how it leaves its scores.

Needs the standard library and numpy alone: the process may run in the environment of another package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray


class Sounds(TypedDict):
    """What is heard."""

    sounds: list[str]
    """Files of int16 samples."""
    scores: list[str]
    """Where the scores of each are written, an .npy of (hops, labels)."""
    timed: str
    """The sound that is heard second by second while time is measured."""


class PackNamed(TypedDict):
    """A pack that listens."""

    pack: str
    """Its name, or a path."""


class PeerNamed(TypedDict):
    """A package that listens."""

    peer: str
    models: list[str]
    """Those that hear the sounds; all where none is named."""
    model: str
    """The one that hears the timed sound."""


class PackTold(Sounds, PackNamed):
    """All that the process of a pack is told."""


class PeerTold(Sounds, PeerNamed):
    """All that the process of a package is told."""


class Facts(TypedDict):
    """How scores become detections."""

    labels: list[str]
    thresholds: dict[str, float]
    alone: list[str]
    """Labels of which each is heard whatever the others score."""
    hop: float
    """Seconds from one score to the next."""
    smoothing: int
    patience: int
    bytes: int
    """Of the models."""


class PackFacts(Facts):
    """What the process of a pack says."""

    weights: dict[str, int]


class PeerFacts(Facts):
    """What the process of a package says."""

    files: dict[str, list[str]]
    """What each model is read from."""


def write_scores(path: str, rows: NDArray[Any]) -> None:
    """Write scores whole or not at all: a file that is there is not heard again."""
    unfinished = Path(path).with_suffix(".unfinished.npy")
    np.save(unfinished, rows)
    unfinished.replace(path)
