"""Lists of recordings: which columns hold the file, the word and the speaker, and what a row gives."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from unicodedata import category

from auricle.errors import DataError, SettingsError
from auricle.files import NamesOnDisk, normal_form, read_lines
from auricle.packs.manifest import JOINERS, SILENCE, SPECIAL_LABELS
from auricle.speech.list_columns import Columns, Places, find_places
from auricle.speech.list_rows import open_rows
from auricle.speech.sound_faults import Finding, SoundFault
from auricle.speech.spelling import Spelling, small_letters

NOISE_FOLDER = "_background_noise_"
"""What stands where the word would be, for noise; the folder of a Speech Commands root that holds it."""

AUDIO_FOLDER = "clips"
"""Where a manifest's paths start, if it is beside it."""

NOBODY = "nobody/"
"""Before the path, for the speaker of a recording that names none."""

_LONGEST_WORD = 64
_WHAT = "The manifest"
_WITHIN = "'’-"
_NO = frozenset({"false", "0", "no"})
_NOBODY = frozenset({"", "na", "nan", "none", "null", "unknown"})


@dataclass(frozen=True, slots=True)
class Recording:
    """A row that can be imported."""

    path: Path
    """The file, inside the collection's folder."""

    text: str
    """The word, phrase or sentence: small letters, no marks at its ends; `NOISE_FOLDER` for noise."""

    name: str
    """`<speaker>_nohash_<n>`: the speaker hashed, n from the path, so that the same row always has the same name."""

    has_speaker: bool = True
    """Whether the row says who speaks; else it counts as a speaker of its own."""


def nobody_in(what: Path | str) -> Finding:
    """What is said of a file or row that names no speaker."""
    return SoundFault.NAME.finding(f"{what} does not say who speaks: it counts as a speaker of its own.")


class RowError(Exception):
    """A row that gives no recording; its argument says why, in the same words for all rows of that kind."""


def audio_folder(manifest: Path) -> Path:
    """Where the paths of a manifest start: `clips` beside it, or its own folder where that is not."""
    beside = manifest.parent / AUDIO_FOLDER
    return beside if beside.is_dir() else manifest.parent


def count_rows(manifest: Path) -> int:
    """Count the lines after the first, which in most lists names the columns.

    Raises
    ------
    DataError
        The file cannot be read, or is not a text.
    """
    return max(0, sum(1 for _ in read_lines(manifest, _WHAT, refusal=DataError)) - 1)


def names_words(manifest: Path) -> bool:
    """Whether a list that lies in a folder of sound has the columns of a path and of a word."""
    try:
        next(read_manifest(manifest, audio_folder(manifest), Columns(), sentences=False), None)
    except SettingsError:
        return False
    return True


def read_manifest(
    manifest: Path,
    audio: Path,
    columns: Columns,
    *,
    sentences: bool,
    words: frozenset[str] = frozenset(),
    phrases: Collection[str] = (),
    speaker: str = "",
) -> Iterator[tuple[int, Recording | RowError | None]]:
    """Give what every row of a list says, in order, with its line or place; `list_rows` has the forms of lists.

    A row that cannot be used is given as a `RowError`, one of a word not asked for as None: its file is not looked at.
    A backslash in a path is one of a name where there is such a file, else a slash. Words, paths and speakers are the
    same with letters and marks composed or not, as are names on disk. A row that names no speaker is of one of its own.

    Parameters
    ----------
    manifest
        The file. A table's first line names the columns, separated by one of `DELIMITERS`: by that with which most of
        the columns are there. Tabs and bars separate them inside of quotation marks too, unless the first line has
        these.
    audio
        The folder that the paths start from; a path that leads out of it is a bad row.
    columns
        Which column is which, where the names are not the usual ones.
    sentences
        Whether the text may have more than one word.
    words
        Only rows of these; empty for all.
    phrases
        Words as they are to be written, such as a pack's labels; those of several words count as one word.
    speaker
        Who says the rows that name nobody; empty: each a speaker of its own.

    Raises
    ------
    DataError
        The file cannot be read, or is no list of recordings.
    SettingsError
        A column is not there.
    """
    beside = (manifest.parent.resolve(),) if audio == manifest.parent / AUDIO_FOLDER else ()
    files = _Files((audio.resolve(), *beside), NamesOnDisk())
    wanted, known = Spelling(words), Spelling((*words, *phrases))
    opened = open_rows(manifest, columns.names)
    places = None if opened.columns is None else find_places(opened.columns, columns, manifest)
    asked = _Asked(files, sentences, wanted if words else None, known, speaker)
    for number, row in opened.rows:
        if row is None:
            yield number, RowError("not a row of the list")
            continue
        if opened.columns is None and (places is None or not places.fit(row)):
            places = find_places(tuple(row), columns, manifest)
        assert places is not None
        yield number, _recording(row, places, asked, is_table=opened.columns is not None)


