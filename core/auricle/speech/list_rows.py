"""Rows of a list of recordings, in whichever form the field publishes lists: a table of text, JSON, Kaldi, a split.

| form | by which it is known | the same columns for all |
|---|---|---|
| a table (Common Voice, MSWC, DeepSpeech, a Hugging Face metadata.csv) | a first line that names columns | its own |
| JSON lines (NeMo, a Hugging Face metadata.jsonl), or one JSON array | `{` or `[` | the keys |
| a split of Speech Commands (testing_list.txt) | a first line that is a path of sound | path, word, speaker |
| Kaldi (wav.scp, text, utt2spk) | a file called wav.scp | path, word, speaker |

What is known and not read is named for what it is.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath

import msgspec

from auricle.errors import DataError
from auricle.files import normal_form, open_regular, read_lines
from auricle.speech.sound_files import is_sound_file

DELIMITERS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}
"""What may separate the columns of a table."""
SPEAKER_MARK = "_nohash_"
"""What stands between the speaker and the take in a file's name."""
KALDI = "wav.scp"
"""Kaldi's list of recordings; `text` and `utt2spk` beside it say the rest."""
PARQUET = b"PAR1"
"""With which a Parquet table begins."""

_WHAT = "The manifest"
_SEPARATOR = re.compile(r'"?sep=([,;|\t])"?')
"""The line with which Excel says what separates the columns."""
_LONGEST_FIELD = 1 << 20
_KNOWN = (
    (PARQUET, "a Parquet table", "auricle export import-speech {name} --out DIR makes a folder of it"),
    (b"ARROW1", "an Arrow table", "save it as Parquet: load_dataset(...).to_parquet(FILE) of Hugging Face's datasets"),
    (b"PK\x03\x04", "a ZIP archive or a sheet of Excel", "unpack it, or save the sheet as CSV in UTF-8"),
    (b"\x1f\x8b", "a gzip archive", "unpack it with gunzip or tar -xzf"),
    (b"BZh", "a bzip2 archive", "unpack it with bunzip2 or tar -xjf"),
    (b"\xfd7zXZ", "an xz archive", "unpack it with unxz or tar -xJf"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", "unpack it with unzstd"),
    (b"SQLite format 3", "a SQLite database", "export its table as CSV in UTF-8"),
    (b"\x89HDF", "an HDF5 file", "write its recordings as WAV files and a list of them"),
    (b"\x93NUMPY", "a NumPy array", "write its recordings as WAV files and a list of them"),
    (b"RIFF", "a recording, not a list", "name the folder that holds it"),
    (b"fLaC", "a recording, not a list", "name the folder that holds it"),
    (b"OggS", "a recording, not a list", "name the folder that holds it"),
)
"""First bytes, what such a file is, and what to do with it."""
_TAR = (257, b"ustar")
_JSON = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class Rows:
    """A list, opened: which columns it has, and its rows."""

    columns: tuple[str, ...] | None
    """Their names as they are written; None: each row has its own, as JSON has."""

    rows: Iterator[tuple[int, dict[str, str] | None]]
    """The line or place of each row, and what its columns hold, of a short row those that it has; None: no row."""


def open_rows(manifest: Path, wanted: Sequence[frozenset[str]]) -> Rows:
    """Open a list of recordings.

    Parameters
    ----------
    manifest
        The file; a folder that holds `KALDI` is read by it.
    wanted
        For each column that is looked for, its names in `plain_name`: a table is parted by that with which most are
        there.

    Raises
    ------
    DataError
        It cannot be read, or is none of the forms above: the sentence says what it is and what to do.
    """
    csv.field_size_limit(_LONGEST_FIELD)
    if manifest.name == KALDI:
        return Rows(("path", "word", "speaker"), _of_kaldi(manifest.parent))
    _refuse_foreign(manifest)
    lines = read_lines(manifest, _WHAT, refusal=DataError)
    first = next(lines, "")
    start = first.lstrip()[:1]
    if start == "{":
        return Rows(None, _of_json_lines(chain([first], lines), manifest))
    if start == "[" and manifest.suffix.lower() not in (".csv", ".tsv"):
        return Rows(None, _of_json_array("".join(chain([first], lines)), manifest))
    if is_path_of_split(first):
        return Rows(("path", "word", "speaker"), _of_split(chain([first], lines)))
    return _table(first.rstrip("\r\n"), lines, wanted, manifest)


def is_table(manifest: Path) -> bool:
    """Whether a list is a Parquet table; False where it cannot be opened."""
    try:
        with open_regular(manifest, _WHAT, DataError) as file:
            return file.read(len(PARQUET)) == PARQUET
    except (OSError, ValueError, DataError):
        return False


def plain_name(column: str) -> str:
    """A column's name as it is compared: `speaker_id`, `speakerId` and `Speaker ID` are one."""
    return re.sub(r"[\s_.-]+", "", normal_form(column).strip().lower())


def is_path_of_split(line: str) -> bool:
    """Whether a line is a path as Speech Commands lists them: `yes/<speaker>_nohash_0.wav`."""
    path = PurePosixPath(line.strip().replace("\\", "/"))
    return SPEAKER_MARK in path.stem and is_sound_file(path.name) and bool(path.parent.name) and "," not in line


def _refuse_foreign(manifest: Path) -> None:
    try:
        with open_regular(manifest, _WHAT, DataError) as file:
            head = file.read(512)
    except (OSError, ValueError):  # its reader reports it
        return
    known = next((row for row in _KNOWN if head.startswith(row[0])), None)
    if known is None and head[_TAR[0] :].startswith(_TAR[1]):
        known = (b"", "a tar archive", "unpack it with tar -xf, and name its folder")
    if known is not None:
        raise DataError(f"{manifest} is {known[1]}: {known[2].format(name=manifest)}.")


def _table(header: str, lines: Iterator[str], wanted: Sequence[frozenset[str]], manifest: Path) -> Rows:
    separator = _SEPARATOR.fullmatch(header)
    if separator is not None:
        header = next(lines, "").rstrip("\r\n")
    try:
        delimiter, names = _header(header, wanted, separator[1] if separator else None)
    except csv.Error as error:
        raise _no_table(manifest) from error
    bare = delimiter in "\t|" and '"' not in header
    rows = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE if bare else csv.QUOTE_MINIMAL)
    return Rows(tuple(names), _of_table(rows, names, manifest))


