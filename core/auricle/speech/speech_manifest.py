"""Manifests of speech collections: which columns hold the file, the word and the speaker, and what a row gives."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unicodedata import category, normalize

from auricle.errors import DataError, SettingsError, nearest
from auricle.packs.manifest import JOINERS

PATH_COLUMNS = ("path", "link", "file", "filename")
"""What collections call the column of the audio file; capitals do not matter."""

WORD_COLUMNS = ("word", "sentence", "text")
"""What they call the word or the sentence."""

SPEAKER_COLUMNS = ("speaker", "client_id", "speaker_id")
"""What they call the speaker."""

VALID_COLUMN = "valid"
"""Multilingual Spoken Words marks here what its makers trust."""

NOISE_FOLDER = "_background_noise_"
"""What stands where the word would be, for noise; the folder of a Speech Commands root that holds it."""

AUDIO_FOLDER = "clips"
"""Where a manifest's paths start, if it is beside it."""

_LONGEST_FIELD = 1 << 20
_LONGEST_WORD = 64
_WITHIN = "'’-"
_NO = frozenset({"false", "0", "no"})
_NOBODY = frozenset({"", "na", "nan", "none", "unknown"})


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of columns as the user gave them; None to find them."""

    path: str | None = None
    word: str | None = None
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """A row that can be imported."""

    path: Path
    """The file, inside the collection's folder."""

    text: str
    """The word, phrase or sentence: small letters, no marks at its ends; `NOISE_FOLDER` for noise."""

    name: str
    """`<speaker>_nohash_<n>`: the speaker hashed, n from the path, so that the same row always has the same name."""


class RowError(Exception):
    """A row that gives no recording; its argument says why, in the same words for all rows of that kind."""


def audio_folder(manifest: Path) -> Path:
    """Where the paths of a manifest start: `clips` beside it, or its own folder where that is not."""
    beside = manifest.parent / AUDIO_FOLDER
    return beside if beside.is_dir() else manifest.parent


def count_rows(manifest: Path) -> int:
    """Count the lines after the header.

    Raises
    ------
    DataError
        The file cannot be read.
    """
    try:
        with manifest.open("rb") as file:
            return max(0, sum(1 for _ in file) - 1)
    except OSError as error:
        raise DataError(f"The manifest {manifest} cannot be read ({error.strerror}): check its path.") from error


