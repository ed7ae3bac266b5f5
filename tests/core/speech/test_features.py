"""The front-end against a straightforward implementation in float64, and where in a recording a word is."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.errors import PackError
from auricle.packs.pack import Frontend, Task
from auricle.speech.features import LogMel, mel_filters, word_span
from auricle.speech.quantiles import quantile

TASK = Task(("yes", "no"))
FRONTEND = LogMel(TASK)


def _speechlike(seed: int, samples: int = 16_000) -> np.ndarray:
    rng = np.random.default_rng(seed)
    time = np.arange(samples) / 16_000
    voiced = sum(np.sin(2 * np.pi * f * time + rng.uniform(0, 6)) / f for f in (180, 360, 720, 1450, 2900, 5100))
    return 20 * voiced * np.exp(-(((time - 0.5) / 0.2) ** 2)) + 0.003 * rng.standard_normal(samples)


def _mel(hz: float) -> float:
    return 2595 * math.log10(1 + hz / 700)


def _slow_log_mel(audio: np.ndarray, f: Frontend, task: Task) -> np.ndarray:
    """Frame by frame, bin by bin, in float64: DFT by its definition, triangles by their definition."""
    padding = (task.frames - 1) * f.hop + f.window - task.clip_samples
    padded = np.concatenate([np.zeros(padding // 2), audio.astype(np.float64), np.zeros(padding - padding // 2)])
    hann = np.array([0.5 - 0.5 * math.cos(2 * math.pi * i / f.window) for i in range(f.window)])
    bins = f.fft // 2 + 1
    dft = np.exp(-2j * np.pi * np.outer(np.arange(bins), np.arange(f.window)) / f.fft)
    centres = [
        700 * (10 ** ((_mel(f.low_hz) + i * (_mel(f.high_hz) - _mel(f.low_hz)) / (f.mels + 1)) / 2595) - 1)
        for i in range(f.mels + 2)
    ]
    logs = np.zeros((task.frames, f.mels))
    for t in range(task.frames):
        power = np.abs(dft @ (padded[t * f.hop : t * f.hop + f.window] * hann)) ** 2
        for m in range(f.mels):
            left, centre, right = centres[m : m + 3]
            energy = 0.0
            for b in range(bins):
                hz = b * task.sample_rate / f.fft
                if left < hz <= centre:
                    energy += power[b] * (hz - left) / (centre - left)
                elif centre < hz < right:
                    energy += power[b] * (right - hz) / (right - centre)
            logs[t, m] = math.log(energy + f.floor)
    return (logs - logs.mean()) * f.scale


@pytest.mark.parametrize(
    "changes",
    [{}, {"window": 512, "hop": 160, "mels": 20, "low_hz": 100.0, "high_hz": 8000.0, "floor": 1e-3, "scale": 1.0}],
    ids=["default", "other"],
)
def test_the_front_end_is_what_the_manifest_describes(changes: dict[str, Any]) -> None:
    frontend = msgspec.structs.replace(Frontend(), **changes)
    task = msgspec.structs.replace(TASK, frontend=frontend)
    audio = _speechlike(1)
    ours = LogMel(task)(audio[None])[0]
    assert ours == pytest.approx(_slow_log_mel(audio, frontend, task), abs=2e-3 * frontend.scale)


def test_each_clip_is_computed_alone_in_a_hundred_frames_of_forty_bands() -> None:
    audio = np.stack([_speechlike(i) for i in range(3)])
    assert FRONTEND(audio).shape == (3, 100, 40) and FRONTEND(audio[:0]).shape == (0, 100, 40)
    assert FRONTEND.energies(audio).dtype == FRONTEND(audio).dtype == np.float32
    assert np.allclose(FRONTEND(audio)[1], FRONTEND(audio[1:2])[0], atol=1e-6)


def test_the_energies_of_a_clip_are_the_same_bytes_whatever_is_beside_it() -> None:
    audio = np.stack([_speechlike(i) for i in range(9)])
    alone = [FRONTEND.energies(clip[None])[0] for clip in audio]
    assert FRONTEND.energies(audio).tobytes() == np.stack(alone).tobytes()


def test_the_energies_of_a_clip_do_not_depend_on_how_many_threads_sum_them_up() -> None:
    digest = """
