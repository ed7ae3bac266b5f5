"""Sets of clips in Parquet tables: which rows are heard, where the phrase is, and what is refused."""

from __future__ import annotations

import importlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile
from pyarrow import parquet
from tests.edge.evaluate_sounds import spoken_sources

from auricle.errors import DataError
from auricle.hearing.scenes import Scene
from auricle.process.cli import main
from auricle.speech.audio import SAMPLE_RATE
from auricle.speech.sound_faults import Finding
from auricle_edge.evaluate.phrase_tables import AT_ONCE, MOST_KINDS, table_set

PAUSE = 3 * SAMPLE_RATE // 2


def _sound(samples: np.ndarray[Any, Any] | float) -> dict[str, object]:
    """As Hugging Face's datasets keep sound in Parquet; a number is seconds."""
    file = io.BytesIO()
    if isinstance(samples, float):
        samples = np.full(round(samples * SAMPLE_RATE), 0.25)
    soundfile.write(file, samples, SAMPLE_RATE, format="FLAC")
    return {"bytes": file.getvalue(), "path": "clip.flac"}


def _row(label: int, seconds: float = 1.0, category: str | None = None, **more: object) -> dict[str, object]:
    return {"audio": _sound(seconds), "label": label, "category": category, **more}


def _write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def _scenes(folder: Path, findings: list[Finding] | None = None) -> list[Scene]:
    return [scene for read in table_set(folder, "x", [] if findings is None else findings) for scene in read()]


def test_the_phrase_is_where_its_row_says_and_kinds_are_categories(tmp_path: Path) -> None:
    rows = [
        _row(1, 2.0, "positive", id="a", phrase_onset_s=0.5, phrase_offset_s=1.25),
        _row(0, 1.0, "adversarial_negative", id="b", phrase_onset_s=None, phrase_offset_s=None),
        _row(0, 3.0, "background", id="c", phrase_onset_s=-1.0, phrase_offset_s=-1.0),
    ]
    _write(tmp_path / "data" / "test-00000.parquet", rows)
    positive, near, background = _scenes(tmp_path)

    (word,) = positive.words
    assert (word.word, word.speaker, word.start, word.end) == ("x", "a", PAUSE + 8_000, PAUSE + 20_000)
    assert len(positive.samples) == 2 * PAUSE + 2 * SAMPLE_RATE
    assert [scene.stretches[0].kind for scene in (near, background)] == ["adversarial negative", "background"]
    assert [scene.hours * 3600 for scene in (near, background)] == [1, 3]


@pytest.mark.parametrize("span", [(None, 1.0), (float("nan"), 0.5), (-1.0, -1.0), (0.6, 0.5), (2.0, 3.0)])
def test_a_row_that_does_not_say_where_counts_whole(span: tuple[float | None, float | None], tmp_path: Path) -> None:
    _write(tmp_path / "a.parquet", [_row(1, phrase_onset_s=span[0], phrase_offset_s=span[1]), _row(0)])
    (word,) = _scenes(tmp_path)[0].words
    assert (word.start, word.end) == (PAUSE, PAUSE + SAMPLE_RATE - 1)


@pytest.mark.parametrize("end", [9.0, 1e308])
def test_the_end_of_a_phrase_is_inside_its_clip(end: float, tmp_path: Path) -> None:
    _write(tmp_path / "a.parquet", [_row(1, phrase_onset_s=0.25, phrase_offset_s=end), _row(0)])
    (word,) = _scenes(tmp_path)[0].words
    assert (word.start, word.end) == (PAUSE + 4_000, PAUSE + SAMPLE_RATE - 1)


def test_rows_of_the_test_split_alone_are_heard_where_there_are_some(tmp_path: Path) -> None:
    rows = [_row(label, 1.0, split=split) for split in ("train", "test") for label in (1, 0)]
    _write(tmp_path / "a.parquet", rows)
    _write(tmp_path / "b.parquet", [_row(1, 1.0, split="test")])
    assert sum(len(scene.words) for scene in _scenes(tmp_path)) == 2
    for table in tmp_path.iterdir():
        _write(table, [_row(label, 1.0, split="train") for label in (1, 0)])
    assert sum(len(scene.words) for scene in _scenes(tmp_path)) == 2


def test_a_long_table_is_read_in_parts(tmp_path: Path) -> None:
    _write(tmp_path / "a.parquet", [_row(i % 2, 0.1) for i in range(4 * AT_ONCE)])
    assert [len(scene.words) for scene in _scenes(tmp_path)] == [50, 14, 0, 0]


