"""Lists and sets in the forms in which the field publishes them: the same clips from each, at one reader."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from auricle.errors import AuricleError, DataError, SettingsError
from auricle.speech.clip_folder import ClipFolder, scan_folder
from auricle.speech.folder import load_folder
from auricle.speech.sound_faults import SoundFault
from auricle_export.speech.import_speech import ImportSettings, import_speech

ROWS = [("a.wav", "left", "ann"), ("b.wav", "left", "bob"), ("c.wav", "right", "ann")]


def _sound(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.random.default_rng(seed).normal(0, 3000, 9_000).astype(np.int16), 16_000)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed, (name, _, _) in enumerate(ROWS):
        _sound(tmp_path / name, seed)
    return tmp_path


def _table(*names: str, delimiter: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows([names, *ROWS])
    return text.getvalue()


def _json(*names: str, **more: object) -> str:
    return "".join(json.dumps(dict(zip(names, row, strict=True)) | more) + "\n" for row in ROWS)


FORMS = {
    "common-voice.tsv": _table("path", "sentence", "client_id", delimiter="\t"),
    "mswc.csv": _table("LINK", "WORD", "SPEAKER"),
    "deepspeech.csv": _table("wav_filename", "transcript", "Speaker ID"),
    "nemo.json": _json("audio_filepath", "command", "speaker", duration=0.5625, offset=0.0),
    "asr.jsonl": _json("audio_filepath", "text", "speaker", duration=0.5625),
    "audiofolder.jsonl": _json("file_name", "label", "speaker_id"),
    "audiofolder.csv": _table("file_name", "transcription", "speaker_id"),
    "array.json": json.dumps([dict(zip(("path", "word", "speaker"), row, strict=True)) for row in ROWS], indent=1),
    "nested.json": "".join(
        json.dumps({"audio": {"path": row[0], "bytes": None}, "label": row[1], "speaker": row[2]}) + "\n"
        for row in ROWS
    ),
}


def _clips(found: ClipFolder) -> list[tuple[str, str, str]]:
    return [(clip.path.name, clip.word, clip.speaker) for clip in found.clips]


@pytest.mark.parametrize("name", FORMS)
def test_each_form_gives_the_same_clips(folder: Path, name: str) -> None:
    (folder / "list.csv").write_text(_table("path", "word", "speaker"))
    (folder / name).write_text(FORMS[name])
    found = scan_folder(folder / name)
    assert _clips(found) == _clips(scan_folder(folder / "list.csv"))
    assert found.findings == ()


def test_a_folder_of_kaldi_or_of_an_audiofolder_is_read_by_its_list(folder: Path) -> None:
    (folder / "list.csv").write_text(_table("path", "word", "speaker"))
    plain = _clips(scan_folder(folder / "list.csv"))
    (folder / "metadata.jsonl").write_text(FORMS["audiofolder.jsonl"])
    assert _clips(scan_folder(folder)) == plain
    (folder / "metadata.jsonl").unlink()
    names = [f"utt{number}" for number in range(len(ROWS))]
    for file, column in (("wav.scp", 0), ("text", 1), ("utt2spk", 2)):
        lines = (f"{name} {row[column]}\n" for name, row in zip(names, ROWS, strict=True))
        (folder / file).write_text("".join(lines))
    assert _clips(scan_folder(folder)) == _clips(scan_folder(folder / "wav.scp")) == plain
    (folder / "segments").write_text("utt0 rec 0.0 1.0\n")
    with pytest.raises(DataError, match="parts of longer recordings"):
        scan_folder(folder)


def test_a_split_of_speech_commands_is_read(tmp_path: Path) -> None:
    for seed, name in enumerate(("go/0b_nohash_0.wav", "go/1c_nohash_0.wav", "up/0b_nohash_0.wav")):
        _sound(tmp_path / name, seed)
    (tmp_path / "testing_list.txt").write_text("go/1c_nohash_0.wav\nup/0b_nohash_0.wav\n")
    found = scan_folder(tmp_path / "testing_list.txt")
    assert [(clip.word, clip.path.parent.name, clip.path.name) for clip in found.clips] == [
        ("go", "go", "1c_nohash_0.wav"),
        ("up", "up", "0b_nohash_0.wav"),
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"PAR1" + bytes(40), "is a Parquet table"),
        (b"ARROW1" + bytes(40), "is an Arrow table"),
        (b"PK\x03\x04" + bytes(40), "a ZIP archive or a sheet of Excel"),
        (b"\x1f\x8b\x08" + bytes(40), "is a gzip archive"),
        (b"SQLite format 3\0" + bytes(40), "is a SQLite database"),
        (bytes(257) + b"ustar\x0000", "is a tar archive"),
        (b'{"id": "c", "supervisions": []}\n', "is a Lhotse manifest"),
        (b"{broken\n", "no JSON object in its first line"),
        (b"[{}, 3", "is not a JSON array"),
    ],
)
def test_what_is_no_list_that_is_read_is_named_for_what_it_is(tmp_path: Path, content: bytes, says: str) -> None:
    for name in ("list.csv", "train.json", "data.bin"):
        if name == "list.csv" and content.startswith(b"["):
            continue
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=says) as refused:
            scan_folder(tmp_path / name)
        assert "\n" not in str(refused.value)


def test_a_part_of_a_longer_recording_is_not_taken_for_all_of_it(folder: Path) -> None:
    (folder / "n.json").write_text(FORMS["nemo.json"].replace('"offset": 0.0', '"offset": 0.25', 1))
    found = scan_folder(folder / "n.json")
    assert len(found.clips) == 2
    assert found.skipped == (
        f"Row 1 of {folder / 'n.json'}: a part of a longer recording: cut it out into a file of its own.",
    )


@pytest.mark.parametrize("columns", [(0, 1, 2), (2, 0, 1), (0, 1)])
def test_a_list_without_its_first_line_is_read_once_the_line_that_is_named_stands_there(
    folder: Path, columns: tuple[int, ...]
) -> None:
    lines = "".join(",".join(row[column] for column in columns) + "\n" for row in ROWS)
    manifest = folder / "list.csv"
    manifest.write_text(lines)
    with pytest.raises(SettingsError, match="begins with a recording") as refused:
        scan_folder(manifest)
    named = str(refused.value).rpartition("as in ")[2].rstrip(".")
    manifest.write_text(f"{named}\n{lines}")
    assert len(scan_folder(manifest).clips) == 3


# -- nobody is named


def _nameless(root: Path, form: str) -> Path:
    """Six takes whose speaker nothing says, in a form of a folder or a list."""
    for number in range(6):
        _sound(root / ("halt" if form == "folder" else "") / f"take {number}.wav", number)
    if form == "list":
        rows = "".join(f"take {number}.wav,halt\n" for number in range(6))
        (root / "list.csv").write_text(f"path,word\n{rows}")
        return root / "list.csv"
    return root


@pytest.mark.parametrize("form", ["folder", "list", "loose"])
def test_takes_that_name_nobody_are_of_a_speaker_each_or_of_the_one_who_is_named(tmp_path: Path, form: str) -> None:
    root = _nameless(tmp_path, form)
    found = scan_folder(root, phrases=["halt"], loose="halt")
    assert [clip.word for clip in found.clips] == ["halt"] * 6
    assert len({clip.speaker for clip in found.clips}) == 6
    assert [finding.reason for finding in found.findings] == [SoundFault.NAME.value] * 6
    assert found.skipped == ()
    named = scan_folder(root, phrases=["halt"], loose="halt", speaker="ann")
    assert len({clip.speaker for clip in named.clips}) == 1
    assert named.findings == ()


def test_a_list_that_names_nobody_is_imported_and_gives_the_same_speakers(tmp_path: Path) -> None:
    manifest = _nameless(tmp_path, "list")
    report = import_speech(ImportSettings(manifest, tmp_path / "out"))
    assert (report.written, len(report.speakers), sum(report.bad.values())) == (6, 6, 0)
    assert [(row.files, row.is_used) for row in report.counts] == [(6, True)]
    speakers = {clip.speaker for clip in scan_folder(manifest).clips}
    assert {clip.speaker for clip in scan_folder(tmp_path / "out").clips} == speakers
    import_speech(ImportSettings(manifest, tmp_path / "one", speaker="ann"))
    assert len({clip.speaker for clip in scan_folder(tmp_path / "one").clips}) == 1


# -- labels that are no words


def _archive(root: Path) -> Path:
    """As the tests of Speech Commands lie: two words, and folders of the labels that are none."""
    for seed in range(8):
        for word in ("on", "off", "_silence_"):
            _sound(root / word / f"{seed:08x}_nohash_0.wav", 10 * seed + len(word))
        _sound(root / "_unknown_" / f"bird_{seed:08x}_nohash_0.wav", 100 + seed)
    soundfile.write(root / "_silence_" / "zeros.wav", np.zeros(16_000, np.int16), 16_000)
    _sound(root / "_partial_words_" / "0_nohash_0.wav", 1)
    _sound(root / "loose.wav", 2)
    _sound(root / "on" / "more" / "0_nohash_0.wav", 3)
    (root / "on" / "x.sln16").write_bytes(bytes(32_000))
    return root


def test_folders_of_unknown_and_silence_are_read_as_what_they_are(tmp_path: Path) -> None:
    speech = load_folder(_archive(tmp_path), "on,off,_unknown_,_silence_", min_word_clips=1)
    counts = dict(zip(speech.labels, np.bincount(speech.targets, minlength=4).tolist(), strict=True))
    assert counts == {"on": 8, "off": 8, "_unknown_": 8, "_silence_": 9}
    assert len(set(speech.speaker_names)) == 8, "whoever says another word is the speaker behind that word"
    reasons = sorted(finding.reason for finding in speech.findings)
    assert reasons == sorted(
        fault.value for fault in (SoundFault.UNDERSCORE, SoundFault.BESIDE, SoundFault.INSIDE, SoundFault.RAW)
    )


def test_what_is_not_chosen_of_them_is_counted(tmp_path: Path) -> None:
    speech = load_folder(_archive(tmp_path), "on,off", min_word_clips=1)
    assert speech.labels == ("on", "off")
    assert sum(finding.reason == SoundFault.NOT_CHOSEN.value for finding in speech.findings) == 17


def test_a_list_names_them_too(folder: Path) -> None:
    (folder / "list.csv").write_text("path,word,speaker\na.wav,_unknown_,ann\nb.wav,_silence_,\nc.wav,up,bob\n")
    found = scan_folder(folder / "list.csv")
    assert [(clip.word, clip.path.name) for clip in found.clips] == [
        ("_silence_", "b.wav"),
        ("_unknown_", "a.wav"),
        ("up", "c.wav"),
    ]
    assert [clip.path.name for clip in found.spoken] == ["a.wav", "c.wav"]
    assert [path.name for path in found.without_speech] == ["b.wav"]


@pytest.mark.parametrize("make", [_nameless, lambda root, _: _archive(root)])
def test_nothing_that_is_refused_is_a_traceback(tmp_path: Path, make: Callable[[Path, str], Path]) -> None:
    with pytest.raises(AuricleError):
        scan_folder(make(tmp_path, "loose") / "nowhere")