import hashlib, numpy as np
from auricle.packs.pack import Task
from auricle.speech.features import LogMel
audio = np.random.default_rng(0).standard_normal((2, 16_000))
print(hashlib.sha256(LogMel(Task(("yes", "no"))).energies(audio).tobytes()).hexdigest())
"""
    told = [{**os.environ, "OPENBLAS_NUM_THREADS": threads} for threads in ("1", "2")]
    one, two = (subprocess.check_output([sys.executable, "-c", digest], env=each) for each in told)
    assert one == two


def test_int16_is_the_same_sound_as_float() -> None:
    audio = np.round(_speechlike(3) * 3000).astype(np.int16)
    assert np.array_equal(FRONTEND(audio[None]), FRONTEND((audio / 32768).astype(np.float32)[None]))


@pytest.mark.parametrize("db", [3.0, 10.0, 30.0])
def test_loudness_falls_out(db: float) -> None:
    """Features are centred on the clip's own mean: gain only moves the floor."""
    loud = _speechlike(4)
    assert np.abs(FRONTEND(loud[None] * 10 ** (db / 20)) - FRONTEND(loud[None])).max() < 0.05


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0])
def test_silence_and_a_constant_are_finite(value: float) -> None:
    features = FRONTEND(np.full((1, 16_000), value))
    assert np.isfinite(features).all()
    if value == 0:
        assert np.abs(features).max() < 1e-6


def test_a_tone_is_loudest_in_the_band_that_holds_it() -> None:
    filters = mel_filters(Frontend(), 16_000)
    bands = FRONTEND.energies(np.sin(2 * np.pi * 1000 * np.arange(16_000) / 16_000)[None])[0, 50]
    assert filters.shape == (257, 40)
    assert bands.argmax() == filters[1000 * 512 // 16_000].argmax()


def test_filters_are_triangles_that_share_their_edges() -> None:
    filters = mel_filters(Frontend(fft=8192), 16_000)
    assert (filters >= 0).all()
    assert filters.max(axis=0) == pytest.approx(np.ones(40), abs=0.1)
    inside = np.arange(4097) * 16_000 / 8192
    between = (inside > 100) & (inside < 7000)
    assert filters[between].sum(axis=1) == pytest.approx(np.ones(between.sum()), abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"window": 513}, "must fit its FFT"),
        ({"high_hz": 8001.0}, "mel range"),
        ({"low_hz": 7600.0}, "mel range"),
        ({"hop": 100}, "do not cover the clip"),
    ],
)
def test_parameters_that_contradict_each_other_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PackError, match=sentence):
        LogMel(msgspec.structs.replace(TASK, frontend=msgspec.structs.replace(Frontend(), **changes)))


FLOOR = 1e-6


def _sound(*spans: tuple[int, int]) -> np.ndarray:
    energies = np.full((100, 40), 1e-4, np.float32)
    for begin, end in spans:
        energies[begin:end] = 1.0 if begin == spans[0][0] else 0.9
    return energies


def test_a_pause_inside_a_word_does_not_end_it_and_a_longer_one_does() -> None:
    assert word_span(_sound((20, 30), (38, 45), (70, 80)), FLOOR) in ((20, 45), (19, 46))  # averaged over three frames


def test_what_comes_before_a_longer_pause_is_another_word() -> None:
    assert word_span(_sound((60, 70), (50, 54), (5, 20)), FLOOR) in ((50, 70), (49, 71))


def test_the_span_stays_inside_the_recording() -> None:
    assert word_span(_sound((0, 100)), FLOOR) == (0, 1)  # nothing stands out of it
    assert word_span(_sound((90, 100)), FLOOR) in ((90, 100), (89, 100))


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=60), st.floats(0, 1), st.sampled_from("fd"))
def test_a_quantile_is_numpys(numbers: list[float], share: float, kind: str) -> None:
    values = np.array(numbers, kind)
    assert quantile(values, share) == pytest.approx(float(np.quantile(values, share)), rel=1e-5, abs=1e-4)
