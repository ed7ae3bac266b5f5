"""A device whose pack looks at half a second to two: it listens, keeps clips and takes takes of that length."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.core import tiny_pack
from tests.edge.clip_sounds import store

from auricle.packs.manifest import Task
from auricle.speech.features import LogMel, stream_energies
from auricle_edge.clips import NewClip
from auricle_edge.evaluate.windows import judge_windows
from auricle_edge.labels.settings import LabelSettings
from auricle_edge.labels.takes import judge_take, loudest_word
from auricle_edge.listening.detect.detector import Detector
from auricle_edge.listening.detect.rules import detect_settings, thresholds_table
from auricle_edge.listening.detect.settings import DetectSettings, DetectTable
from auricle_edge.listening.sound import RATE, Block, Detection

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LABELS = ("hey jarvis", "stop", "_silence_")
FRAMES = (50, 73, 160, 200)


def _task(frames: int) -> Task:
    return Task(LABELS, clip_samples=160 * frames, frames=frames)


def _phrase(seconds: float, lasting: float, at: float) -> NDArray[np.int16]:
    """Faint noise, and a tone that lasts so long."""
    sound = np.random.default_rng(0).standard_normal(round(seconds * RATE)) * 20
    start, count = round(at * RATE), round(lasting * RATE)
    sound[start : start + count] += 6000 * np.sin(2 * np.pi * 500 * np.arange(count) / RATE)
    return sound.astype(np.int16)


def _loud_throughout(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sure of the phrase where most frames of the window are loud: those of a short word are not."""
    share = (features[:, :, 8:14].max(axis=2) > 0.5).mean(axis=1)
    scores = np.stack([share > 0.6, np.zeros(len(share)), share <= 0.6], axis=1)
    return scores.astype(np.float32)


def _heard(detector: Detector, sound: NDArray[np.int16]) -> list[Detection]:
    blocks = (Block(sound[i : i + 1600], i, (i + 1600) / RATE) for i in range(0, len(sound), 1600))
    return [detection for block in blocks for detection in detector.feed(block)]


@pytest.mark.parametrize("frames", [50, 100, 160, 200])
def test_a_phrase_is_heard_once_and_its_clip_is_the_window(frames: int, tmp_path: Path) -> None:
    """It lasts 0.8 of the window; what the store keeps of it has the window's length, too."""
    frontend, lasting = LogMel(_task(frames)), 0.008 * frames
    sound = _phrase(8.0, lasting, 3.0)
    settings = DetectSettings(smoothing=2, patience=2, threshold=0.6, refractory=frames / 100)
    detector = Detector(frontend, LABELS, _loud_throughout, settings)
    (found,) = _heard(detector, sound)
    assert (found.word, found.end - found.start) == ("hey jarvis", 160 * frames)
    assert found.start - RATE // 10 <= 3.0 * RATE
    assert found.word_end <= found.end
    clip = detector.audio(found.start, found.end)
    clips = store(tmp_path, frontend=frontend)
    np.testing.assert_array_equal(clips.read(clips.add(NewClip(clip, "hey jarvis", "enrolled", 1.0))), clip)
    assert clips.device_data().train.energies.shape == (1, frames, 40)


@pytest.mark.parametrize("frames", FRAMES)
@pytest.mark.parametrize("hop", [0.05, 0.1])
def test_all_windows_at_once_are_those_of_the_detector(frames: int, hop: float) -> None:
    """Also where the window is no whole number of hops; a first window is whole when it was heard."""
    task, seen = _task(frames), list[NDArray[np.float32]]()

    def keep(features: NDArray[np.float32]) -> NDArray[np.float32]:
        seen.extend(features)
        return np.zeros((len(features), 3), np.float32)

    sound = np.random.default_rng(1).integers(-9000, 9000, 3 * RATE).astype(np.int16)
    settings, frontend = DetectSettings(vad="off", hop=hop), LogMel(task)
    _heard(Detector(frontend, LABELS, keep, settings), sound)
    by_detector = np.stack(seen)
    seen.clear()
    judge_windows(sound, frontend, [keep], settings, 3)
    np.testing.assert_allclose(np.stack(seen), by_detector, atol=1e-5)
    hops = 3 * RATE // round(hop * RATE)
    whole = [h for h in range(hops) if (h + 1) * round(hop * 100) >= frames]
    assert len(by_detector) == len(whole)
    rows = stream_energies(task, sound)
    ends = [(h + 1) * round(hop * 100) for h in whole]
    due = frontend.finish(np.stack([rows[end - frames : end] for end in ends]))
    np.testing.assert_allclose(by_detector, due, atol=1e-5)


def test_a_take_may_last_as_long_as_the_window() -> None:
    sound, settings = _phrase(5.0, 1.4, 1.0), LabelSettings(take_seconds=5.0)
    second, longer = (judge_take(sound, -64.0, samples, settings) for samples in (16_000, 25_600))
    assert second is not None and second.fault == "long"
    assert longer is not None and longer.fault is None and longer.clip is not None
    assert len(longer.clip) == 25_600


def test_a_phrase_that_was_missed_is_found_where_the_window_holds_it() -> None:
    sound = _phrase(8.0, 1.9, 3.0)
    assert loudest_word(sound, 16_000) is None
    assert loudest_word(sound, 32_000) == pytest.approx(round((3.95 - 1.0) * RATE), abs=320)


@pytest.mark.parametrize(("samples", "seconds"), [(8_000, 1.0), (16_000, 1.0), (25_600, 1.6), (32_000, 2.0)])
def test_a_word_is_not_heard_again_and_the_gate_stays_open_while_it_is_in_the_window(
    samples: int, seconds: float
) -> None:
    pack = tiny_pack.pack(task=msgspec.structs.replace(tiny_pack.TASK, clip_samples=samples))
    found = detect_settings(DetectTable(), pack)
    assert (found.refractory, found.hangover) == (seconds, seconds)
    own = detect_settings(DetectTable(refractory=0.3, hangover=0.0), pack)
    assert (own.refractory, own.hangover) == (0.3, 0.0)


def test_lines_for_edge_toml_are_toml_for_every_word() -> None:
    thresholds = {"stop": 0.5, "hey jarvis": 0.75, "straße": 0.8, "don't": 0.25}
    assert tomllib.loads(thresholds_table(thresholds)) == {"detect": {"thresholds": thresholds}}
