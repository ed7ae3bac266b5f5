"""Clips with a phrase and clips without it in Parquet tables, as sets of livekit-wakeword-bench are published.

A row is a clip. Of its columns `audio` (the bytes of a file of sound) and `label` (1: it says the phrase, 0: it does
not) are needed; `category` is the kind of sound without the phrase, `phrase_onset_s` and `phrase_offset_s` say where in
the clip the phrase is, `id` names it, and where some rows have `test` as their `split`, these alone are heard.
"""

from __future__ import annotations

import importlib
import math
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from auricle.errors import DataError
from auricle.hearing.scenes import Scene
from auricle.speech.audio import MAX_SECONDS, SAMPLE_RATE
from auricle.speech.sound_faults import Finding, SoundFault, nothing_usable
from auricle_edge.evaluate.phrase_set import LONGEST_PHRASE, Clip, Read, read_clip, with_phrase, without_phrase

NEEDED = ("audio", "label")
JUDGING = "test"
"""The split that is heard where there is one."""
AT_ONCE = 32
"""Rows in memory."""
LONGEST_KIND = 30
"""Letters of a category that are shown."""


class _Audio(msgspec.Struct):
    content: bytes | None = msgspec.field(default=None, name="bytes")


class _Row(msgspec.Struct):
    label: int
    audio: _Audio | None = None
    id: str | None = None
    split: str | None = None
    category: str | None = None
    phrase_onset_s: float | None = None
    phrase_offset_s: float | None = None


class _Choice(NamedTuple):
    """Which rows."""

    split: str | None
    label: int
    kind: str = ""
    """"" with the phrase."""

    def holds(self, row: _Row) -> bool:
        return (
            row.label == self.label and self.split in (None, row.split) and (self.label == 1 or _kind(row) == self.kind)
        )


def has_tables(folder: Path) -> bool:
    """Whether a folder holds a Parquet table, at any depth."""
    return next(folder.rglob("*.parquet"), None) is not None


def table_set(folder: Path, phrase: str, findings: list[Finding]) -> list[Read]:
    """Scenes of the clips in a folder's tables, read while they are taken: first those with the phrase.

    Parameters
    ----------
    folder
        Holds `.parquet` files, at any depth.
    phrase
        What the clips of label 1 say.
    findings
        Takes what is found in rows that cannot be used, or not as they stand, while scenes are read.

    Raises
    ------
    DataError
        pyarrow is not installed, a table cannot be read or lacks a column, or no clip with the phrase, or none without
        it, can be used.
    """
    tables = sorted(folder.rglob("*.parquet"))
    places = {(row.split, row.label, _kind(row)) for table in tables for row in _rows(table, with_sound=False)}
    split = JUDGING if any(place[0] == JUDGING for place in places) else None
    kinds = sorted({kind for part, label, kind in places if label == 0 and split in (None, part)})
    said, without = _Choice(split, 1), [_Choice(split, 0, kind) for kind in kinds]
    _refuse_unusable(tables, [said], f"with the phrase in the tables of {folder}")
    _refuse_unusable(tables, without, f"without the phrase in the tables of {folder}")
    return [
        *(partial(_positive, table, said, phrase, findings) for table in tables),
        *(partial(_without, table, choice, findings) for choice in without for table in tables),
    ]


def _refuse_unusable(tables: Sequence[Path], choices: Sequence[_Choice], where: str) -> None:
    """DataError where not one clip can be used; it reads as far as the first that can."""
    findings: list[Finding] = []
    each = (_clips(table, choice, findings) for choice in choices for table in tables)
    if next(chain.from_iterable(each), None) is None:
        raise DataError(nothing_usable(where, findings, "clip"))


def _positive(table: Path, choice: _Choice, phrase: str, findings: list[Finding]) -> Iterator[Scene]:
    return with_phrase(_clips(table, choice, findings), phrase)


def _without(table: Path, choice: _Choice, findings: list[Finding]) -> Iterator[Scene]:
    return without_phrase(_clips(table, choice, findings), choice.kind)


def _kind(row: _Row) -> str:
    kind = " ".join((row.category or "").replace("_", " ").split())[:LONGEST_KIND]
    return kind if kind.isprintable() and kind else "without the phrase"


def _clips(table: Path, choice: _Choice, findings: list[Finding]) -> Iterator[Clip]:
    """The clips of a table that can be used; what is wrong with others is a finding."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "clip"
        for number, row in enumerate(_rows(table, with_sound=True), 1):
            if not choice.holds(row):
                continue
            name = row.id if row.id and row.id.isprintable() else f"row {number}"
            source = f"{name} of {table}"
            if row.audio is None or not row.audio.content:
                sentence = f"{source} has no bytes in its column audio: write the sound itself into the table."
                findings.append(SoundFault.EMPTY.finding(sentence))
                continue
            file.write_bytes(row.audio.content)
            clip = read_clip(file, source, name, findings, LONGEST_PHRASE if choice.label else MAX_SECONDS)
            if clip is not None:
                yield clip._replace(span=_span(row, len(clip.samples)))


def _span(row: _Row, size: int) -> tuple[int, int] | None:
    """First and last sample of the phrase; None where the row does not say it, or says what cannot be."""
    first, last = row.phrase_onset_s, row.phrase_offset_s
    if first is None or last is None or not (math.isfinite(first) and math.isfinite(last)):
        return None
    begin, end = round(first * SAMPLE_RATE), min(round(last * SAMPLE_RATE), size - 1)
    return (begin, end) if 0 <= begin < end else None


def _rows(table: Path, *, with_sound: bool) -> Iterator[_Row]:
    """The rows of a table, checked; without their sound they take little memory."""
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise DataError(f"{table} is a Parquet table, which needs pyarrow: pip install 'auricle[parquet]'.") from error
    try:
        with parquet.ParquetFile(table) as opened:
            columns = opened.schema_arrow.names
            for name in NEEDED:
                if name not in columns:
                    raise DataError(f'{table} has no column "{name}": a set of clips has {" and ".join(NEEDED)}.')
            known = [name for name in _Row.__struct_fields__ if name in columns and (with_sound or name != "audio")]
            for batch in opened.iter_batches(batch_size=AT_ONCE, columns=known):
                yield from msgspec.convert(batch.to_pylist(), list[_Row])
    except msgspec.ValidationError as error:
        raise DataError(f"{table} is not a table of clips: {error}.") from error
    except (OSError, ValueError, arrow.ArrowException) as error:
        raise DataError(f"{table} is not a Parquet table that can be read: name another folder.") from error
