"""A process that takes an echo out with Speex's canceller, as the package `pyaec` has it, in an environment of its own.

    python bench/echo_peer.py SOUND.npy

SOUND is int16 (2, n) at 16 kHz, the microphone and the reference. It is replaced by (2, n): what is left of the
microphone, and of the same microphone where the reference is silent; CPU seconds of the first go to standard output.
It imports nothing of Auricle.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

BLOCK_SAMPLES, FILTER_SAMPLES, RATE = 256, 3072, 16_000
"""As long as our filter, adapted as often."""


def cancel(near: NDArray[np.int16], far: NDArray[np.int16]) -> tuple[NDArray[np.int16], float]:
    """What is left (n,), and the CPU seconds; what is not a whole block stays as it is."""
    canceller = import_module("pyaec").Aec(BLOCK_SAMPLES, FILTER_SAMPLES, RATE, False)
    left, took = near.copy(), 0.0
    for at in range(0, len(near) - BLOCK_SAMPLES + 1, BLOCK_SAMPLES):
        part = slice(at, at + BLOCK_SAMPLES)
        here, there = near[part].tolist(), far[part].tolist()
        began = time.process_time()
        said = canceller.cancel_echo(here, there)
        took += time.process_time() - began
        left[part] = said
    return left, took


def main() -> int:
    """Read, cancel, write."""
    path = Path(sys.argv[1])
    near, far = np.load(path)
    left, took = cancel(near, far)
    np.save(path, np.stack([left, cancel(near, np.zeros_like(far))[0]]))
    print(took)
    return 0


if __name__ == "__main__":
    sys.exit(main())
