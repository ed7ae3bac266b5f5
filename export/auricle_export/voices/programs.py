"""Synthesisers that are programs of the system: one call for a take."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from auricle.errors import DataError
from auricle_export.voices.interface import Sound, as_take

_SECONDS = 120
"""That a program has for a take."""


def missing_program(what: str, program: str, packages: str) -> str | None:
    """Why a program cannot be called: it is not on the path."""
    if shutil.which(program):
        return None
    return f"{what} is a program of the system that is not installed: on Debian and Ubuntu, apt install {packages}."


def run_synthesiser(what: str, command: Sequence[str], text: str, typed: str | None = None) -> Sound:
    """What a program writes into the WAV file whose path ends its command.

    Parameters
    ----------
    what
        The synthesiser, in sentences.
    command
        The program and its arguments; the path of the file comes last.
    text
        What it says, in sentences.
    typed
        What it reads.

    Raises
    ------
    DataError
        It is not installed, fails, or writes no sound.
    """
    with tempfile.TemporaryDirectory(prefix="auricle-") as folder:
        path = Path(folder, "take.wav")
        given = None if typed is None else typed.encode()
        try:
            subprocess.run([*command, str(path)], input=given, capture_output=True, check=True, timeout=_SECONDS)
            content = path.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise DataError(f'{what} cannot say "{text}": install it and its voices, or choose another.') from error
    try:
        with wave.open(io.BytesIO(content)) as file:
            if file.getsampwidth() != 2 or file.getnchannels() != 1:
                raise DataError(f'What {what} says for "{text}" is not 16-bit mono: choose another voice.')
            rate, frames = file.getframerate(), file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise DataError(f'What {what} says for "{text}" is no WAV file: choose another voice.') from error
    samples = np.frombuffer(frames, "<i2").astype(np.float32) / np.float32(32_768)
    return as_take(samples, rate, f'What {what} says for "{text}"')
