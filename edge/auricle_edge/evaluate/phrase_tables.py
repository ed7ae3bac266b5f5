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

from auricle.errors import DataError, extra_command
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
MOST_KINDS = 20
"""Categories that are told apart: with more, all are one kind."""
OTHER_KIND = "without the phrase"


class _Audio(msgspec.Struct):
    content: bytes | None = msgspec.field(default=None, name="bytes")


class _Row(msgspec.Struct):
    label: int
    audio: _Audio | bytes | None = None
    id: str | int | None = None
    split: str | None = None
    category: str | int | None = None
    phrase_onset_s: float | None = None
    phrase_offset_s: float | None = None

    @property
    def sound(self) -> bytes:
        """The file of sound; empty where the row has none."""
        return (self.audio.content if isinstance(self.audio, _Audio) else self.audio) or b""

    @property
    def kind(self) -> str:
        """Of the sound without the phrase."""
        text = "" if self.category is None else str(self.category)
        kind = " ".join(text.replace("_", " ").split())[:LONGEST_KIND]
        return kind if kind.isprintable() and kind else OTHER_KIND


class _Choice(NamedTuple):
    """Which rows."""

    split: str | None
    label: int
    kind: str | None = None

    def holds(self, row: _Row) -> bool:
        return row.label == self.label and self.split in (None, row.split) and self.kind in (None, row.kind)


def has_tables(folder: Path) -> bool:
    """Whether a folder holds a Parquet table, at any depth."""
    return bool(_tables(folder))


def _tables(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.parquet") if path.is_file())


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
        pyarrow is not installed, a table cannot be read, lacks a column or has a row that is not one, or no clip with
        the phrase, or none without it, can be used.
    """
    tables = _tables(folder)
    places = {(row.split, row.label, row.kind) for table in tables for row in _rows(table, with_sound=False)}
    split = JUDGING if any(place[0] == JUDGING for place in places) else None
    kinds = sorted({kind for part, label, kind in places if label == 0 and split in (None, part)})
    said = _Choice(split, 1)
    without = [_Choice(split, 0, kind) for kind in kinds] if len(kinds) <= MOST_KINDS else [_Choice(split, 0)]
    where = f"the tables of {folder}{f', split {split}' if split else ''}"
    _refuse_unusable(tables, [said], where, "clip with the phrase")
    _refuse_unusable(tables, without, where, "clip without the phrase")
    return [
        *(partial(_positive, table, said, phrase, findings) for table in tables),
        *(partial(_without, table, choice, findings) for choice in without for table in tables),
    ]


def _refuse_unusable(tables: Sequence[Path], choices: Sequence[_Choice], where: str, what: str) -> None:
    """DataError where not one clip can be used; it reads as far as the first that can."""
    findings: list[Finding] = []
    each = (_clips(table, choice, findings) for choice in choices for table in tables)
    if next(chain.from_iterable(each), None) is None:
        raise DataError(nothing_usable(where, findings, what))


def _positive(table: Path, choice: _Choice, phrase: str, findings: list[Finding]) -> Iterator[Scene]:
    return with_phrase(_clips(table, choice, findings), phrase)


def _without(table: Path, choice: _Choice, findings: list[Finding]) -> Iterator[Scene]:
    return without_phrase(_clips(table, choice, findings), choice.kind or OTHER_KIND)


def _clips(table: Path, choice: _Choice, findings: list[Finding]) -> Iterator[Clip]:
    """The clips of a table that can be used; what is wrong with others is a finding."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "clip"
        for number, row in enumerate(_rows(table, with_sound=True), 1):
            if not choice.holds(row):
                continue
            known = "" if row.id is None else str(row.id)
            name = known if known and known.isprintable() else f"row {number}"
            source = f"{name} of {table}"
            if not row.sound:
                sentence = f"{source} has no bytes in its column audio: write the sound itself into the table."
                findings.append(SoundFault.EMPTY.finding(sentence))
                continue
            file.write_bytes(row.sound)
            span = _span(row)
            is_whole = choice.label == 1 and span is None
            clip = read_clip(file, source, name, findings, LONGEST_PHRASE if is_whole else MAX_SECONDS)
            if clip is not None:
                yield clip._replace(span=_within(span, len(clip.samples)))


def _span(row: _Row) -> tuple[float, float] | None:
    """Seconds in which the phrase is said; None where the row does not say it, or says what cannot be."""
    first, last = row.phrase_onset_s, row.phrase_offset_s
    if first is None or last is None or not math.isfinite(last):
        return None
    return (first, last) if 0 <= first < last else None


def _within(span: tuple[float, float] | None, size: int) -> tuple[int, int] | None:
    """First and last sample of the phrase in a clip of so many; None where it begins after its end."""
    if span is None or span[0] * SAMPLE_RATE >= size - 1:
        return None
    return round(span[0] * SAMPLE_RATE), round(min(span[1] * SAMPLE_RATE, size - 1))


def _rows(table: Path, *, with_sound: bool) -> Iterator[_Row]:
    """The rows of a table, checked; without their sound they take little memory."""
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise DataError(f"{table} is a Parquet table, which needs pyarrow: {extra_command('parquet')}.") from error
    try:
        with parquet.ParquetFile(table) as opened:
            columns = opened.schema_arrow.names
            for name in NEEDED:
                if name not in columns:
                    raise DataError(f'{table} has no column "{name}": a set of clips has {" and ".join(NEEDED)}.')
            known = [name for name in _Row.__struct_fields__ if name in columns and (with_sound or name != "audio")]
            number = 0
            for batch in opened.iter_batches(batch_size=AT_ONCE, columns=known):
                for raw in batch.to_pylist():
                    number += 1
                    yield _row(raw, f"row {number} of {table}")
    except (OSError, ValueError, OverflowError, arrow.ArrowException) as error:
        raise DataError(f"{table} is not a Parquet table that can be read: name another folder.") from error


def _row(raw: object, where: str) -> _Row:
    """A row, checked; DataError names the column that is not as it has to be."""
    assert isinstance(raw, dict)
    if raw.get("label") not in (0, 1):
        raise DataError(f"The label in {where} is neither 1, with the phrase, nor 0, without it: write one of them.")
    try:
        return msgspec.convert(raw | {"label": int(raw["label"])}, _Row)
    except msgspec.ValidationError as error:
        wrong = next((name for name in _Row.__struct_fields__ if f"$.{name}" in str(error)), "audio")
        raise DataError(f'The column "{wrong}" in {where} holds something else than a set of clips does.') from error
