"""What a sentence about something that people bring tells them to do is done here, and works."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile

from auricle.errors import DataError, PackError, SettingsError
from auricle.packs.pack import load_pack
from auricle.speech.audio import read_recording
from auricle.speech.clip_folder import scan_folder
from auricle.speech.sound_files import RAW, raw_conversion
from auricle_export.speech.import_speech import ImportSettings, import_speech
from auricle_export.wakeword.task import WakeTask, refuse_phrase
from auricle_export.wakeword.voices_sound import voices_for


@pytest.mark.parametrize("count", [1, 3])
def test_as_many_voices_as_the_sentence_says_train_validate_and_judge(count: int) -> None:
    with pytest.raises(SettingsError, match="leaves no voice") as refused:
        voices_for(count, 5, "nl")
    named = re.search(r"give --speakers (\d+)", str(refused.value))
    assert named is not None
    assert len(voices_for(int(named[1]), 5, "nl")) == int(named[1])
    with pytest.raises(SettingsError):
        voices_for(int(named[1]) - 1, 5, "nl")


@pytest.mark.parametrize(
    ("name", "content", "what", "phrase"),
    [
        ("hey_rhasspy_v0.1.onnx", b"\x08\x07\x12", "openWakeWord", "hey rhasspy"),
        ("alexa_v0.1.tflite", b"\x1c\0\0\0TFL3", "openWakeWord", "alexa"),
        ("Computer_de_raspberry-pi_v3_0_0.ppn", b"\x01\x02", "Porcupine", "computer"),
        ("hey_home_assistant.json", b'{"type": "micro"}', "ESPHome", "hey home assistant"),
        ("0.1.onnx", b"\x08\x07", "openWakeWord", "hey robot"),
    ],
)
def test_a_model_of_another_engine_is_named_with_a_command_that_is_taken(
    tmp_path: Path, name: str, content: bytes, what: str, phrase: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PackError, match=what) as refused:
        load_pack(tmp_path / name)
    command = shlex.split(str(refused.value).partition("auricle export wakeword ")[2].rstrip("."))
    assert command == [phrase, "--out", f"{phrase.replace(' ', '-')}.tar.zst"]
    refuse_phrase(command[0])
    WakeTask(phrases=(command[0],), folder=tmp_path)


@pytest.mark.parametrize("suffix", [".raw", ".pcm", ".sln16", ".sln", ".ulaw"])
def test_raw_samples_are_named_with_what_converts_them(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"take one{suffix}"
    path.write_bytes(np.random.default_rng(1).normal(0, 3000, 4_000).astype("<i2").tobytes())
    with pytest.raises(DataError, match="raw samples") as refused:
        read_recording(path)
    command = re.search(r"(ffmpeg .*) converts it", str(refused.value))
    assert command is not None
    words = shlex.split(command[1])
    assert words[-2:] == [path.name, "take one.wav"]
    assert (words[2], int(words[4])) == RAW[suffix]
    if shutil.which("ffmpeg") is None:
        pytest.skip("there is no ffmpeg")
    subprocess.run([words[0], "-loglevel", "error", *words[1:]], cwd=tmp_path, check=True)
    assert read_recording(tmp_path / "take one.wav").samples.any()


def test_a_name_for_a_shell_stays_one(tmp_path: Path) -> None:
    assert "'a b.raw' 'a b.wav'" in raw_conversion(tmp_path / "a b.raw")


def _table(path: Path) -> Path:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    sounds = []
    for seed in range(4):
        file = path.with_suffix(".wav")
        soundfile.write(file, np.random.default_rng(seed).normal(0, 3000, 8_000).astype(np.int16), 16_000)
        sounds.append({"bytes": file.read_bytes(), "path": f"{seed}.wav"})
    file.unlink()
    table = arrow.table({"audio": sounds, "label": [1, 0, 1, 7], "speaker_id": ["ann", "bob", "ann", "cid"]})
    names = {"info": {"features": {"label": {"names": ["up", "down"], "_type": "ClassLabel"}}}}
    parquet.write_table(table.replace_schema_metadata({"huggingface": json.dumps(names)}), path)
    return path


def test_a_parquet_table_is_imported_as_the_sentence_says(tmp_path: Path) -> None:
    table = _table(tmp_path / "train.parquet")
    with pytest.raises(DataError, match=f"auricle export import-speech {table} --out DIR"):
        scan_folder(table)
    report = import_speech(ImportSettings(table, tmp_path / "out"))
    assert report.written == 4
    found = scan_folder(tmp_path / "out")
    assert found.counts() == {"7": 1, "down": 2, "up": 1}
    assert len({clip.speaker for clip in found.clips}) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "train.parquet"]


def test_a_table_that_is_none_is_refused_in_a_sentence(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + bytes(60))
    with pytest.raises(DataError, match="is not a Parquet table that can be read"):
        import_speech(ImportSettings(tmp_path / "a.parquet", tmp_path / "out"))
