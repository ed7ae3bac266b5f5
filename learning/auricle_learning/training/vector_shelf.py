"""Where what a frozen network made of clips outlives a round, and by what it is known there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.packs.graph_interface import FRONTENDS
from auricle.packs.pack import Pack
from auricle.speech.augment import Augmentation
from auricle.speech.features import Energies

RECIPE = 1
"""Another number where clips are augmented otherwise than before: what was kept then is made again."""
NAME_BYTES = 16
"""Bytes of a name."""
Halves = NDArray[np.float16]


class Variant(NamedTuple):
    """Which of the things that a network can make of a clip."""

    kind: str
    """`plain`, `strong` or `weak`."""
    place: int
    """Which draw."""
    noise: bytes
    """The name of the sound that was mixed into it; empty without."""


class VectorShelf(Protocol):
    """Keeps vectors (T', size) of clips, and may forget any of them at any time. Neither method raises."""

    def read(self, clip: bytes, maker: bytes) -> Mapping[Variant, Halves]:
        """What this maker made of the clip of a name."""

    def write(self, maker: bytes, made: Mapping[bytes, Mapping[Variant, Halves]]) -> None:
        """Keep what it made of clips by their names, in place of what was kept of these."""


def clip_name(energies: Energies) -> bytes:
    """The name of a clip's energies (T, mels): the same for the same numbers."""
    return hashlib.blake2b(np.ascontiguousarray(energies, np.float32).data, digest_size=NAME_BYTES).digest()


def maker_of(pack: Pack, runtime: str, weak: Augmentation) -> bytes:
    """The name of what makes vectors: a front-end and its network, who runs it, and how clips are augmented."""
    task = pack.manifest.task
    network = task.frontend.network
    assert network is not UNSET
    digests = {entry.path: entry.sha256 for entry in pack.manifest.files}
    files = [digests[path] for path in (network.file, *(pack.network_graph(kind).file for kind in FRONTENDS))]
    told = [RECIPE, runtime, task.sample_rate, task.clip_samples, task.frames, task.frontend, files]
    return hashlib.blake2b(msgspec.json.encode([*told, Augmentation(), weak]), digest_size=NAME_BYTES).digest()