def test_a_row_that_cannot_be_used_is_counted_and_left_out(tmp_path: Path) -> None:
    rows = [_row(1), _row(0), _row(1, 61.0), _row(1) | {"audio": {"bytes": b"text", "path": "a.wav"}}]
    rows.append(_row(1, id="silent") | {"audio": {"bytes": None, "path": "a.wav"}})
    _write(tmp_path / "a.parquet", [{"id": None} | row for row in rows])
    findings: list[Finding] = []
    positive, _ = _scenes(tmp_path, findings)
    assert len(positive.words) == 1
    assert [each.reason for each in findings] == ["too long", "not a format that is read", "holds no sound"]
    assert all(str(tmp_path / "a.parquet") in each.sentence for each in findings)
    assert "silent of" in findings[-1].sentence and "row 3 of" in findings[0].sentence


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"label": 1}], 'no column "audio"'),
        ([{"audio": _sound(1.0)}], 'no column "label"'),
        ([_row(1) | {"label": "yes"}], "label in row 1 of .* is neither 1"),
        ([_row(0), _row(1), _row(2)], "label in row 3 of .* is neither 1"),
        ([_row(1) | {"label": None}], "label in row 1"),
        ([_row(1) | {"split": 3}], 'column "split" in row 1 of'),
        ([_row(1) | {"audio": [1, 2]}, _row(0) | {"audio": [1]}], 'column "audio" in row 1 of'),
        ([_row(1)], "There is no clip without the phrase in the tables"),
        ([_row(0)], "There is no clip with the phrase in the tables"),
        ([_row(1, split="train"), _row(0, split="test")], "no clip with the phrase in the tables of .*, split test"),
        ([_row(0), _row(1) | {"audio": {"bytes": b"text"}}], "No clip with the phrase in .* could be used"),
    ],
    ids=range(11),
)
def test_tables_that_are_none_are_refused(rows: list[dict[str, object]], says: str, tmp_path: Path) -> None:
    _write(tmp_path / "a.parquet", rows)
    with pytest.raises(DataError, match=says):
        table_set(tmp_path, "x", [])


def test_a_long_clip_is_heard_where_its_row_says_where_the_phrase_is(tmp_path: Path) -> None:
    _write(tmp_path / "a.parquet", [_row(1, 61.0, phrase_onset_s=0.5, phrase_offset_s=1.0), _row(0)])
    (word,) = _scenes(tmp_path)[0].words
    assert (word.start, word.end) == (PAUSE + 8_000, PAUSE + 16_000)


def test_plain_bytes_numbers_and_truth_values_are_read(tmp_path: Path) -> None:
    rows = [{"audio": _sound(1.0)["bytes"], "label": label, "id": label + 7, "category": 3} for label in (1, 0)]
    _write(tmp_path / "a.parquet", [row | {"label": row["label"] == 1} for row in rows])
    positive, without = _scenes(tmp_path)
    assert positive.words[0].speaker == "8" and without.stretches[0].kind == "3"


def test_many_categories_are_one_kind(tmp_path: Path) -> None:
    (tmp_path / "folder.parquet").mkdir()
    _write(tmp_path / "a.parquet", [_row(1), *(_row(0, 0.1, f"text {number}") for number in range(MOST_KINDS + 1))])
    _, without = _scenes(tmp_path)
    assert {part.kind for part in without.stretches} == {"without the phrase"}


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("text")
    with pytest.raises(DataError, match="is not a Parquet table"):
        table_set(tmp_path, "x", [])


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    _write(tmp_path / "a.parquet", [_row(1), _row(0)])
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(DataError, match=r"pip install .*\[parquet\]"):
        table_set(tmp_path, "x", [])


def test_tables_are_judged_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Six takes of "stop" and as many of "bed" and "cat"."""
    sources = spoken_sources()
    said = [take for take in sources.keywords if take.word != "yes"]
    rows = [{"audio": _sound(take.sound), "label": int(take in said)} for take in (*said, *sources.words)]
    _write(tmp_path / "a.parquet", rows)
    command = ["edge", "evaluate", "--pack", "gsc12", "--phrase-set", str(tmp_path), "--phrase", "stop", "--json"]
    assert main(command) == 0
    (report,) = json.loads(capsys.readouterr().out)["reports"]
    assert report["words"] == 6
    assert report["hours"] == {"without the phrase": pytest.approx(12 / 3600)}
