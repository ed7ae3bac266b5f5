"""Manifests as programs save them: what parts the columns, the encoding, slashes, letters composed or not."""

from __future__ import annotations

import csv
import io
import itertools
import os
import random
from pathlib import Path
from unicodedata import normalize

import pytest

from auricle.errors import AuricleError, DataError, SettingsError
from auricle.speech.clip_folder import scan_folder
from auricle.speech.list_columns import Columns
from auricle.speech.list_rows import DELIMITERS
from auricle.speech.speech_manifest import Recording, RowError, count_rows, read_manifest
from auricle.speech.words import select_words

ROWS = [["path", "word", "speaker"], ["für/a.wav", "Für", "Jörg"], ["für/b.wav", "stop", "ann"], ["c.wav", "go", "ann"]]
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16")


def _folder(root: Path) -> Path:
    (root / "für").mkdir(parents=True)
    for name in ("für/a.wav", "für/b.wav", "c.wav"):
        (root / name).touch()
    return root


def _table(delimiter: str, quoting: int = csv.QUOTE_MINIMAL, end: str = "\n") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(ROWS)
    return text.getvalue()


def _read(manifest: Path, columns: Columns | None = None, words: frozenset[str] = frozenset()) -> list[object]:
    rows = read_manifest(manifest, manifest.parent, columns or Columns(), sentences=False, words=words)
    return [row for _, row in rows]


def _said(rows: list[object]) -> list[tuple[str, str, str]]:
    return [(row.path.name, row.text, row.name) for row in rows if isinstance(row, Recording)]


@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_the_same_rows_are_read_in_every_form(tmp_path: Path, delimiter: str) -> None:
    manifest = _folder(tmp_path) / "list.csv"
    manifest.write_text(_table(","), "utf-8")
    told = _said(_read(manifest))
    assert [(name, text) for name, text, _ in told] == [("a.wav", "für"), ("b.wav", "stop"), ("c.wav", "go")]
    forms = itertools.product(ENCODINGS, ("NFC", "NFD"), ("\n", "\r\n"), (csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    for encoding, form, end, quoting in forms:
        text = normalize(form, _table(delimiter, quoting, end))
        for written in (text, text.replace("für/", "für\\"), text.replace("fu", "./fu")):
            manifest.write_bytes(written.encode(encoding))
            assert [(name, said) for name, said, _ in _said(_read(manifest))] == [row[:2] for row in told]
        manifest.write_bytes(text.encode(encoding))
        assert _said(_read(manifest)) == told, "a name is of the path, in whatever form"
        assert count_rows(manifest) == 3


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
def test_the_line_with_which_excel_names_the_delimiter_is_heeded(tmp_path: Path, delimiter: str) -> None:
    manifest = _folder(tmp_path) / "list.csv"
    manifest.write_text(f"sep={delimiter}\r\n{_table(delimiter)}", "utf-8")
    assert len(_said(_read(manifest))) == 3


def test_the_columns_decide_and_not_a_mark_in_one_of_their_names(tmp_path: Path) -> None:
    manifest = _folder(tmp_path) / "list.csv"
    manifest.write_text("path;word;speaker;notes, if any | or none\nc.wav;go;ann;a, b | c\n")
    assert [row[:2] for row in _said(_read(manifest))] == [("c.wav", "go")]
    manifest.write_text("datei;wört;wer\nc.wav;go;ann\n")
    columns = Columns("datei", normalize("NFD", "Wört"), "wer")
    assert [row[:2] for row in _said(_read(manifest, columns))] == [("c.wav", "go")]


def test_a_quotation_mark_in_a_text_parted_by_tabs_or_bars_is_one(tmp_path: Path) -> None:
    manifest = _folder(tmp_path) / "list.tsv"
    for delimiter in "\t|":
        manifest.write_text(_table(delimiter).replace("go", '"go'), "utf-8")
        assert len(_said(_read(manifest))) == 3


def test_a_backslash_of_a_name_is_one(tmp_path: Path) -> None:
    (tmp_path / "a\\b.wav").touch()
    (tmp_path / "a").mkdir()
    manifest = tmp_path / "list.csv"
    manifest.write_text("path,word,speaker\na\\b.wav,yes,ann\n")
    (row,) = _read(manifest)
    assert isinstance(row, Recording)
    assert row.path.name == "a\\b.wav"
    (tmp_path / "a\\b.wav").unlink()
    (tmp_path / "a" / "b.wav").touch()
    (row,) = _read(manifest)
    assert isinstance(row, Recording)
    assert row.path == tmp_path / "a" / "b.wav"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        *((path, "leaves") for path in ("..\\c.wav", "..\\..\\etc\\passwd", "/etc/passwd", "../c.wav")),
        *((path, "no such file") for path in ("C:\\c.wav", "x" * 300, "ü" * 300, "loop/c.wav", "pipe.wav", ".")),
        ("", "no path"),
    ],
)
def test_a_path_that_is_none_is_one_bad_row(tmp_path: Path, path: str, says: str) -> None:
    folder = _folder(tmp_path / "in")
    (folder / "loop").symlink_to(folder / "loop")
    os.mkfifo(folder / "pipe.wav")
    manifest = folder / "list.csv"
    manifest.write_text(f"path,word,speaker\n{path},go,ann\nc.wav,go,ann\n", "utf-8")
    bad, good = _read(manifest)
    assert isinstance(bad, RowError)
    assert says in str(bad)
    assert isinstance(good, Recording)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_words_that_are_asked_for_are_found_in_either_form(tmp_path: Path, form: str) -> None:
    manifest = _folder(tmp_path) / "list.csv"
    manifest.write_text(_table(","), "utf-8")
    asked = frozenset({normalize(form, "für")})
    assert [row is not None for row in _read(manifest, words=asked)] == [True, False, False]


