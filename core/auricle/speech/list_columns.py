"""Columns of lists of recordings: what collections call them, and which is which in one list."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from auricle.errors import SettingsError, nearest
from auricle.speech.list_rows import DELIMITERS, plain_name
from auricle.speech.sound_files import is_sound_file

PATH_COLUMNS = (
    *("path", "link", "file", "filename", "audiofilepath", "audiofile", "audiopath", "audiofilename"),
    *("wavfilename", "wavpath", "wav", "filepath", "audio", "clip", "recording"),
)
"""What collections call the column of the audio file: the first of these that is there. Capitals, spaces, hyphens, dots
and underscores do not matter: `audio_filepath` is NeMo's."""

WORD_COLUMNS = (
    *("word", "command", "keyword", "label", "sentence", "text", "transcript", "transcription", "utterance"),
    *("phrase", "normalizedtext", "class", "category"),
)
"""What they call the word or the sentence."""

SPEAKER_COLUMNS = ("speaker", "clientid", "speakerid", "speakername", "spk", "spkid", "userid", "user")
"""What they call the speaker."""

VALID_COLUMN = "valid"
"""Multilingual Spoken Words marks here what its makers trust."""

OFFSET_COLUMN = "offset"
"""NeMo says here at how many seconds of its file a recording begins."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of columns as the user gave them; None to find them."""

    path: str | None = None
    word: str | None = None
    speaker: str | None = None

    @property
    def names(self) -> list[frozenset[str]]:
        """Plain names of the columns of a path, a word and a speaker: the one that is given, or all usual ones."""
        usual = zip((self.path, self.word, self.speaker), (PATH_COLUMNS, WORD_COLUMNS, SPEAKER_COLUMNS), strict=True)
        return [frozenset([plain_name(given)] if given else names) for given, names in usual]


@dataclass(frozen=True, slots=True)
class Places:
    """Names of the columns as a list writes them."""

    path: str
    word: str
    speaker: str | None
    valid: str | None
    offset: str | None

    def fit(self, row: Collection[str], *, whole: bool = False) -> bool:
        """Whether a row has a path and a word, of a whole row of a table also the others."""
        others = (self.speaker, self.valid) if whole else ()
        return all(name in row for name in (self.path, self.word, *others) if name is not None)


def find_places(names: Sequence[str], columns: Columns, manifest: Path) -> Places:
    """Which of the names of a list's columns is which.

    Raises
    ------
    SettingsError
        A column is not there.
    """
    plain = {plain_name(name): name for name in reversed(names)}

    def find(given: str | None, usual: Sequence[str]) -> str | None:
        if given is None:
            return next((plain[name] for name in usual if name in plain), None)
        if plain_name(given) not in plain:
            raise SettingsError(f'{manifest} has no column "{given}": {nearest(given, names)}')
        return plain[plain_name(given)]

    path, word = find(columns.path, PATH_COLUMNS), find(columns.word, WORD_COLUMNS)
    speaker = find(columns.speaker, SPEAKER_COLUMNS)
    if path is None or word is None:
        raise SettingsError(_without(manifest, names, "path" if path is None else "word"))
    return Places(path, word, speaker, plain.get(VALID_COLUMN), plain.get(OFFSET_COLUMN))


def _without(manifest: Path, names: Sequence[str], column: str) -> str:
    """The sentence for a list that lacks a column."""
    if not any(name.strip() for name in names):
        return f"{manifest} is empty: its first line names the columns path, word and speaker."
    if any(is_sound_file(name.strip()) for name in names):
        order = ",".join(_guess_columns(names))
        return (
            f"{manifest} begins with a recording and not with the names of its columns: write them as its first line, "
            f"as in {order}."
        )
    if len(names) == 1:
        return (
            f"{manifest} has one column, {names[0][:60]!r}: its first line names the columns path, word and "
            f"speaker, separated by {', '.join(DELIMITERS.values())}."
        )
    usual = {"path": "path, file_name or audio_filepath", "word": "word, label, text or sentence"}[column]
    return (
        f"{manifest} has no column {usual}: call one so, or say which it is with --{column}-column of auricle export "
        f"import-speech; there is: {', '.join(names)}."
    )


def _guess_columns(names: Sequence[str]) -> list[str]:
    """Names for the columns of a row: path where a file of sound is, then word and speaker."""
    others = iter(("word", "speaker"))
    path = next(place for place, name in enumerate(names) if is_sound_file(name.strip()))
    return ["path" if place == path else next(others, f"column{place + 1}") for place in range(len(names))]
