"""Clips from wav and FLAC files: length, rate, channels, and what cannot be read."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.errors import DataError
from auricle.speech.audio import SAMPLE_RATE, fit_clip, read_audio, read_clip, resample
from auricle.speech.clip_folder import scan_folder


def _tone(seconds: float, rate: int, hertz: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def _write(path: Path, audio: np.ndarray, rate: int = SAMPLE_RATE, **how: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, audio, rate, **how)
    return path


def _encoded(suffix: str) -> bytes:
    held = io.BytesIO()
    soundfile.write(held, _tone(0.3, SAMPLE_RATE), SAMPLE_RATE, format=suffix)
    return held.getvalue()


_SOUND = {suffix: _encoded(suffix) for suffix in ("wav", "flac")}


def test_a_short_clip_stands_in_the_middle_of_zeros() -> None:
    assert fit_clip(np.array([1, 2, 3], dtype=np.float32), 6).tolist() == [0, 1, 2, 3, 0, 0]


def test_of_a_long_clip_the_loudest_window_is_kept() -> None:
    audio = np.array([9, 0, 0, 5, 8, 0, 0], dtype=np.float32)
    assert fit_clip(audio, 2).tolist() == [5, 8]
    assert fit_clip(audio, 3).tolist() == [0, 5, 8]


@given(length=st.integers(0, 50), clip=st.integers(1, 30))
def test_a_clip_has_exactly_the_asked_length_and_loses_no_more_energy_than_it_must(length: int, clip: int) -> None:
    audio = np.random.default_rng(length).standard_normal(length).astype(np.float32)
    fitted = fit_clip(audio, clip)
    assert fitted.shape == (clip,)
    best = max(float(np.sum(audio[i : i + clip] ** 2)) for i in range(max(1, length - clip + 1)))
    assert float(np.sum(fitted**2)) == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 48_000])
def test_resampling_keeps_a_tone(rate: int) -> None:
    resampled = resample(_tone(0.7, rate), rate, SAMPLE_RATE)
    expected = _tone(0.7, SAMPLE_RATE)
    assert len(resampled) == len(expected)
    middle = slice(800, -800)
    assert np.abs(resampled[middle] - expected[middle]).max() < 2e-3


def test_resampling_removes_what_the_lower_rate_cannot_carry() -> None:
    resampled = resample(_tone(0.5, 48_000, hertz=12_000), 48_000, SAMPLE_RATE)
    assert np.abs(resampled[800:-800]).max() < 2e-3


@settings(max_examples=30)
@given(length=st.integers(1, 3_000), rate=st.sampled_from([8_000, 11_025, 22_050, 48_000]))
def test_resampling_gives_the_length_that_the_duration_asks_for(length: int, rate: int) -> None:
    audio = np.random.default_rng(length).standard_normal(length).astype(np.float32)
    resampled = resample(audio, rate, SAMPLE_RATE)
    assert len(resampled) == -(-length * SAMPLE_RATE // rate)
    assert np.isfinite(resampled).all()


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "A.WAV"])
def test_sixteen_bit_samples_come_back_as_written(tmp_path: Path, name: str) -> None:
    samples = np.array([0, 1, -1, 32_767, -32_768], dtype=np.int16)
    path = _write(tmp_path / name, samples)
    assert (read_audio(path) * 32_768).tolist() == samples.tolist()


def test_channels_are_averaged_and_the_rate_becomes_16_khz(tmp_path: Path) -> None:
    both = np.stack([np.full(8_000, 0.5, np.float32), np.zeros(8_000, np.float32)], axis=1)
    audio = read_audio(_write(tmp_path / "a.wav", both, 8_000, subtype="FLOAT"))
    assert audio.shape == (16_000,)
    assert audio == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize("rate", [1, 3_999, 192_001, 2_000_000_000])
def test_a_rate_that_no_recorder_has_takes_no_memory(tmp_path: Path, rate: int) -> None:
    path = _write(tmp_path / "a.wav", np.zeros(8_000, dtype=np.int16), rate)
    with pytest.raises(DataError, match=f"claims {rate} samples a second"):
        read_audio(path)


@settings(max_examples=150)
@given(
    changes=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 255)), max_size=5),
    suffix=st.sampled_from(sorted(_SOUND)),
)
def test_whatever_a_header_holds_it_is_a_clip_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], suffix: str
) -> None:
    damaged = bytearray(_SOUND[suffix])
    for place, value in changes:
        damaged[place] = value
    path = tmp_path_factory.getbasetemp() / f"damaged.{suffix}"
    path.write_bytes(damaged)
    with contextlib.suppress(DataError):
        clip = read_clip(path)
        assert clip.shape == (16_000,)
        assert np.isfinite(clip).all()


def _cut(data: bytearray) -> bytes:
    return data[: len(data) // 2]


def _claiming_days(data: bytearray) -> bytes:
    data[22:26] = b"\xff\xff\xff\xff"
    return data


@pytest.mark.parametrize("damage", [_cut, _claiming_days, lambda _: b"not audio at all" * 100, None])
@pytest.mark.parametrize("read", [read_clip, read_audio])
def test_a_damaged_or_missing_file_takes_no_memory_and_is_named(tmp_path: Path, damage: Any, read: Any) -> None:
    path = _write(tmp_path / "a.flac", np.random.default_rng(0).standard_normal(16_000) * 0.1)
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(bytearray(path.read_bytes())))
    with pytest.raises(DataError, match=r"a\.flac"):
        read(path)


@pytest.mark.parametrize(("samples", "noun"), [([0.0, np.nan], "finite"), ([0.0, np.inf], "finite"), ([], "no sound")])
def test_samples_that_are_no_numbers_or_none_are_refused(tmp_path: Path, samples: list[float], noun: str) -> None:
    path = _write(tmp_path / "a.wav", np.array(samples, dtype=np.float32), subtype="FLOAT")
    with pytest.raises(DataError, match=noun):
        read_audio(path)


def test_a_folder_lists_words_speakers_and_noise_in_order(tmp_path: Path) -> None:
    silence = np.zeros(10, dtype=np.int16)
    for name in ("yes/b_nohash_0.wav", "yes/a_nohash_1.FLAC", "no/a_nohash_0.flac", "_background_noise_/hum.wav"):
        _write(tmp_path / name, silence)
    _write(tmp_path / "yes/stranger.wav", silence)
    _write(tmp_path / "_other_/a_nohash_0.wav", silence)
    (tmp_path / "yes/notes.txt").write_text("no audio")
    (tmp_path / "README.md").write_text("no folder")

    folder = scan_folder(tmp_path)

    named = [(clip.word, clip.speaker) for clip in folder.clips if not clip.is_nobody]
    assert named == [("no", "a"), ("yes", "a"), ("yes", "b")]
    assert [path.name for path in folder.noise] == ["hum.wav"]
    assert folder.counts() == {"no": 1, "yes": 3}
    assert folder.skipped == (f"{tmp_path}/_other_/a_nohash_0.wav is in _other_, which is no word: rename the folder.",)
    (nobody,) = [finding for finding in folder.findings if finding.is_used]
    assert nobody.sentence.startswith(f"{tmp_path}/yes/stranger.wav does not say who speaks")


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere does not exist"):
        scan_folder(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no audio"):
        scan_folder(tmp_path)
    _write(tmp_path / "a.wav", np.zeros(10, dtype=np.int16))
    with pytest.raises(DataError, match="1 file"):
        scan_folder(tmp_path)
    path = _write(tmp_path / "yes/in/stranger.wav", np.zeros(10, dtype=np.int16))
    with pytest.raises(DataError, match="1 file"):
        scan_folder(tmp_path)
    with pytest.raises(DataError, match="a recording, not a list"):
        scan_folder(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list any folder")
def test_a_folder_that_may_not_be_listed_is_named(tmp_path: Path) -> None:
    (tmp_path / "yes").mkdir(mode=0)
    with pytest.raises(DataError, match=r"yes cannot be listed \(Permission denied\)"):
        scan_folder(tmp_path)
