"""festival: three English voices of the program `text2wave`, at any speed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from auricle_export.voices.flite import STRETCHES
from auricle_export.voices.interface import Sound, refuse_language
from auricle_export.voices.programs import missing_program, run_synthesiser

VOICES = ("kal_diphone", "ked_diphone", "cmu_us_slt_arctic_hts")
PACKAGES = "festival festvox-kallpc16k festvox-kdlpc16k festvox-us-slt-hts"


class Festival:
    """The program `text2wave` of festival (https://www.cstr.ed.ac.uk/projects/festival/)."""

    name = "festival"
    about = "festival, a program"
    licence = "X11-like"
    attribution = ("festival by the University of Edinburgh and Carnegie Mellon University, synthetic voices",)
    version = "1"

    def missing(self) -> str | None:
        """Whether it is installed."""
        return missing_program("festival", "text2wave", PACKAGES)

    def languages(self) -> tuple[str, ...]:
        """English."""
        return ("en",)

    def speakers(self, language: str) -> tuple[str, ...]:
        """Its voices, those of Debian."""
        return VOICES

    def speak(self, text: str, language: str, seed: int, speakers: Sequence[str] = ()) -> Sound:
        """Say a text by one of the voices, faster or slower."""
        refuse_language(self, language)
        rng = np.random.default_rng([seed, 33])
        return say(text, str(rng.choice(list(speakers or VOICES))), round(float(rng.uniform(*STRETCHES)), 3))


def say(text: str, voice: str, stretch: float) -> Sound:
    """Say a text by a voice, so many times its usual length; raises what `run_synthesiser` does."""
    how = ("-F", "16000", "-eval", f"(voice_{voice})", "-eval", f"(Parameter.set 'Duration_Stretch {stretch})")
    return run_synthesiser("festival", ["text2wave", *how, "-o"], text, typed=text)