def read_manifest(
    manifest: Path,
    audio: Path,
    columns: Columns,
    *,
    sentences: bool,
    words: frozenset[str] = frozenset(),
    phrases: Collection[str] = (),
) -> Iterator[Recording | RowError | None]:
    """Give what every row of a CSV or TSV file says, in order.

    A row that cannot be used is given as a `RowError`, one of a word not asked for as None: its file is not looked at.

    Parameters
    ----------
    manifest
        The file: the first line names the columns; they are parted by tabs where it has one, else by commas.
    audio
        The folder that the paths start from; a path that leads out of it is a bad row.
    columns
        Which column is which, where the names are not the usual ones.
    sentences
        Whether the text may have more than one word.
    words
        Only rows of these; empty for all.
    phrases
        Texts of several words that count as one word, such as "hey jarvis", with single spaces in small letters.

    Raises
    ------
    DataError
        The file cannot be read, or is not a table of text.
    SettingsError
        A column is not there.
    """
    csv.field_size_limit(_LONGEST_FIELD)
    root, known = audio.resolve(), frozenset(phrases)
    try:
        with manifest.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            tabs = "\t" in header
            rows = csv.reader(
                file, delimiter="\t" if tabs else ",", quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL
            )
            names = next(csv.reader([header.rstrip("\r\n")], delimiter="\t" if tabs else ","), [])
            places = _places(names, columns, manifest)
            for row in rows:
                if row:
                    yield _recording(row, places, root, sentences, words, known)
    except OSError as error:
        raise DataError(f"The manifest {manifest} cannot be read ({error.strerror}): check its path.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        why = "is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else "is no table"
        raise DataError(f"The manifest {manifest} {why}: save it as CSV in UTF-8.") from error


@dataclass(frozen=True, slots=True)
class _Places:
    """Positions of the columns."""

    path: int
    word: int
    speaker: int
    valid: int | None


def _places(names: Sequence[str], columns: Columns, manifest: Path) -> _Places:
    lower = [name.strip().lower() for name in names]

    def find(given: str | None, usual: Sequence[str], option: str) -> int:
        wanted = [given.lower()] if given is not None else usual
        for name in wanted:
            if name in lower:
                return lower.index(name)
        if given is not None:
            raise SettingsError(f'{manifest} has no column "{given}": {nearest(given, names)}')
        if not any(lower):
            raise SettingsError(f"{manifest} is empty: its first line names the columns path, word and speaker.")
        if len(names) == 1 and ";" in names[0]:
            raise SettingsError(f"The columns of {manifest} are separated by semicolons: save it with commas, or tabs.")
        raise SettingsError(
            f"{manifest} has no column {' or '.join(usual)}: call one so, or say which it is with {option} of "
            f"auricle export import-speech; there is: {', '.join(names)}."
        )

    return _Places(
        find(columns.path, PATH_COLUMNS, "--path-column"),
        find(columns.word, WORD_COLUMNS, "--word-column"),
        find(columns.speaker, SPEAKER_COLUMNS, "--speaker-column"),
        lower.index(VALID_COLUMN) if VALID_COLUMN in lower else None,
    )


def _recording(
    row: Sequence[str], places: _Places, root: Path, sentences: bool, words: frozenset[str], phrases: frozenset[str]
) -> Recording | RowError | None:
    try:
        if len(row) <= max(places.path, places.word, places.speaker, places.valid or 0):
            raise RowError("the row has too few columns")
        if places.valid is not None and row[places.valid].strip().lower() in _NO:
            raise RowError("marked as not valid")
        said = row[places.word]
        text = NOISE_FOLDER if said.strip() == NOISE_FOLDER else _text(said, sentences, phrases)
        if sentences and text == NOISE_FOLDER:
            raise RowError("noise, not a sentence")
        if words and text not in words and text != NOISE_FOLDER:
            return None
        speaker = row[places.speaker].strip()
        if speaker.lower() in _NOBODY and text != NOISE_FOLDER:
            raise RowError("no speaker")
        written = row[places.path].strip()
        path = _inside(root, written)
    except RowError as reason:
        return reason
    return Recording(path, text, f"{_digest(speaker)[:12]}_nohash_{int(_digest(written)[:10], 16)}")


def _text(written: str, sentences: bool, phrases: frozenset[str]) -> str:
    words = _words(written)
    if not words:
        raise RowError("no word")
    text = " ".join(words)
    if sentences:
        return text
    if len(words) > 1 and text not in phrases:
        raise RowError("more than one word, and no phrase that is asked for")
    if len(text.encode()) > _LONGEST_WORD:
        raise RowError("a word too long for a folder's name")
    return text


def _words(written: str) -> list[str]:
    """Give the words in small letters: of punctuation and symbols only an apostrophe or hyphen inside a word stays."""
    kept = (mark if mark in _WITHIN or _is_part_of_word(mark) else " " for mark in normalize("NFC", written.lower()))
    return [word for part in "".join(kept).split() if (word := part.strip(_WITHIN + JOINERS))]


def _is_part_of_word(mark: str) -> bool:
    kind = category(mark)
    return kind[0] in "LMN" or mark in JOINERS


def _inside(root: Path, written: str) -> Path:
    if not written or "\0" in written:
        raise RowError("no path")
    path = (root / written).resolve()
    if not path.is_relative_to(root):
        raise RowError("the path leaves the folder")
    if not path.is_file():
        raise RowError("no such file")
    return path


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
