"""Features of clips for a head over a frozen network: what the network makes of a clip is made once and kept.

The network costs a hundred times what a step of the head does. So a clip has a few augmented variants instead of a
new one in every step. Each is drawn from the clip itself: what is kept, or was forgotten, changes no number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.speech.features import Energies

VARIANTS = 4
"""Of a clip, when clips are augmented."""
MOST = 4_000
"""Clips of which variants are kept; 4 of 12 vectors of 96 numbers take 9 kB."""
Vectors = NDArray[np.float32]
Key = tuple[bytes, int]
Augmented = Callable[[Energies, "np.random.Generator"], Vectors]
"""Features of energies, augmented by what a generator draws."""


class VectorCache:
    """Variants of clips by their energies, in memory.

    Parameters
    ----------
    make
        Features (B, T', size) of energies (B, T, mels), drawn from a generator where they are augmented.
    variants
        Of a clip.
    """

    def __init__(self, make: Callable[[Energies, np.random.Generator], Vectors], variants: int = VARIANTS) -> None:
        self.make, self._variants = make, variants
        self._known: dict[Key, NDArray[np.float16]] = {}

    def __call__(self, energies: Energies, rng: np.random.Generator | None = None) -> Vectors:
        """Features (B, T', size): of each clip one of its variants, or the first one where nothing is drawn."""
        count = len(energies)
        places = np.zeros(count, np.int64) if rng is None else rng.integers(self._variants, size=count)
        found = [self._variant(clip, place) for clip, place in zip(energies, places.tolist(), strict=True)]
        return np.stack(found).astype(np.float32) if found else self.make(energies, np.random.default_rng(0))

    def _variant(self, clip: Energies, place: int) -> NDArray[np.float16]:
        name = _name(clip)
        made = self._known.pop((name, place), None)
        if made is None:
            generator = np.random.default_rng([int.from_bytes(name[:8], "little"), place])
            made = self.make(clip[None], generator)[0].astype(np.float16)
            while len(self._known) >= MOST * self._variants:
                del self._known[next(iter(self._known))]
        self._known[name, place] = made  # the newest last: the first one was not asked for the longest
        return made

    def keep_only(self, names: Container[bytes]) -> None:
        """Forget all clips but those of these names: what is wiped from a device is not kept here."""
        self._known = {key: made for key, made in self._known.items() if key[0] in names}


class VectorCaches:
    """What a device's rounds train on: its clips as they are, strongly augmented and hardly."""

    def __init__(self) -> None:
        self.plain = VectorCache(lambda _, __: np.zeros(0, np.float32), 1)
        self.strong, self.weak = VectorCache(self.plain.make), VectorCache(self.plain.make)

    def renew(
        self, clips: Sequence[Energies], strong: Augmented, weak: Augmented, plain: Callable[[Energies], Vectors]
    ) -> None:
        """Go on with these clips (N, T, mels) each, and with what makes features of them."""
        self.strong.make, self.weak.make, self.plain.make = strong, weak, lambda energies, _: plain(energies)
        names = {_name(clip) for each in clips for clip in each}
        for cache in (self.plain, self.strong, self.weak):
            cache.keep_only(names)


def _name(clip: Energies) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(clip, np.float32).data, digest_size=16).digest()
