"""The device's own answer taken out of what its microphone hears, by the channel on which the card gives it back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLOCK_SAMPLES = 256
"""Samples (16 ms) after which the filter is adapted; as many wait at most."""
FILTER_PARTITIONS = 12
"""Blocks of the filter: an echo of 192 ms."""
_TRANSITION = 0.9995
"""A: by A^2 a block of time leaves what is known of the room, half of it after 11 seconds of the reference."""
_SMOOTHING = 0.9
"""How much of the near end's power spectrum is that of the block before."""
_DECAY_DB = 1.5
"""By which each partition of the first guess of the echo's power is below the one before."""
_ROUNDING_POWER = BLOCK_SAMPLES / 12
"""Of samples that were rounded, at each frequency of a block."""

_Spectra = NDArray[np.complex128]
_Powers = NDArray[np.float64]


class EchoCanceller:
    """An adaptive filter from the reference to its echo, whose estimate is subtracted.

    A partitioned-block frequency-domain filter by overlap and save, whose step is that of a Kalman filter with diagonal
    covariance (F. Kuech, E. Mabande, G. Enzner: State-space architecture of the partitioned-block-based acoustic echo
    controller, ICASSP 2014; G. Enzner, P. Vary, Signal Processing 86, 2006). Of partition p, with spectra X
    of the reference, E of what is left, weights W, their uncertainty P and the near end's power S, at each frequency:

        step_p = P_p / (sum_q |X_q|^2 P_q / 2 + S)
        W_p   += constrained(step_p X_p* E)
        P_p    = A^2 (1 - step_p |X_p|^2 / 2) P_p + (1 - A^2) |W_p|^2

    S is the smoothed |E|^2. While somebody talks over the answer it is large and the step small: the guard against
    double talk needs no detector. Where the reference was silent for the length of the filter, nothing is computed or
    changed, and the sound comes out as it went in. The same sound gives the same samples, bit for bit, however it is
    cut.
    """

    def __init__(self) -> None:
        shape = (FILTER_PARTITIONS, BLOCK_SAMPLES + 1)
        self._weights: _Spectra = np.zeros(shape, np.complex128)
        decay = 10 ** (-_DECAY_DB * np.arange(FILTER_PARTITIONS) / 10)
        self._uncertainty: _Powers = np.repeat(decay[:, None], shape[1], axis=1)
        self._near_power: _Powers | None = None
        """S (frequencies,); None before the first sound."""
        self._near: NDArray[np.int16]
        self._far: NDArray[np.int16]
        self._forget_sound()

    def take(self, near: NDArray[np.int16], far: NDArray[np.int16]) -> NDArray[np.int16]:
        """Subtract the echo of the reference `far` (n,) from `near` (n,); fewer than a block of samples wait."""
        self._near = np.concatenate((self._near, near))
        self._far = np.concatenate((self._far, far))
        whole = len(self._near) - len(self._near) % BLOCK_SAMPLES
        cleaned: NDArray[np.int16] = self._near[:whole].copy()
        for at in range(0, whole, BLOCK_SAMPLES):
            part = slice(at, at + BLOCK_SAMPLES)
            cleaned[part] = self._block(self._near[part], self._far[part])
        self._near, self._far = self._near[whole:], self._far[whole:]
        return cleaned

    def rest(self) -> NDArray[np.int16]:
        """What waits (under a block), at the end or before a gap; what was learned of the room stays."""
        waiting = len(self._near)
        padding = np.zeros(-waiting % BLOCK_SAMPLES, np.int16)
        cleaned: NDArray[np.int16] = self.take(padding, padding)[:waiting]
        self._forget_sound()
        return cleaned

    def _forget_sound(self) -> None:
        self._near = self._far = np.zeros(0, np.int16)
        self._before = np.zeros(BLOCK_SAMPLES, np.int16)
        """Of the reference, the block before."""
        self._spectra: _Spectra = np.zeros_like(self._weights)
        """Of the reference, the newest block first."""
        self._silent_blocks = FILTER_PARTITIONS + 1
        """Since the reference last had sound."""

    def _block(self, near: NDArray[np.int16], far: NDArray[np.int16]) -> NDArray[np.int16]:
        self._silent_blocks = 0 if far.any() else self._silent_blocks + 1
        if self._silent_blocks > FILTER_PARTITIONS:
            return near
        self._spectra = np.roll(self._spectra, 1, axis=0)
        self._spectra[0] = np.fft.rfft(np.concatenate((self._before, far)))
        self._before = far
        echo = np.fft.irfft((self._spectra * self._weights).sum(axis=0))[BLOCK_SAMPLES:]
        left = near - echo
        self._adapt(np.fft.rfft(np.concatenate((np.zeros(BLOCK_SAMPLES), left))))
        cleaned: NDArray[np.int16] = np.clip(np.rint(left), -32_768, 32_767).astype(np.int16)
        return cleaned

    def _adapt(self, left: NDArray[np.complex128]) -> None:
        power = np.abs(left) ** 2
        if self._near_power is None:
            if not power.any():
                return
            self._near_power = power + power.mean()
        self._near_power = _SMOOTHING * self._near_power + (1 - _SMOOTHING) * power
        far_power = np.abs(self._spectra) ** 2
        expected = (far_power * self._uncertainty).sum(axis=0) / 2 + self._near_power
        step = self._uncertainty / np.maximum(expected, _ROUNDING_POWER)
        change = np.fft.irfft(step * np.conj(self._spectra) * left, axis=1)
        change[:, BLOCK_SAMPLES:] = 0.0
        self._weights = self._weights + np.fft.rfft(change, axis=1)
        kept = _TRANSITION**2 * (1 - step * far_power / 2) * self._uncertainty
        self._uncertainty = kept + (1 - _TRANSITION**2) * np.abs(self._weights) ** 2
