"""Augmentation of clips with the C library: the draws are those of `auricle.speech.augment`, made by the same calls."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle.packs.pack import load_pack
from auricle.speech.augment import ACTIVE_SHARE, Augmentation, Augmenter
from auricle.speech.features import Energies, LogMel
from auricle_learning.native.compiling import LEVELS
from auricle_learning.native.library import Library, found_library

NEAR = 1e-5
"""How far a log-mel may be from NumPy's, by the largest one."""
LEAST_FLOOR = float(np.finfo(np.float32).tiny)
"""The library's logarithm is one of normal numbers."""
_NOTHING = np.zeros((0, 0), np.float32)


class _Sizes(ctypes.Structure):
    """As `clips_sizes` of `clips.h`."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("count", "frames", "mels", "noise_frames", "masks")),
        *((name, ctypes.c_float) for name in ("floor", "scale")),
        ("active", ctypes.c_double),
    )


class NativeAugmenter(Augmenter):
    """Draws augmented log-mels, NumPy's within the rounding of float32, in a third of its time.

    Parameters
    ----------
    frontend, noise, settings
        As of `Augmenter`.
    library
        The library.
    level
        The widest instructions to use, one of `LEVELS`; without, the best of this processor.
    """

    def __init__(
        self,
        frontend: LogMel,
        noise: NDArray[np.float32] | None,
        settings: Augmentation | None = None,
        *,
        library: Library,
        level: str | None = None,
    ) -> None:
        super().__init__(frontend, None if noise is None else np.ascontiguousarray(noise, np.float32), settings)
        self._augment = library.functions.clips_augment
        self._most = len(LEVELS) if level is None else LEVELS.index(level)

    def __call__(self, energies: Energies, rng: np.random.Generator) -> NDArray[np.float32]:
        """See `Augmenter.__call__`."""
        given = np.ascontiguousarray(energies, np.float32)
        count, frames, mels = given.shape
        noise = _NOTHING if self.noise is None else self.noise
        source, stretch = self.draw_frames(count, frames, rng), self.draw_stretches(count, rng)
        gain, start, ratio = self.draw_gains(count, rng), np.zeros(count, np.int64), np.zeros(count)
        if self.noise is not None:
            start, snr, on = self.draw_noise(count, frames, rng)
            ratio = np.where(on, 10 ** (-snr / 10), 0.0)
        masks = self.draw_masks(count, frames, mels, rng)
        mask = np.empty((count, len(masks), 3), np.int64)
        for place, (axis, first, span) in enumerate(masks):
            mask[:, place, 0], mask[:, place, 1:2], mask[:, place, 2:] = axis, first, span
        f, made = self.frontend.task.frontend, np.empty_like(given)
        sizes = _Sizes(count, frames, mels, len(noise), len(masks), f.floor, f.scale, ACTIVE_SHARE)
        arrays = (given, source, stretch, gain, noise, start, ratio, mask, made)
        places = (ctypes.c_void_p(array.ctypes.data) for array in arrays)
        if self._augment(ctypes.byref(sizes), *places, ctypes.c_int32(self._most)) != 0:
            raise AuricleError("The C library was asked for frames outside of a clip or of the noise: report this.")
        return made


def augmenter(frontend: LogMel, noise: NDArray[np.float32] | None, settings: Augmentation | None = None) -> Augmenter:
    """With the C library where it is there and makes what NumPy makes, else with NumPy: so before a frozen network."""
    library = found_library() if frontend.task.frontend.network is UNSET else None
    if library is None or frontend.task.frontend.floor < LEAST_FLOOR or not _agrees(library):
        return Augmenter(frontend, noise, settings)
    return NativeAugmenter(frontend, noise, settings, library=library)


@cache
def _agrees(library: Library) -> bool:
    """Whether the library makes NumPy's log-mels on this processor."""
    frontend = LogMel(load_pack("gsc12").manifest.task)
    shape = frontend.task.frames, frontend.task.frontend.mels
    energies = np.random.default_rng(0).exponential(1.0, (5, *shape)).astype(np.float32)
    noise = energies[:2].reshape(-1, shape[1])
    right = Augmenter(frontend, noise)(energies, np.random.default_rng(1))
    made = NativeAugmenter(frontend, noise, library=library)(energies, np.random.default_rng(1))
    return bool(np.abs(made - right).max() <= NEAR * np.abs(right).max())
