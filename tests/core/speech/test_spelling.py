"""A word is the same however its capitals, marks and dots are written, wherever it is read or typed."""

from __future__ import annotations

from pathlib import Path
from unicodedata import is_normalized, normalize

import numpy as np
import pytest
import soundfile

from auricle.packs.pack import load_pack
from auricle.speech.clip_folder import scan_folder
from auricle.speech.folder import load_folder
from auricle.speech.spelling import Spelling, small_forms, small_letters
from auricle_edge.evaluate.sources import read_scene
from auricle_edge.listening.detect import DetectTable, detect_settings
from auricle_export.commands.import_speech_commands import _parse_words
from auricle_export.speech.import_speech import ImportSettings, import_speech
from auricle_export.wakeword.task import refuse_phrase

CITIES = ("izmir", "ısparta", "diyarbakır", "şanlıurfa")


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("İzmir", "izmir"),
        ("İZMİR", "izmir"),
        (normalize("NFD", "İzmir"), "izmir"),
        ("i̇zmir", "izmir"),
        ("Isparta", "ısparta"),
        ("ISPARTA", "ısparta"),
        ("ısparta", "ısparta"),
        ("DİYARBAKIR", "diyarbakır"),
        (normalize("NFD", "ŞANLIURFA"), "şanlıurfa"),
        (" Şanlıurfa ", "şanlıurfa"),
    ],
)
def test_capitals_with_dots_and_without_are_found(written: str, word: str) -> None:
    assert Spelling(CITIES).find(written) == word
    assert Spelling([city.upper() for city in CITIES]).find(word) == word.upper()


def test_two_words_that_differ_by_a_dot_stay_two() -> None:
    spelling = Spelling(["kıl", "kil"])
    assert [spelling.find(word) for word in ("kıl", "kil", "KIL", "KİL")] == ["kıl", "kil", "kil", "kil"]
    assert Spelling(["kil"]).find("kıl") is None
    assert Spelling(["kil"]).typed("kıl") == "kil", "at a command, where it can be no other"
    assert spelling.typed("kıl") == "kıl"


@pytest.mark.parametrize("written", ["STRASSE", "Straße", "straße"])
def test_other_letters_that_have_two_small_forms(written: str) -> None:
    assert Spelling(["straße"]).find(written) == "straße"
    assert Spelling(["φως"]).find("ΦΩΣ") == "φως"


def test_small_letters_are_a_form_of_their_own() -> None:
    for text in ("İ", "I", "ŞIŞLI  Dükkân", "Ǆ", "ΑΣ", "ﬁ", "Ĳ", "i̇", "Ḱ", normalize("NFD", "Ö")):
        small = small_letters(text)
        assert small_letters(small) == small
        assert is_normalized("NFC", small)
        assert small in small_forms(text)


def _take(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.random.default_rng(seed).normal(0, 3000, 9_000).astype(np.int16), 16_000)


@pytest.mark.parametrize("asked", ["izmir,ısparta", "İZMİR,ISPARTA", "İzmir,Isparta", "izmir,isparta"])
@pytest.mark.parametrize("names", [("İzmir", "Isparta"), ("izmir", "ısparta"), ("İZMİR", "ISPARTA")])
def test_words_of_folders_and_lists_are_found(tmp_path: Path, asked: str, names: tuple[str, str]) -> None:
    rows = ["path,word,speaker"]
    for place, name in enumerate(names):
        for take in range(2):
            _take(tmp_path / "folder" / name / f"ann_nohash_{take}.wav", 2 * place + take)
            rows.append(f"folder/{name}/ann_nohash_{take}.wav,{name}!,ann")
    (tmp_path / "list.csv").write_text("\n".join(rows) + "\n", "utf-8")
    for data in (tmp_path / "folder", tmp_path / "list.csv"):
        speech = load_folder(data, asked, min_word_clips=2)
        assert [small_letters(label).replace("ı", "i") for label in speech.labels] == ["izmir", "isparta"]
        assert "\u0307" not in "".join(speech.labels)


def test_words_of_a_pack_are_those_of_the_data(tmp_path: Path) -> None:
    _take(tmp_path / "IŞIK" / "ann_nohash_0.wav", 1)
    _take(tmp_path / "Dur" / "ann_nohash_0.wav", 2)
    assert scan_folder(tmp_path, phrases=["ışık", "dur"]).counts() == {"ışık": 1, "dur": 1}


def test_words_asked_for_at_an_import_are_found(tmp_path: Path) -> None:
    for number, said in enumerate(("Iğdır", "İnegöl", "Ankara")):
        _take(tmp_path / f"{number}.wav", number)
        with (tmp_path / "list.csv").open("a", encoding="utf-8") as file:
            file.write("path,word,speaker\n" * (not number) + f"{number}.wav,{said},ann\n")
    for asked in ("ığdır,İNEGÖL", "IĞDIR,inegöl"):
        out = tmp_path / asked
        report = import_speech(ImportSettings(tmp_path / "list.csv", out, words=_parse_words(asked)))
        assert (report.written, report.passed_over) == (2, 1)
        assert len(report.words & {"ığdır", "iğdir", "inegöl"}) == 2


def test_settings_and_label_files_take_words_as_people_write_them(tmp_path: Path) -> None:
    pack = load_pack("digits").with_labels(["ışık", "İnegöl", "dur", "_unknown_", "_silence_"])
    said = DetectTable(wake=("IŞIK",), thresholds={"İNEGÖL": 0.7, "Dur": 0.6})
    settings = detect_settings(said, pack)
    assert settings.wake == ("ışık",)
    assert (settings.thresholds["İnegöl"], settings.thresholds["dur"]) == (0.7, 0.6)
    _take(tmp_path / "a.wav", 1)
    (tmp_path / "a.txt").write_text("0.1\t0.2\tIşık\n0.3\t0.4\tinegöl\n", "utf-8")
    scene = read_scene(tmp_path / "a.wav", tmp_path / "a.txt", ["ışık", "İnegöl", "dur"])
    assert [word.word for word in scene.words] == ["ışık", "İnegöl"]


def test_a_phrase_is_told_as_it_is_taken() -> None:
    with pytest.raises(Exception, match='write "izmir"'):
        refuse_phrase("İzmir")
    refuse_phrase("izmir")
