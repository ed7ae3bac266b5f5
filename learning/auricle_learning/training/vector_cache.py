"""Features of clips for a head over a frozen network: what the network makes of a clip is made once and kept.

The network costs a hundred times what a step of the head does. So a clip has a few augmented variants instead of a
new one in every step. Each is drawn from the clip itself and has one piece of noise behind it, which stays the same
while that piece is there: what is kept, or was forgotten, changes no number.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.speech.augment import Augmentation, Augmenter
from auricle.speech.features import Energies, LogMel
from auricle_learning.training.vector_shelf import Halves, Variant, VectorShelf, clip_name

VARIANTS = 4
"""Of a clip, when clips are augmented."""
MOST_CLIPS = 4_000
"""Clips of which variants are kept in memory; 4 of 12 vectors of 96 numbers take 9 kB."""
Vectors = NDArray[np.float32]
Augmented = Callable[[Energies, "np.random.Generator"], Vectors]
"""Features of energies, augmented by what a generator draws."""
Made = Callable[[Energies, "np.random.Generator", Energies | None], Vectors]
"""The same with noise (T, mels) behind it."""


class Memory:
    """What was made of clips by their names, in memory, and on a shelf where there is one.

    Parameters
    ----------
    maker
        The name of what makes it.
    """

    def __init__(self, maker: bytes = b"") -> None:
        self._maker = maker
        self.known: dict[tuple[bytes, Variant], Halves] = {}
        self.shelf: VectorShelf | None = None
        self._looked_up: set[bytes] = set()
        self._unkept: set[bytes] = set()

    def vectors(self, clip: bytes, variant: Variant, make: Callable[[], Halves]) -> Halves:
        """Those of a clip (T', size), made where they are nowhere."""
        if self.shelf is not None and clip not in self._looked_up:
            self._looked_up.add(clip)
            for found, vectors in self.shelf.read(clip, self._maker).items():
                self.known.setdefault((clip, found), vectors)
        made = self.known.pop((clip, variant), None)
        if made is None:
            made = make()
            self._unkept.add(clip)
            while len(self.known) >= MOST_CLIPS * (1 + VARIANTS):
                del self.known[next(iter(self.known))]
        self.known[clip, variant] = made  # the newest last: the first one was not asked for the longest
        return made

    def renew(self, clips: Container[bytes], noises: Container[bytes], shelf: VectorShelf | None) -> None:
        """Keep on the shelf what is new; go on with these clips, with these noises behind them, and another shelf.

        All else is forgotten: what is wiped from a device is not kept here.
        """
        if self.shelf is not None:
            made: dict[bytes, dict[Variant, Halves]] = {}
            for (clip, variant), vectors in self.known.items():
                if clip in self._unkept:
                    made.setdefault(clip, {})[variant] = vectors
            self.shelf.write(self._maker, made)
        self.shelf = shelf
        self._looked_up.clear()
        self._unkept.clear()
        self.known = {
            (clip, variant): vectors
            for (clip, variant), vectors in self.known.items()
            if clip in clips and (not variant.noise or variant.noise in noises)
        }


class Noises:
    """Pieces of noise (N, T, mels), of which each variant has one of its own choice."""

    def __init__(self, pieces: Energies | None = None) -> None:
        self._pieces = pieces if pieces is not None and len(pieces) else None
        self.names = [] if self._pieces is None else [clip_name(piece) for piece in self._pieces]
        self._keys = np.array([int.from_bytes(name[:8], "little") for name in self.names], np.uint64)

    def of(self, clip: bytes, place: int) -> tuple[bytes, Energies | None]:
        """The name and energies of the piece behind a clip's variant; none where there is none.

        The highest random weight of Thaler and Ravishankar (1998): one piece more or less changes the choice of those
        variants alone that take it or had it.
        """
        if self._pieces is None:
            return b"", None
        mixed = self._keys ^ np.uint64(int.from_bytes(clip[8:16], "little") ^ place)
        for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):  # those of splitmix64
            mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(factor)
        chosen = int((mixed ^ (mixed >> np.uint64(31))).argmax())
        return self.names[chosen], self._pieces[chosen]


class VectorCache:
    """Variants of clips of one kind, by their energies.

    Parameters
    ----------
    kind
        As in `Variant`.
    make
        Features (B, T', size) of energies (B, T, mels), drawn from a generator where they are augmented.
    variants
        Of a clip.
    memory
        Where they are kept; others may keep theirs there.
    """

    def __init__(self, kind: str, make: Made, variants: int = VARIANTS, memory: Memory | None = None) -> None:
        self._kind, self._make, self._variants, self._memory = kind, make, variants, memory or Memory()
        self.noises = Noises()

    def __call__(self, energies: Energies, rng: np.random.Generator | None = None) -> Vectors:
        """Features (B, T', size): of each clip one of its variants, or the first one where nothing is drawn."""
        count = len(energies)
        places = np.zeros(count, np.int64) if rng is None else rng.integers(self._variants, size=count)
        found = [self._variant(clip, place) for clip, place in zip(energies, places.tolist(), strict=True)]
        return np.stack(found).astype(np.float32) if found else self._make(energies, np.random.default_rng(0), None)

    def _variant(self, clip: Energies, place: int) -> Halves:
        name = clip_name(clip)
        noise, piece = self.noises.of(name, place)

        def make() -> Halves:
            generator = np.random.default_rng([int.from_bytes(name[:8], "little"), place])
            vectors: Halves = self._make(clip[None], generator, piece)[0].astype(np.float16)
            return vectors

        return self._memory.vectors(name, Variant(self._kind, place, noise), make)


class VectorCaches:
    """What a device's rounds train on: its clips as they are, strongly augmented and hardly.

    Parameters
    ----------
    frontend
        Has the network.
    weak
        How little is done to them at least.
    maker
        As of `Memory`.
    """

    def __init__(self, frontend: LogMel, weak: Augmentation, maker: bytes = b"") -> None:
        self._task, self._memory = frontend.task, Memory(maker)
        self.plain = VectorCache("plain", lambda energies, _, __: frontend.finish(energies), 1, self._memory)
        self.strong = VectorCache(
            "strong", lambda x, rng, noise: Augmenter(frontend, noise)(x, rng), VARIANTS, self._memory
        )
        self.weak = VectorCache(
            "weak", lambda x, rng, _: Augmenter(frontend, None, weak)(x, rng), VARIANTS, self._memory
        )

    def renew(self, clips: Sequence[Energies], noise: Energies | None, shelf: VectorShelf | None = None) -> None:
        """Go on with these clips (N, T, mels) each, with noise (F, mels), and with what keeps their vectors."""
        frames = self._task.frames
        whole = None if noise is None else noise[: len(noise) // frames * frames].reshape(-1, frames, noise.shape[1])
        self.strong.noises = Noises(whole)
        names = {clip_name(clip) for each in clips for clip in each}
        self._memory.renew(names, set(self.strong.noises.names), shelf)
