"""Kokoro-82M: natural voices of eight languages, by onnxruntime on a CPU.

The model is Kokoro-82M v1.0 by hexgrad (https://huggingface.co/hexgrad/Kokoro-82M, Apache-2.0) in 8 bits, as
kokoro-onnx exports it: phonemes, a style of 256 numbers and a speed in, 24 kHz out. espeak-ng gives the phonemes. The
first half of a style is the timbre, the second the prosody, and mixtures of styles are voices too: each take is by a
mixture of two for the one and of two for the other.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle_export.voices import kokoro_files
from auricle_export.voices.graphs import missing_library, open_graph, run_graph
from auricle_export.voices.interface import Sound, as_take, refuse_language
from auricle_export.voices.pronunciation import plain_signs, sounds_of, spellings

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

RATE_HZ = 24_000
"""Hz."""
STYLE_NUMBERS = 256
"""Numbers of a style, the timbre and then the prosody, for a text of each number of phonemes."""
TIMBRE = 128
MOST_PHONEMES = 400
"""Of a text: it is cut there."""
LANGUAGES: Mapping[str, tuple[str, str]] = {
    "en": ("ab", "en-us"),
    "es": ("e", "es"),
    "fr": ("f", "fr"),
    "hi": ("h", "hi"),
    "it": ("i", "it"),
    "ja": ("j", "ja"),
    "pt": ("p", "pt-br"),
    "cmn": ("z", "cmn"),
}
"""How the names of a language's styles begin, and espeak-ng's voice whose phonemes are taken."""
ACCENTS = ("en-us", "en-gb")
"""Of English, one drawn for each take."""
OWN = {"en": 0.75}
"""Share of the styles that are of the language, where not `OWN_ELSEWHERE`: people of all languages say the phrase."""
OWN_ELSEWHERE = 0.8
WEIGHTS, SPEEDS = (-0.2, 1.2), (0.75, 1.35)
"""Of the first of two styles, and of speech: uniform between these."""
ENDS = ("", ".", "!", "?", ",")


class Kokoro:
    """The voices, from the user's cache."""

    name = "kokoro"
    about = "Kokoro-82M, natural voices whose styles are mixed"
    licence = "Apache-2.0"
    attribution = ("Kokoro-82M by hexgrad, synthetic voices, Apache-2.0",)
    version = "kokoro-82m-v1.0-int8, 1"

    def __init__(self, folder: Path | None = None, files: kokoro_files.Files | None = None) -> None:
        self._files = files or kokoro_files.FILES
        self._folder = folder
        self._loading = Lock()

    @property
    def folder(self) -> Path:
        """Where the model and the styles are."""
        return self._folder or kokoro_files.folder()

    def missing(self) -> str | None:
        """What keeps it from speaking here."""
        if (reason := missing_library("Kokoro")) is not None:
            return reason
        if not kokoro_files.is_there(self.folder, self._files):
            return f'Kokoro is not there: "auricle export voices add kokoro" brings {self.to_bring()}.'
        return None

    def languages(self) -> tuple[str, ...]:
        """Those of its styles."""
        return tuple(LANGUAGES)

    def speakers(self, language: str) -> tuple[str, ...]:
        """The styles: those of the language, then the others, which speak it with their own timbre."""
        refuse_language(self, language)
        own = [name for name in self._files.styles if name[0] in LANGUAGES[language][0]]
        return (*own, *(name for name in self._files.styles if name not in own))

    def to_bring(self) -> str:
        """What is brought."""
        return f"{self._files.packages_size / 1e6:.0f} MB"

    def speak(self, text: str, language: str, seed: int, speakers: Sequence[str] = ()) -> Sound:
        """Say a text by a mixture of styles, at a speed and in a pronunciation that are drawn."""
        refuse_language(self, language)
        rng = np.random.default_rng([seed, 31])
        accent = str(rng.choice(ACCENTS)) if language == "en" else LANGUAGES[language][1]
        said = plain_signs(sounds_of(accent, text), language)
        if not any(sign.isalpha() and sign in self._files.phonemes for sign in said):
            raise DataError(f'Kokoro has no sound for "{text}": write the text as it is said.')
        said = spellings(said, rng) if language == "en" else said
        tokens = self._tokens(said + str(rng.choice(ENDS)))
        style = self._style(len(tokens), language, speakers or self.speakers(language), rng)
        speed = np.array([rng.uniform(*SPEEDS)], np.float32)
        given: dict[str, NDArray[np.generic]] = {
            "tokens": np.array([[0, *tokens, 0]], np.int64),
            "style": style[None],
            "speed": speed,
        }
        what = f'What Kokoro says for "{text}"'
        return as_take(run_graph(self._load()[0], given, what), RATE_HZ, what)

    def _tokens(self, ipa: str) -> list[int]:
        """The numbers of phonemes; marks that the table lacks are finer than its phonemes are."""
        table = self._files.phonemes
        signs = [part for sign in ipa for part in ((sign,) if sign in table else unicodedata.normalize("NFD", sign))]
        return [table[sign] for sign in signs if sign in table][:MOST_PHONEMES]

    def _style(
        self, phonemes: int, language: str, speakers: Sequence[str], rng: np.random.Generator
    ) -> NDArray[np.float32]:
        """(256,): a mixture of two styles for the timbre, and of two for the prosody."""
        own = [name for name in speakers if name[0] in LANGUAGES[language][0]] or list(speakers)
        others = [name for name in speakers if name not in own] or own
        styles = self._load()[1]
        most = min(MOST_PHONEMES, len(styles[own[0]]) - 1)
        row = int(np.clip(phonemes + rng.integers(-3, 15), min(2, most), most))
        halves = []
        for half in (slice(0, TIMBRE), slice(TIMBRE, STYLE_NUMBERS)):
            names = [own if rng.random() < OWN.get(language, OWN_ELSEWHERE) else others for _ in range(2)]
            one, other = (styles[str(rng.choice(among))][row, half] for among in names)
            weight = np.float32(rng.uniform(*WEIGHTS))
            halves.append(weight * one + (1 - weight) * other)
        return np.concatenate(halves).astype(np.float32)

    def _load(self) -> tuple[InferenceSession, dict[str, NDArray[np.float32]]]:
        with self._loading:
            return self._parts

    @cached_property
    def _parts(self) -> tuple[InferenceSession, dict[str, NDArray[np.float32]]]:
        """The model and the styles."""
        if (reason := self.missing()) is not None:
            raise DataError(reason)
        kokoro_files.check(self.folder, self._files)
        session = open_graph(self.folder / kokoro_files.MODEL, "tokens", "style", "speed")
        styles = {name: self.folder / kokoro_files.style_file(name) for name in self._files.styles}
        return session, {name: np.fromfile(path, "<f4").reshape(-1, STYLE_NUMBERS) for name, path in styles.items()}
