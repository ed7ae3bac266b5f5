"""What --data names: folders, the download, synthetic speech."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tests.core.speech.archive_server import ArchiveServer, archive_of, serving

from auricle.errors import DataError, SettingsError
from auricle.speech.sources import Place, describe_sources, read_sources
from auricle.speech.synthesis import SynthesisSettings


def _wav(value: int) -> bytes:
    held = io.BytesIO()
    soundfile.write(held, np.full(16_000, value, np.int16), 16_000, format="WAV", subtype="PCM_16")
    return held.getvalue()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ArchiveServer]:
    """Serves a small Speech Commands: yes, no and cat of three people, and a noise."""
    monkeypatch.setenv("no_proxy", "*")
    files = {
        f"./{word}/{who}_nohash_0.wav": _wav(10 * place + number)
        for place, word in enumerate(("cat", "no", "yes"), start=1)
        for number, who in enumerate(("ann", "bob", "eve"))
    }
    with serving(archive_of({**files, "./_background_noise_/hum.wav": _wav(90)})) as server:
        yield server


def test_speech_commands_is_downloaded_once_and_read_with_other_folders(server: ArchiveServer, tmp_path: Path) -> None:
    own = tmp_path / "own" / "computer" / "eve_nohash_0.wav"
    own.parent.mkdir(parents=True)
    own.write_bytes(_wav(70))
    steps: list[str] = []
    place = Place(server.archive(), tmp_path / "cache")
    spoken = SynthesisSettings("yes,no,_unknown_,_silence_")
    data = ["speech-commands", str(tmp_path / "own")]

    speech = read_sources(data, spoken, min_word_clips=1, place=place, progress=lambda what, *_: steps.append(what))
    again = read_sources(data, spoken, min_word_clips=1, place=place)

    assert speech.audio[:-3, 0].tolist() == [20, 21, 22, 30, 31, 32, 10, 11, 12, 70]
    assert speech.clips_per_label() == {"yes": 3, "no": 3, "_unknown_": 4, "_silence_": 3}
    assert speech.speaker_names == ("ann", "bob", "eve")
    assert len(speech.noise) == 1
    assert list(dict.fromkeys(steps)) == ["downloading Speech Commands", "unpacking Speech Commands", "reading clips"]
    assert np.array_equal(speech.audio, again.audio)
    assert len(server.asked) == 1


def test_a_server_that_refuses_is_asked_once(server: ArchiveServer, tmp_path: Path) -> None:
    server.status = 404
    with pytest.raises(DataError, match="404"):
        read_sources(["speech-commands"], SynthesisSettings(), place=Place(server.archive(), tmp_path))
    assert len(server.asked) == 1


def test_synthetic_speech_stands_alone(tmp_path: Path) -> None:
    pytest.importorskip("espeakng_loader", reason="the wheel espeakng-loader is not installed")
    with pytest.raises(SettingsError, match="--data synthetic stands alone"):
        read_sources(["synthetic", str(tmp_path)], SynthesisSettings())
    assert len(read_sources(["synthetic"], SynthesisSettings("yes,no", 1, 1))) == 2


def test_a_manifest_is_told_names_and_no_paths(tmp_path: Path) -> None:
    assert describe_sources(["synthetic"], 12) == "synthetic speech (espeak-ng), 12 words"
    assert describe_sources(["speech-commands"], 12) == "recordings of Speech Commands 0.02, 12 words"
    assert describe_sources([str(tmp_path / "mine")], 3) == "recordings in the folder mine, 3 words"
    both = describe_sources(["speech-commands", str(tmp_path / "mine")], 3)
    assert both == "recordings in the folders Speech Commands 0.02, mine, 3 words"
