"""What models are shown of a device's clips: as they are, moved in time, or changed more strongly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle_learning.runtimes import Runtime, frontend_of
from auricle_learning.runtimes.interface import EVALUATION_BATCH
from auricle_learning.training.batches import EpochInputs, Features
from auricle_learning.training.carried import Carried
from auricle_learning.training.fixmatch import WEAK
from auricle_learning.training.native_augmenter import augmenter
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.vector_cache import Augmented, VectorCaches
from auricle_learning.training.vector_shelf import maker_of

MOST_KEPT = 4 * EVALUATION_BATCH
"""Clips whose log-mels are kept while a round looks at them more than once, 2 MB of a second each; those of more are
made again."""


class Views:
    """Of one device.

    Parameters
    ----------
    runtime
        Whose pack has the front end.
    """

    strong: Augmented
    """Mel energies, and what draws, to log-mels: of other voices, levels and noises."""
    weak: Augmented
    """As that: moved in time alone."""
    plain: Features
    """Mel energies to log-mels, as they are."""

    def __init__(self, runtime: Runtime) -> None:
        self.pack, self.frontend = runtime.pack, frontend_of(runtime)
        networked = self.pack.manifest.task.frontend.network is not UNSET
        maker = maker_of(self.pack, runtime.name, WEAK) if networked else b""
        self._vectors = VectorCaches(self.frontend, WEAK, maker) if networked else None
        self._kept: dict[int, tuple[Clips, NDArray[np.float32]]] | None = None

    @contextmanager
    def memory(self) -> Iterator[None]:
        """Make the log-mels of few clips as they are once, and forget them at the end; not for two threads at once."""
        self._kept = {}
        try:
            yield
        finally:
            self._kept = None

    def renew(self, data: DeviceData) -> None:
        """Go on with other clips."""
        if self._vectors is None:
            self.strong, self.weak = augmenter(self.frontend, data.noise), augmenter(self.frontend, None, WEAK)
            self.plain = self.frontend.finish
            return
        kept = (data.train, data.held_out, *(() if data.unlabelled is None else (data.unlabelled,)))
        self._vectors.renew([clips.energies for clips in kept], data.noise, data.vectors)
        self.strong, self.weak, self.plain = self._vectors.strong, self._vectors.weak, self._vectors.plain

    def pieces(self, clips: Clips) -> Iterator[NDArray[np.float32]]:
        """Log-mels (n, T, mels) of clips as they are, made piece by piece; one of none for no clips."""
        known = self._log_mels(clips)
        for i in range(0, max(1, len(clips)), EVALUATION_BATCH):
            place = slice(i, i + EVALUATION_BATCH)
            yield self.plain(clips.energies[place]) if known is None else known[place]

    def _log_mels(self, clips: Clips) -> NDArray[np.float32] | None:
        """The log-mels of all these clips, where they are kept."""
        if self._kept is None or self._vectors is not None or len(clips) > MOST_KEPT:
            return None
        if id(clips) not in self._kept:
            self._kept[id(clips)] = clips, self.plain(clips.energies)
        return self._kept[id(clips)][1]

    def epoch(
        self, clips: Clips, size: int, rng: np.random.Generator, carried: Carried | None, *, augment: bool
    ) -> EpochInputs:
        """What the batches of a pass are made of; parameters as in `EpochInputs`."""
        return EpochInputs(
            clips=clips,
            labels=len(self.pack.labels),
            size=size,
            rng=rng,
            plain=self.plain,
            moved=lambda energies: self.weak(energies, rng),
            strong=lambda energies: self.strong(energies, rng),
            augment=augment,
            carried=carried,
            known=None if augment else self._log_mels(clips),
        )