@pytest.mark.parametrize(
    "content", [b"path,word\0,speaker\n", b"path,w\xf6rd,speaker\n", b'path,"word\nspeaker' + b"x" * (3 << 20)]
)
def test_what_is_no_table_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    manifest = tmp_path / "list.csv"
    manifest.write_bytes(content)
    with pytest.raises((DataError, SettingsError)) as refused:
        _read(manifest)
    assert "\n" not in str(refused.value)
    assert str(manifest) in str(refused.value)


def test_a_pipe_is_no_manifest(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "list.csv")
    for read in (_read, count_rows, scan_folder):
        with pytest.raises(DataError, match="is a pipe"):
            read(tmp_path / "list.csv")


# -- folders of words


def test_two_folders_of_one_word_in_two_forms_are_one_word(tmp_path: Path) -> None:
    for form, speaker in (("NFC", "ann"), ("NFD", "bob")):
        for word in ("für", "tür"):
            folder = tmp_path / normalize(form, word)
            folder.mkdir()
            (folder / f"{speaker}_nohash_0.wav").touch()
    found = scan_folder(tmp_path)
    assert found.counts() == {"für": 2, "tür": 2}
    for form in ("NFC", "NFD"):
        asked = normalize(form, "für,tür")
        assert select_words(asked, found.counts(), where="uni", min_clips=2) == ("für", "tür")
        assert select_words(
            asked, {normalize("NFD", "für"): 2, "tür": 1, normalize("NFD", "tür"): 1}, where="uni", min_clips=2
        )


PIECES = [b'"', b"\0", b"\xff", b"\r", b"\n", b";", b"|", b"\\", b"\xcc\x88"]


@pytest.mark.parametrize("seed", range(40))
def test_any_text_is_read_or_refused(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    manifest = _folder(tmp_path) / "list.csv"
    data = bytearray(_table(draw.choice(list(DELIMITERS))).encode(draw.choice(ENCODINGS)))
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(data))
        data[at : at + draw.randint(0, 3)] = draw.choice(
            [b'"', b"\0", b"\xff", b"\r", b"\n", b";", b"|", b"\\", b"\xcc\x88"]
        )
    manifest.write_bytes(data)
    try:
        rows = _read(manifest)
    except AuricleError as error:
        assert "\n" not in str(error)
    else:
        assert all(row is None or isinstance(row, Recording | RowError) for row in rows)
