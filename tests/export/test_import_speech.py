"""Collections with a manifest become a Speech Commands folder: real files of every kind, good rows and bad ones."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from auricle.errors import DataError, SettingsError
from auricle.speech.audio import read_audio
from auricle.speech.clip_folder import scan_folder
from auricle.speech.folder import load_folder
from auricle.speech.list_columns import Columns
from auricle.speech.sound_faults import SoundFault
from auricle_export.commands import app
from auricle_export.speech.import_speech import ImportSettings, import_speech

_FORMATS = {
    "wav": {"format": "WAV"},
    "flac": {"format": "FLAC"},
    "ogg": {"format": "OGG", "subtype": "VORBIS"},
    "opus": {"format": "OGG", "subtype": "OPUS"},
    "mp3": {"format": "MP3"},
}


def _tone(seconds: float, rate: int, hertz: float = 440.0) -> np.ndarray:
    return 0.3 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)


def _write(path: Path, sound: np.ndarray, rate: int = 48_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, sound, rate, **_FORMATS[path.suffix[1:]])


def _manifest(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        if path.suffix == ".tsv":
            file.writelines("\t".join(row) + "\n" for row in rows)
        else:
            csv.writer(file).writerows(rows)
    return path


@pytest.fixture
def mswc(tmp_path: Path) -> Path:
    """Multilingual Spoken Words: two words by three people in five formats; the tone is half a second long."""
    root = tmp_path / "en"
    rows = [["SET", "LINK", "WORD", "VALID", "SPEAKER", "GENDER"]]
    for place, kind in enumerate(_FORMATS):
        word = ("down", "goat")[place % 2]
        link = f"{word}/common_voice_en_{place}.{kind}"
        _write(root / "clips" / link, _tone(0.5, 48_000))
        rows.append(["TRAIN", link, word, "True", f"speaker-{place % 3}", "NA"])
    return _manifest(root / "en_splits.csv", rows)


def _speaker(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def test_every_format_becomes_a_second_of_flac_at_16_khz(mswc: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []

    report = import_speech(ImportSettings(mswc, tmp_path / "out"), lambda done, total: calls.append((done, total)))

    assert (report.written, report.there, report.bad) == (5, 0, {})
    assert calls[-1] == (5, 5)
    folder = scan_folder(tmp_path / "out")
    assert folder.counts() == {"down": 3, "goat": 2}
    assert {clip.speaker for clip in folder.clips} == {_speaker(f"speaker-{number}") for number in range(3)}
    for clip in folder.clips:
        info = soundfile.info(clip.path)
        assert (info.samplerate, info.channels, info.frames, info.subtype) == (16_000, 1, 16_000, "PCM_16")
        sound = read_audio(clip.path)
        assert np.argmax(np.abs(np.fft.rfft(sound))) == pytest.approx(440, abs=2)
        assert np.abs(sound[:3_500]).max() < 0.02
        assert np.sqrt(np.mean(sound**2)) == pytest.approx(0.3 / 2, rel=0.05)
    assert load_folder(tmp_path / "out", "down,goat", min_word_clips=1).skipped == ()


def test_of_a_long_recording_the_loudest_second_is_kept_and_of_running_speech_everything(tmp_path: Path) -> None:
    quiet = np.concatenate((np.zeros(32_000), _tone(0.6, 16_000), np.zeros(16_000)))
    _write(tmp_path / "clips" / "a.wav", quiet, 16_000)
    manifest = _manifest(tmp_path / "validated.tsv", [["client_id", "path", "sentence"], ["ann", "a.wav", "Yes."]])

    import_speech(ImportSettings(manifest, tmp_path / "words"))
    import_speech(ImportSettings(manifest, tmp_path / "whole", running=True))

    (word,) = scan_folder(tmp_path / "words").clips
    (whole,) = scan_folder(tmp_path / "whole").clips
    assert (word.word, whole.word) == ("yes", "speech")
    assert word.path.name == whole.path.name
    assert np.square(read_audio(word.path)).sum() == pytest.approx(np.square(quiet).sum(), rel=1e-3)
    assert len(read_audio(whole.path)) == len(quiet)


def test_bad_rows_are_counted_by_reason_and_the_good_ones_imported(tmp_path: Path) -> None:
    _write(tmp_path / "secret.wav", _tone(1, 16_000), 16_000)
    root = tmp_path / "set"
    _write(root / "good.wav", _tone(1, 16_000), 16_000)
    _write(root / "silent.wav", np.zeros(16_000), 16_000)
    (root / "broken.wav").write_bytes(b"RIFF" + bytes(40))
    (root / "link.wav").symlink_to(tmp_path / "secret.wav")
    rows = [["path", "word", "speaker", "valid"], ["good.wav", "Straße", "ann", "TRUE"]]
    rows += [
        ["good.wav", "straße", "ann", "1"],
        ["good.wav", "yes", "ann", "False"],
        ["good.wav", "yes", "NA", "True"],
        ["good.wav", "yes"],
    ]
    outside = ("../secret.wav", "link.wav", str(tmp_path / "secret.wav"))
    rows += [[path, "yes", "ann", "True"] for path in (*outside, "absent.wav", "", "silent.wav", "broken.wav")]
    rows += [["good.wav", word, "ann", "True"] for word in ("two words", "../..", "x" * 65)]

    report = import_speech(ImportSettings(_manifest(root / "list.csv", rows), tmp_path / "out"))

    assert report.written == 2
    assert report.bad["the path leaves the folder"] == 3
    assert sorted(report.bad.values()) == [1] * 10 + [3]
    assert {row.reason: "broken.wav" in row.example for row in report.counts}[SoundFault.DAMAGED.value]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["straße", "yes"]


def test_a_second_import_writes_only_what_is_not_there(mswc: Path, tmp_path: Path) -> None:
    settings = ImportSettings(mswc, tmp_path / "out")
    import_speech(settings)
    files = sorted((tmp_path / "out").rglob("*.flac"))
    whole = files[0].read_bytes()
    files[0].write_bytes(b"")
    files[1].unlink()
    untouched = {path: path.stat().st_mtime_ns for path in files[2:]}

    report = import_speech(settings)

    assert (report.written, report.there) == (2, 3)
    assert files[0].read_bytes() == whole
    assert {path: path.stat().st_mtime_ns for path in files[2:]} == untouched
    assert sorted((tmp_path / "out").rglob("*")) == sorted({*files, *(path.parent for path in files)})


def test_rows_can_be_chosen_and_sentences_that_hold_a_keyword_are_left_out(mswc: Path, tmp_path: Path) -> None:
    report = import_speech(ImportSettings(mswc, tmp_path / "down", words=frozenset({"down"}), most=2))
    assert (report.written, report.passed_over, report.words) == (2, 3, {"down"})

    _write(tmp_path / "a.wav", _tone(1, 16_000), 16_000)
    rows = [["path", "sentence", "client_id"], ["a.wav", 'He said "no', "ann"], ["a.wav", "Nobody knows.", "bob"]]

    manifest, keywords = _manifest(tmp_path / "v.tsv", rows), frozenset({"no", "yes"})
    report = import_speech(ImportSettings(manifest, tmp_path / "out", running=True, without=keywords))

    assert (report.written, [*report.bad.values()]) == (1, [1])
    assert report.speakers == {_speaker("bob")}


def test_columns_are_chosen_by_name_and_words_of_other_scripts_stay_whole(tmp_path: Path) -> None:
    words = ["नमस्ते", "كتاب", "don't", "你好", "bonjour !"]
    rows = [["path", "word", "speaker"]]
    for number, word in enumerate(words):
        _write(tmp_path / f"{number}.wav", _tone(0.2, 16_000), 16_000)
        rows.append([f"{number}.wav", word, "ann"])
    report = import_speech(ImportSettings(_manifest(tmp_path / "list.tsv", rows), tmp_path / "scripts"))
    assert report.words == {"नमस्ते", "كتاب", "don't", "你好", "bonjour"}

    _write(tmp_path / "a.wav", _tone(1, 16_000), 16_000)
    manifest = _manifest(tmp_path / "list.csv", [["Who", "Said", "Where"], ["ann", "yes", "a.wav"]])

    with pytest.raises(SettingsError, match="--path-column"):
        import_speech(ImportSettings(manifest, tmp_path / "out"))
    with pytest.raises(SettingsError, match=r'"Wher".*"Where"'):
        import_speech(ImportSettings(manifest, tmp_path / "out", columns=Columns("Wher", "Said", "Who")))
    report = import_speech(ImportSettings(manifest, tmp_path / "out", columns=Columns("where", "Said", "Who")))
    assert report.written == 1


def test_what_cannot_be_imported_or_decoded_is_one_sentence(
    tmp_path: Path, mswc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bytes.csv").write_bytes(b"path,word,speaker\n\xff\xfe,a,b\n")
    for settings, kind, sentence in [
        (ImportSettings(tmp_path / "absent.csv", tmp_path), DataError, r"absent\.csv"),
        (ImportSettings(tmp_path / "bytes.csv", tmp_path), DataError, "UTF-8"),
        (ImportSettings(mswc, tmp_path, audio=tmp_path / "no"), DataError, "--audio"),
        (ImportSettings(mswc, tmp_path, audio=tmp_path), DataError, "all 5: no such file"),
        (ImportSettings(mswc, tmp_path, words=frozenset({"up"})), DataError, "words asked"),
        (ImportSettings(mswc, tmp_path, most=0), SettingsError, "--most"),
    ]:
        with pytest.raises(kind, match=sentence):
            import_speech(settings)
    monkeypatch.setattr(soundfile, "available_formats", lambda: {"WAV": "", "OGG": ""})
    monkeypatch.setattr(soundfile, "available_subtypes", lambda name: {"VORBIS": ""})
    report = import_speech(ImportSettings(mswc, tmp_path / "old"))
    assert (report.written, report.bad) == (3, {SoundFault.OLD_LIBRARY.value: 2})


def test_a_broken_recording_takes_no_place_among_the_most_of_a_word(tmp_path: Path) -> None:
    rows = [["client_id", "path", "sentence"]]
    for number in range(300):  # more than are decoded at once
        path = tmp_path / "clips" / f"{number}.mp3"
        path.parent.mkdir(exist_ok=True)
        if number in (150, 290):
            _write(path, _tone(0.5, 48_000))
        else:
            path.write_bytes(b"")
        rows.append([f"who{number}", path.name, "yes"])

    report = import_speech(ImportSettings(_manifest(tmp_path / "validated.tsv", rows), tmp_path / "out", most=2))

    assert (report.written, report.passed_over, dict(report.bad)) == (2, 9, {SoundFault.EMPTY.value: 289})


def test_the_command_reports_to_people_and_to_programs(mswc: Path, tmp_path: Path) -> None:
    run = CliRunner()
    said = run.invoke(app, ["import-speech", str(mswc), "--out", str(tmp_path / "out"), "--words", "goat"])
    facts = run.invoke(app, ["import-speech", str(mswc), "--out", str(tmp_path / "out"), "--json"])
    assert said.exit_code == 0, said.output
    assert "2 clips written" in said.stdout and "3 rows passed over" in said.stdout
    counts = {"written": 3, "there": 2, "passed_over": 0, "words": 2, "speakers": 3}
    assert json.loads(facts.stdout) == counts | {"bad": {}, "findings": []}
