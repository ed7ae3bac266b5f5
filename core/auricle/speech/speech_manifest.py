"""Manifests of speech collections: which columns hold the file, the word and the speaker, and what a row gives."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unicodedata import category

from auricle.errors import DataError, SettingsError, nearest
from auricle.files import NamesOnDisk, normal_form, read_lines
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

DELIMITERS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}
"""What may separate the columns."""

_SEPARATOR = re.compile(r'"?sep=([,;|\t])"?')
"""The line with which Excel says what separates the columns."""
_LONGEST_FIELD = 1 << 20
_LONGEST_WORD = 64
_WHAT = "The manifest"
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
        The file cannot be read, or is not a text.
    """
    return max(0, sum(1 for _ in read_lines(manifest, _WHAT, refusal=DataError)) - 1)


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
    A backslash in a path is one of a name where there is such a file, else a slash. Words, paths and speakers are the
    same with letters and marks composed or not, as are names on disk.

    Parameters
    ----------
    manifest
        The file: the first line names the columns, separated by one of `DELIMITERS`: by that with which most of the
        columns are found. Tabs and bars separate them inside of quotation marks too, unless the first line has these.
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
    files = _Files(audio.resolve(), NamesOnDisk())
    wanted, known = frozenset(map(normal_form, words)), frozenset(map(normal_form, phrases))
    lines = read_lines(manifest, _WHAT, refusal=DataError)
    header = next(lines, "").rstrip("\r\n")
    told = _SEPARATOR.fullmatch(header)
    if told is not None:
        header = next(lines, "").rstrip("\r\n")
    try:
        delimiter, names = _header(header, columns, told[1] if told else None)
        bare = delimiter in "\t|" and '"' not in header
        rows = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE if bare else csv.QUOTE_MINIMAL)
        places = _places(names, columns, manifest)
        for row in rows:
            if row:
                yield _recording(row, places, files, sentences, wanted, known)
    except csv.Error as error:
        raise DataError(f"The manifest {manifest} is not a table: save it as CSV in UTF-8.") from error


def _header(header: str, columns: Columns, told: str | None) -> tuple[str, list[str]]:
    """What separates the columns of a first line, and their names; of several that fit, the first in `DELIMITERS`."""
    usual = (PATH_COLUMNS, WORD_COLUMNS, SPEAKER_COLUMNS)
    given = (columns.path, columns.word, columns.speaker)
    wanted = [{normal_form(name.lower())} if name else set(known) for name, known in zip(given, usual, strict=True)]

    def fit(found: tuple[str, list[str]]) -> tuple[int, int]:
        names = {name.strip().lower() for name in found[1]}
        return sum(not names.isdisjoint(each) for each in wanted), len(found[1])

    header = normal_form(header)
    parted = ((each, next(csv.reader([header], delimiter=each), [])) for each in ([told] if told else DELIMITERS))
    return max(parted, key=fit)


@dataclass(frozen=True, slots=True)
class _Files:
    """Finds the files that rows name."""

    root: Path
    names: NamesOnDisk

    def find(self, written: str) -> Path | None:
        """The file of a path, or of the same with slashes for backslashes; None where neither is there.

        Raises
        ------
        RowError
            The path leads out of the root.
        """
        for spelt in dict.fromkeys((written, written.replace("\\", "/"))):
            try:
                path = self.names.find(self.root / spelt).resolve()
                there = path.is_file()
            except (OSError, RuntimeError):  # a name too long, or links in a circle
                continue
            if not path.is_relative_to(self.root):
                raise RowError("the path leaves the folder")
            if there:
                return path
        return None


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
        wanted = [normal_form(given.lower())] if given is not None else usual
        for name in wanted:
            if name in lower:
                return lower.index(name)
        if given is not None:
            raise SettingsError(f'{manifest} has no column "{given}": {nearest(given, names)}')
        if not any(lower):
            raise SettingsError(f"{manifest} is empty: its first line names the columns path, word and speaker.")
        if len(names) == 1:
            raise SettingsError(
                f"{manifest} has one column, {names[0][:60]!r}: its first line names the columns path, word and "
                f"speaker, separated by {', '.join(DELIMITERS.values())}."
            )
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
    row: Sequence[str], places: _Places, files: _Files, sentences: bool, words: frozenset[str], phrases: frozenset[str]
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
        speaker = normal_form(row[places.speaker].strip())
        if speaker.lower() in _NOBODY and text != NOISE_FOLDER:
            raise RowError("no speaker")
        written = row[places.path].strip()
        path = _path(files, written)
    except RowError as reason:
        return reason
    return Recording(path, text, f"{_digest(speaker)[:12]}_nohash_{int(_digest(normal_form(written))[:10], 16)}")


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
    kept = (mark if mark in _WITHIN or _is_part_of_word(mark) else " " for mark in normal_form(written.lower()))
    return [word for part in "".join(kept).split() if (word := part.strip(_WITHIN + JOINERS))]


def _is_part_of_word(mark: str) -> bool:
    kind = category(mark)
    return kind[0] in "LMN" or mark in JOINERS


def _path(files: _Files, written: str) -> Path:
    if not written:
        raise RowError("no path")
    path = files.find(written)
    if path is None:
        raise RowError("no such file")
    return path


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
