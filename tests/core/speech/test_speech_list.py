"""A list of recordings in CSV is read where a folder of speech is: the same clips, and rows that cannot be used."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import soundfile

from auricle.errors import DataError, SettingsError
from auricle.speech.clip_folder import scan_folder
from auricle.speech.folder import load_folder, load_folders
from auricle_export.speech.import_speech import ImportSettings, import_speech

HEADER = ["path", "word", "speaker"]


def _sound(path: Path, seed: int, samples: int = 12_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.random.default_rng(seed).normal(0, 3000, samples).astype(np.int16), 16_000)


def _list(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows(rows)
    return path


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """Two words, three people and a noise, in files whose names say nothing."""
    rows = [HEADER]
    for number in range(12):
        _sound(tmp_path / f"take-{number}.wav", number)
        rows.append([f"take-{number}.wav", ("Yes", "no")[number % 2], f"person {number % 3}"])
    _sound(tmp_path / "hall.wav", 99, 40_000)
    return _list(tmp_path / "list.csv", [*rows, ["hall.wav", "_background_noise_", ""]])


def test_a_list_is_the_speech_of_the_folder_that_is_made_of_it(recordings: Path, tmp_path: Path) -> None:
    import_speech(ImportSettings(recordings, tmp_path / "folder"))
    listed = load_folder(recordings, "yes,no,_silence_", min_word_clips=1)
    folder = load_folder(tmp_path / "folder", "yes,no,_silence_", min_word_clips=1)
    assert listed.labels == folder.labels == ("yes", "no", "_silence_")
    np.testing.assert_array_equal(listed.audio, folder.audio)
    np.testing.assert_array_equal(listed.targets, folder.targets)
    assert list(listed.speakers) == list(folder.speakers)
    assert len(set(listed.speakers)) == 3
    assert len(listed.noise) == len(folder.noise) == 1
    assert len(listed.noise[0]) == 40_000


def test_rows_that_cannot_be_used_are_named_and_the_others_read(recordings: Path) -> None:
    with recordings.open("a", encoding="utf-8") as file:
        file.write("absent.wav,yes,ann\ntake-0.wav,two words,ann\ntake-0.wav,Yes,person 0\n../take-0.wav,yes,ann\n")
    found = scan_folder(recordings)
    assert found.counts() == {"no": 6, "yes": 6}
    assert [path.name for path in found.noise] == ["hall.wav"]
    assert found.skipped == (
        f"Row 15 of {recordings}: no such file.",
        f"Row 16 of {recordings}: more than one word, and no phrase that is asked for.",
        f"Row 18 of {recordings}: the path leaves the folder.",
    )


def test_paths_start_from_clips_beside_a_list_where_it_is(tmp_path: Path) -> None:
    _sound(tmp_path / "clips" / "a.wav", 1)
    listed = _list(tmp_path / "validated.tsv", [["client_id", "path", "sentence"], ["ann", "a.wav", "Yes."]])
    (clip,) = scan_folder(listed).clips
    assert (clip.word, clip.path, clip.root) == ("yes", tmp_path / "clips" / "a.wav", listed)


def test_a_recording_that_a_folder_and_a_list_hold_counts_once(recordings: Path, tmp_path: Path) -> None:
    import_speech(ImportSettings(recordings, tmp_path / "folder"))
    both = load_folders([tmp_path / "folder", recordings], "yes,no", min_word_clips=1)
    assert len(both.audio) == 12


def test_a_list_that_names_nothing_is_one_sentence(tmp_path: Path) -> None:
    for rows, kind, noun in [
        ([HEADER, ["absent.wav", "yes", "ann"]], DataError, "no such file"),
        ([HEADER], DataError, "columns path, word and speaker"),
        ([["file", "said"]], SettingsError, "there is: file, said"),
    ]:
        with pytest.raises(kind, match=noun):
            scan_folder(_list(tmp_path / "list.csv", rows))
    with pytest.raises(DataError, match=r"absent\.csv"):
        scan_folder(tmp_path / "absent.csv")
    _sound(tmp_path / "hall.wav", 1)
    noise = _list(tmp_path / "noise.csv", [HEADER, ["hall.wav", "_background_noise_", ""]])
    assert len(scan_folder(noise, noise_is_enough=True).noise) == 1
    with pytest.raises(DataError, match="No row"):
        scan_folder(noise)


def test_phrases_that_are_asked_for_are_words(tmp_path: Path) -> None:
    """Whatever their case, marks and spaces; sentences that nobody asked for stay bad rows."""
    rows = [HEADER]
    for number, said in enumerate(("Hey, Jarvis!", " hey  jarvis ", "HEY JARVIS", "jarvis", "stop now", "Stop")):
        _sound(tmp_path / f"{number}.wav", number, 24_000)
        rows.append([f"{number}.wav", said, f"person {number}"])
    manifest = _list(tmp_path / "list.csv", rows)
    listed = load_folder(manifest, "hey jarvis,stop", min_word_clips=1, clip_samples=25_600)
    assert listed.clips_per_label() == {"hey jarvis": 3, "stop": 1}
    assert [reason.partition(": ")[2] for reason in listed.skipped] == [
        "more than one word, and no phrase that is asked for."
    ]
    assert scan_folder(manifest).counts() == {"jarvis": 1, "stop": 1}
    asked = ImportSettings(manifest, tmp_path / "out", words=frozenset({"hey jarvis", "stop"}), seconds=1.6)
    assert import_speech(asked).written == 4
    folder = load_folder(tmp_path / "out", "hey jarvis,stop", min_word_clips=1, clip_samples=25_600)
    np.testing.assert_array_equal(folder.audio, listed.audio)
    assert folder.audio.shape == (4, 25_600)
    with pytest.raises(SettingsError, match=r"4\.5 is not a valid window"):
        import_speech(ImportSettings(manifest, tmp_path / "more", seconds=4.5))


def test_who_says_a_phrase_in_a_list_that_is_left_out_is_left_out(tmp_path: Path) -> None:
    for place, names in (("all", ("anna", "ben", "cleo")), ("out", ("anna",))):
        rows = [HEADER]
        for number, name in enumerate(names):
            for word in ("hey jarvis", "stop"):
                _sound(tmp_path / place / f"{name}-{word[:3]}.wav", number, 16_000)
                rows += [[f"{name}-{word[:3]}.wav", word, name]] if place == "all" or word == "hey jarvis" else []
        _list(tmp_path / place / "list.csv", rows)
    speech = load_folders(
        [tmp_path / "all/list.csv"],
        "hey jarvis,stop",
        min_word_clips=1,
        leave_out=[tmp_path / "out/list.csv"],
    )
    assert len(set(speech.speakers)) == 2
