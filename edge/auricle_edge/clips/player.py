"""Playing a clip on the device's loudspeaker, with whatever plays sound there; nothing is written to a disk."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle_edge.listening.sound import RATE

_RAW = {
    "aplay": ["-q", "-t", "raw", "-f", "S16_LE", "-r", str(RATE), "-c", "1", "-"],
    "paplay": ["--raw", "--format=s16le", f"--rate={RATE}", "--channels=1"],
}
"""Players that take raw samples on standard input."""
LONGEST = 60.0
"""Seconds after which a player is given up."""


def play(samples: NDArray[np.int16], path: str | None = None) -> str:
    """Play (n,) samples; returns what played them.

    Parameters
    ----------
    path
        Where programs are looked for, as in `PATH`.

    Raises
    ------
    DataError
        There is no player, or none of them can play.
    """
    said = []
    for name, options in _RAW.items():
        program = shutil.which(name, path=path)
        if program is None:
            continue
        failure = _piped([program, *options], samples)
        if failure is None:
            return name
        said.append(f"{name}: {failure}")
    if importlib.util.find_spec("sounddevice") is not None:
        failure = _by_sounddevice(samples)
        if failure is None:
            return "sounddevice"
        said.append(f"sounddevice: {failure}")
    if said:
        raise DataError(f"The clip cannot be played ({'; '.join(said)}): check the loudspeaker, or export the clip.")
    raise DataError('Playing needs aplay (package alsa-utils), paplay, or: pip install "auricle[mic]"')


def _piped(command: list[str], samples: NDArray[np.int16]) -> str | None:
    """What went wrong; None: nothing."""
    sound = samples.astype("<i2").tobytes()
    try:
        done = subprocess.run(command, input=sound, capture_output=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        return "it did not end"
    except OSError as error:
        return error.strerror or str(error)
    if done.returncode == 0:
        return None
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return (lines[-1] if lines else f"exit code {done.returncode}").rstrip(".")


def _by_sounddevice(samples: NDArray[np.int16]) -> str | None:
    try:
        import sounddevice
    except OSError as error:
        return str(error)
    try:
        sounddevice.play(samples, RATE, blocking=True)
    except sounddevice.PortAudioError as error:
        return str(error)
    return None