def _of_table(
    rows: Iterator[list[str]], names: Sequence[str], manifest: Path
) -> Iterator[tuple[int, dict[str, str] | None]]:
    number = 1
    try:
        for row in rows:
            if row:
                number += 1
                cells = dict(zip(names, row, strict=False))
                if len(cells) < min(len(names), len(row)):  # of two columns of one name the first counts
                    cells |= {name: row[names.index(name)] for name in cells}
                yield number, cells
    except csv.Error as error:
        raise _no_table(manifest) from error


def _no_table(manifest: Path) -> DataError:
    return DataError(f"The manifest {manifest} is not a table: save it as CSV in UTF-8.")


def _header(header: str, wanted: Sequence[frozenset[str]], separator: str | None) -> tuple[str, list[str]]:
    """What separates the columns of a first line, and their names; of several that fit, the first in `DELIMITERS`."""

    def fit(parted: tuple[str, list[str]]) -> tuple[int, int]:
        names = {plain_name(name) for name in parted[1]}
        return sum(not names.isdisjoint(each) for each in wanted), len(parted[1])

    header = normal_form(header)
    parted = (
        (each, next(csv.reader([header], delimiter=each), [])) for each in ([separator] if separator else DELIMITERS)
    )
    return max(parted, key=fit)


def _of_json_lines(lines: Iterator[str], manifest: Path) -> Iterator[tuple[int, dict[str, str] | None]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = _JSON.decode(line.encode())
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            if number > 1:
                yield number, None
                continue
            raise DataError(
                f"{manifest} begins with a brace and has no JSON object in its first line: write one object a line, as "
                'in {"path": "a.wav", "word": "yes", "speaker": "anna"}.'
            ) from error
        yield number, _object(value, manifest)


def _of_json_array(text: str, manifest: Path) -> Iterator[tuple[int, dict[str, str] | None]]:
    try:
        rows = _JSON.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise DataError(f"{manifest} is not a JSON array: write a list of objects, one for each recording.") from error
    for number, row in enumerate(rows, 1):
        yield number, _object(row, manifest)


def _object(value: object, manifest: Path) -> dict[str, str] | None:
    """The texts and numbers of a JSON object; of an object inside, what its `path` says."""
    if not isinstance(value, dict):
        return None
    if "supervisions" in value or "sources" in value:
        raise DataError(
            f"{manifest} is a Lhotse manifest: write a list with the columns path, word and speaker of its recordings."
        )
    texts: dict[str, str] = {}
    for name, cell in value.items():
        content = cell.get("path") if isinstance(cell, dict) else cell
        if isinstance(content, str | int | float):
            texts[name] = str(content)
    return texts


def _of_split(lines: Iterator[str]) -> Iterator[tuple[int, dict[str, str] | None]]:
    for number, line in enumerate(lines, 1):
        if not (written := line.strip()):
            continue
        path = PurePosixPath(written.replace("\\", "/"))
        speaker, mark, _ = path.stem.partition(SPEAKER_MARK)
        yield number, {"path": written, "word": path.parent.name, "speaker": speaker if mark else ""}


def _of_kaldi(folder: Path) -> Iterator[tuple[int, dict[str, str] | None]]:
    if (folder / "segments").is_file():
        raise DataError(
            f"{folder} has segments, parts of longer recordings: write each as a file of its own, with "
            "utils/data/extract_wav_segments_data_dir.sh of Kaldi."
        )
    said, speakers = _pairs(folder / "text"), _pairs(folder / "utt2spk")
    for number, (name, path) in enumerate(_pairs(folder / KALDI).items(), 1):
        if path.endswith("|"):
            yield number, {"path": "", "word": said.get(name, ""), "command": path}
        else:
            yield number, {"path": path, "word": said.get(name, ""), "speaker": speakers.get(name, "")}


def _pairs(file: Path) -> dict[str, str]:
    """The name before the first space of each line, and what follows; nothing of a file that is not there."""
    if file.name != KALDI and not file.exists():
        return {}
    lines = (line.strip().partition(" ") for line in read_lines(file, _WHAT, refusal=DataError) if line.strip())
    return {name.partition("\t")[0]: (name.partition("\t")[2] + " " + rest).strip() for name, _, rest in lines}
