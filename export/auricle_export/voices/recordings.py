"""A folder of takes by voices of one's own: what another synthesiser said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from auricle.errors import DataError
from auricle.speech.audio import SAMPLE_RATE, read_recording
from auricle.speech.clip_folder import ClipFile, scan_folder
from auricle_export.voices.interface import Sound, as_take


class Recordings:
    """`<text>/<speaker>_nohash_<n>.(wav|flac)`, as `--voices` and `--words` take it; it says what it holds."""

    licence = "their own"
    attribution = ()
    version = ""
    """None: takes are files already, and are not kept twice."""

    def __init__(self, folder: Path, phrases: Sequence[str] = ()) -> None:
        self.folder, self._phrases = folder, tuple(phrases)

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    @property
    def about(self) -> str:
        """What it is."""
        return f"the takes of voices in {self.folder}"

    def missing(self) -> str | None:
        """Whether there is such a folder."""
        return None if self.folder.is_dir() else f"{self.folder} is not a folder: name one of takes."

    def languages(self) -> tuple[str, ...]:
        """Not known: it is taken for every language."""
        return ()

    def counts(self, speakers: Sequence[str] = ()) -> Mapping[str, int]:
        """How many takes it holds of each text, by these speakers; of all where none is named."""
        return Counter(clip.word for clip in self._clips if not speakers or clip.speaker in speakers)

    @cached_property
    def _clips(self) -> tuple[ClipFile, ...]:
        return tuple(scan_folder(self.folder, phrases=self._phrases).clips)

    def speakers(self, language: str) -> tuple[str, ...]:
        """Those whom its files name."""
        return tuple(sorted({clip.speaker for clip in self._clips}))

    def speak(self, text: str, language: str, seed: int, speakers: Sequence[str] = ()) -> Sound:
        """One of the takes of a text, the next one for the next seed."""
        mine = [clip for clip in self._clips if clip.word == text and (not speakers or clip.speaker in speakers)]
        if not mine:
            raise DataError(f'{self.folder} holds no take of "{text}": add {text}/<speaker>_nohash_<n>.wav.')
        clip = mine[seed % len(mine)]
        return as_take(read_recording(clip.path).samples, SAMPLE_RATE, str(clip.path))
