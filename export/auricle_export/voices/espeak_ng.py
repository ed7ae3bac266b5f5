"""espeak-ng: formant voices of a hundred languages, which are there with auricle[export]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from auricle.errors import DataError
from auricle.speech.audio import SAMPLE_RATE
from auricle.speech.espeak import require_espeak, speak
from auricle.speech.voices import choose_voices, languages, most_voices, utterance
from auricle_export.voices.interface import Sound, as_take


class EspeakNg:
    """The library of the package espeakng-loader (https://github.com/espeak-ng/espeak-ng)."""

    name = "espeak-ng"
    about = "espeak-ng, formant voices"
    licence = "GPL-3.0"
    attribution = ()
    version = "1"

    def missing(self) -> str | None:
        """Whether it is installed."""
        try:
            require_espeak()
        except DataError as error:
            return str(error)
        return None

    def languages(self) -> tuple[str, ...]:
        """All that it has a dictionary for."""
        return () if self.missing() else tuple(sorted(languages()))

    def speakers(self, language: str) -> tuple[str, ...]:
        """Pairs of an accent and a vocal tract."""
        return tuple(voice.name for voice in choose_voices(most_voices(language), 0, language))

    def speak(self, text: str, language: str, seed: int, speakers: Sequence[str] = ()) -> Sound:
        """Say a text by one of the speakers, at a rate and pitch near its own."""
        rng = np.random.default_rng([seed, 34])
        among = [
            voice
            for voice in choose_voices(most_voices(language), 0, language)
            if not speakers or voice.name in speakers
        ]
        voice = among[int(rng.integers(len(among)))]
        (sound,) = speak(voice.espeak_name, [utterance(voice, text, rng)])
        return as_take(sound, SAMPLE_RATE, f'What espeak-ng says for "{text}"')
