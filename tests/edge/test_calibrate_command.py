"""`auricle edge calibrate` on recordings made for it: its table, the lines for edge.toml, what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from auricle.packs.pack import load_pack
from auricle.process.cli import main
from auricle.speech.features import LogMel
from auricle_edge.clips import ClipSettings, ClipStore, NewClip
from auricle_edge.listening.detect import Detector, DetectSettings
from auricle_edge.listening.detect.calibration import unsmoothed
from auricle_edge.listening.sound import RATE, Block

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACK = load_pack("gsc12")
KEYWORDS = [label for label in PACK.labels if not label.startswith("_")]


def bursts(seconds: int, seed: int = 0) -> np.ndarray:
    """Noise that comes and goes, so that the gate opens."""
    rng = np.random.default_rng(seed)
    loud = np.repeat(rng.choice([20.0, 3000.0], 4 * seconds), RATE // 4)
    return (rng.standard_normal(seconds * RATE) * loud).clip(-30_000, 30_000).astype(np.int16)


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """A settings file, two recordings, and held-out clips of one keyword."""
    import soundfile

    (tmp_path / "edge.toml").write_text(f'device = "kitchen-1"\nstate = "{tmp_path / "state"}"\npack = "gsc12"\n')
    for name in ("morning.wav", "evening.flac"):
        soundfile.write(tmp_path / name, bursts(20, len(name)), RATE)
    store = ClipStore(tmp_path / "state" / "clips", ClipSettings(), LogMel(PACK.manifest.task), draw=lambda: 0.0)
    for seed in range(3):
        store.add(NewClip(bursts(1, seed), "yes", "enrolled", 1.0))
    held_out = [clip for clip in store.list() if clip.record.held_out]
    store.close()
    assert held_out
    return tmp_path


def calibrate(device: Path, *more: str) -> int:
    """Run the command on the recordings."""
    sounds = [str(device / "morning.wav"), str(device / "evening.flac")]
    return main(["edge", "calibrate", "--config", str(device / "edge.toml"), *sounds, *more])


def test_it_prints_a_threshold_for_each_keyword_as_lines_for_the_settings(
    device: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert calibrate(device, "--false-accepts", "1000") == 0
    out, err = capsys.readouterr()
    thresholds = tomllib.loads(out.partition("\n\n")[2])["detect"]["thresholds"]
    assert list(thresholds) == KEYWORDS
    assert all(0.3 <= value <= 0.99 for value in thresholds.values())
    assert "false accepts in 0.01 h" in err
    assert "false accepts an hour with 95 % confidence" in err


def test_its_json_counts_the_held_out_clips_that_reach_the_threshold(
    device: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert calibrate(device, "--false-accepts", "1000", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["hours"] == pytest.approx(40 / 3600)
    assert found["decided_hours"] == pytest.approx(20 / 3600)
    assert found["by_word"] and found["at_most"] <= 1000
    assert set(found["hits"]) == {"yes"}
    assert set(found["false_accepts"]) == set(KEYWORDS)


def test_too_little_sound_is_refused_with_how_much_it_takes(device: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrate(device) == 2
    assert "record at least 180 minutes, better 359" in capsys.readouterr().err


def test_a_folder_without_recordings_is_refused(
    tmp_path: Path, device: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["edge", "calibrate", "--config", str(device / "edge.toml"), str(empty)]) == 2
    assert "There is no wav or FLAC file in" in capsys.readouterr().err


def test_hops_are_judged_as_the_detector_judges_them() -> None:
    """Averaged over three hops they are the detector's own averages."""
    frontend, settings = LogMel(PACK.manifest.task), DetectSettings()

    def recognise(features: np.ndarray) -> np.ndarray:
        scores = np.exp(features.mean(axis=1)[:, : len(PACK.labels)])
        return scores / scores.sum(axis=1, keepdims=True)

    sound = bursts(6)
    found = unsmoothed(sound, frontend, PACK.labels, recognise, settings)
    detector, hop, averages = Detector(frontend, PACK.labels, recognise, settings), round(settings.hop * RATE), []
    for start in range(0, len(sound) - hop + 1, hop):
        detector.feed(Block(sound[start : start + hop], start, (start + hop) / RATE))
        averages.append(list(detector.posteriors.values()))
    padded = np.concatenate((np.zeros((2, len(PACK.labels))), found))
    smoothed = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=0).mean(axis=-1)
    assert found.any()
    np.testing.assert_allclose(smoothed, np.array(averages), atol=1e-6)
