"""flite: four English voices of a small program, at any speed and pitch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from auricle_export.voices.interface import Sound, refuse_language
from auricle_export.voices.programs import missing_program, run_synthesiser

VOICES: Mapping[str, tuple[int, int]] = {"kal16": (95, 125), "awb": (100, 135), "rms": (85, 115), "slt": (150, 200)}
"""Voices, and the mean pitches that each takes, in Hz."""
STRETCHES = (0.85, 1.2)
"""Times the usual length."""


class Flite:
    """The program `flite` (https://github.com/festvox/flite)."""

    name = "flite"
    about = "flite, a small program"
    licence = "BSD-like"
    attribution = ("flite by Carnegie Mellon University, synthetic voices",)
    version = "1"

    def missing(self) -> str | None:
        """Whether it is installed."""
        return missing_program("flite", "flite", "flite")

    def languages(self) -> tuple[str, ...]:
        """English."""
        return ("en",)

    def speakers(self, language: str) -> tuple[str, ...]:
        """Its voices."""
        return tuple(VOICES)

    def speak(self, text: str, language: str, seed: int, speakers: Sequence[str] = ()) -> Sound:
        """Say a text by one of the voices, faster or slower, higher or lower."""
        refuse_language(self, language)
        rng = np.random.default_rng([seed, 32])
        voice = str(rng.choice(list(speakers or VOICES)))
        stretch, pitch = round(float(rng.uniform(*STRETCHES)), 3), int(rng.integers(*VOICES[voice], endpoint=True))
        return say(text, voice, stretch, pitch)


def say(text: str, voice: str, stretch: float, pitch: int) -> Sound:
    """Say a text by a voice, so many times its usual length, at a mean pitch in Hz; errors of `run_synthesiser`."""
    how = ("--setf", f"duration_stretch={stretch}", "--setf", f"int_f0_target_mean={pitch}")
    return run_synthesiser("flite", ["flite", "-voice", voice, *how, "-t", text, "-o"], text)
