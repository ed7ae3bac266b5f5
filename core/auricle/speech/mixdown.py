"""One channel of a recording's one or two, and what shows that its channels or its scale are not as they should be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.speech.sound_faults import Finding, SoundFault
from auricle.speech.sound_reader import fault

INT16_PEAK = 32_768
"""Of floats that were int16 and never divided."""

_HIGHEST = 8.0
"""A peak that floats with full scale at 1 may have: 18 dB over it."""
_WHOLE = 1e-3
_OPPOSITE = -0.9
"""Correlation of two channels below which their mean is next to nothing."""


class Mixdown:
    """The mean of the channels, or one of them, as it is decoded.

    Parameters
    ----------
    rate
        Hz.
    channels
        One or two.
    channel
        Which to take; None for the mean.
    is_float
        Whether the samples are floats, whose scale has to be seen from them.
    findings
        What is known of the file.
    """

    def __init__(
        self, rate: int, channels: int, channel: int | None, is_float: bool, findings: tuple[Finding, ...] = ()
    ) -> None:
        self.rate, self.findings = rate, findings
        self.frames = 0
        """Decoded so far."""
        self._channel, self._is_float = channel, is_float
        self._pieces: list[NDArray[np.float32]] = []
        self._sums = np.zeros(channels)
        self._products = np.zeros((channels, channels))
        self._is_whole = is_float
        self._peak = 0.0

    def add(self, path: Path, piece: NDArray[np.float32]) -> None:
        """Take the next (frames, channels); SoundError where a sample is not finite."""
        if not np.isfinite(piece).all():
            raise fault(path, SoundFault.NOT_FINITE, "holds samples that are not finite numbers: replace or remove it.")
        self.frames += len(piece)
        if piece.shape[1] > 1:
            exact = piece.astype(np.float64)
            self._sums += exact.sum(axis=0)
            self._products += exact.T @ exact
        if self._is_float:
            self._peak = max(self._peak, float(np.abs(piece).max()))
            self._is_whole = self._is_whole and bool((np.abs(piece - np.rint(piece)) < _WHOLE).all())
        if self._channel is None and piece.shape[1] > 1:
            self._pieces.append(piece.mean(axis=1, dtype=np.float32))
        else:
            self._pieces.append(piece[:, self._channel or 0].copy())

    @property
    def is_opposite(self) -> bool:
        """Whether one of two channels is the other with its sign changed, so that their mean is next to nothing."""
        if self._channel is not None or len(self._sums) < 2:
            return False
        spread = self._products - np.outer(self._sums, self._sums) / max(1, self.frames)
        power = spread[0, 0] * spread[1, 1]
        return bool(power > 0 and spread[0, 1] < _OPPOSITE * np.sqrt(power))

    @property
    def louder(self) -> int:
        """The number of the channel with more energy, the first of two alike."""
        return int(np.argmax(np.diag(self._products)))

    def scaled(self, path: Path) -> tuple[NDArray[np.float32], list[Finding]]:
        """The samples (frames,), with full scale at 1, and what had to be done for it.

        Raises
        ------
        SoundError
            They are larger than full scale, and are not whole numbers that int16 has.
        """
        samples = self._pieces[0] if len(self._pieces) == 1 else np.concatenate(self._pieces)
        scale, findings = self.scale(path)
        return samples if scale == 1 else samples * np.float32(scale), findings

    def scale(self, path: Path) -> tuple[float, list[Finding]]:
        """What samples are multiplied by so that full scale is 1, and what is said of it; SoundError as `scaled`."""
        if self._peak > 1 and self._is_whole and self._peak <= INT16_PEAK:
            said = f"{path} holds floats in the scale of int16, up to {self._peak:,.0f}: they are divided by 32,768."
            return 1 / INT16_PEAK, [SoundFault.INT16_SCALE.finding(said)]
        if self._peak > _HIGHEST:
            raise fault(
                path,
                SoundFault.SCALE,
                f"holds floats up to {self._peak:,.6g} where full scale is 1: divide them by full scale, as by "
                "32768 for 16 bits.",
            )
        return 1.0, []