@dataclass(frozen=True, slots=True)
class _Files:
    """Finds the files that rows name."""

    roots: tuple[Path, ...]
    """Where paths start: in the first of these in which there is such a file."""
    names: NamesOnDisk

    def find(self, written: str) -> Path | None:
        """The file of a path, or of the same with slashes for backslashes; None where neither is there.

        Raises
        ------
        RowError
            The path leads out of the roots.
        """
        outside = False
        for root, spelt in product(self.roots, dict.fromkeys((written, written.replace("\\", "/")))):
            try:
                path = self.names.find(root / spelt).resolve()
                there = path.is_file()
            except (OSError, RuntimeError):  # a name too long, or links in a circle
                continue
            if not path.is_relative_to(root):
                outside = True
            elif there:
                return path
        if outside:
            raise RowError("the path leaves the folder")
        return None


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of all rows."""

    files: _Files
    sentences: bool
    words: Spelling | None
    """Only these; None for all."""
    known: Spelling
    speaker: str


def _recording(row: dict[str, str], places: Places, asked: _Asked, *, is_table: bool) -> Recording | RowError | None:
    try:
        if not places.fit(row, whole=is_table):
            raise RowError("the row has too few columns")
        if places.valid is not None and row.get(places.valid, "").strip().lower() in _NO:
            raise RowError("marked as not valid")
        if places.offset is not None and row.get(places.offset, "").strip(" 0.") not in ("", "None"):
            raise RowError("a part of a longer recording: cut it out into a file of its own")
        said = row[places.word].strip()
        text = said if said in (NOISE_FOLDER, *SPECIAL_LABELS) else _text(said, asked)
        if asked.sentences and text == NOISE_FOLDER:
            raise RowError("noise, not a sentence")
        if asked.words is not None and text != NOISE_FOLDER and asked.words.find(text) is None:
            return None
        written = row[places.path].strip()
        path = _path(asked.files, written)
    except RowError as reason:
        return reason
    speaker = normal_form(row.get(places.speaker, "").strip()) if places.speaker is not None else ""
    is_nobody = speaker.lower() in _NOBODY and text not in (NOISE_FOLDER, SILENCE)
    if is_nobody:
        speaker = asked.speaker or f"{NOBODY}{normal_form(written)}"
    name = f"{digest(speaker)[:12]}_nohash_{int(digest(normal_form(written))[:10], 16)}"
    return Recording(path, text, name, not is_nobody or bool(asked.speaker))


def _text(written: str, asked: _Asked) -> str:
    words = _words(written)
    if not words:
        raise RowError("no word")
    text = " ".join(words)
    if asked.sentences:
        return text
    known = asked.known.find(_without_punctuation(written)) or asked.known.find(text)
    if known is None and len(words) > 1:
        raise RowError("more than one word, and no phrase that is asked for")
    text = known or text
    if len(text.encode()) > _LONGEST_WORD:
        raise RowError("a word too long for a folder's name")
    return text


def _words(written: str) -> list[str]:
    """Give the words in small letters: of punctuation and symbols only an apostrophe or hyphen inside a word stays."""
    return [
        word for part in small_letters(_without_punctuation(written)).split() if (word := part.strip(_WITHIN + JOINERS))
    ]


def _without_punctuation(written: str) -> str:
    """The text without punctuation and symbols, capitals as they are."""
    return "".join(mark if mark in _WITHIN or _is_part_of_word(mark) else " " for mark in normal_form(written))


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


def digest(text: str) -> str:
    """What stands for a speaker's or a path's name."""
    return hashlib.sha256(text.encode()).hexdigest()
