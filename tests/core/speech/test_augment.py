"""Augmentation: bounded, deterministic, and each step does what it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.packs.pack import Task
from auricle.speech.augment import Augmentation, Augmenter, noise_energies, word_level
from auricle.speech.features import LogMel

FRONTEND = LogMel(Task(("yes", "no")))
STILL = Augmentation(shift_frames=0, tempo=0.0, warp=0.0, gain_db=0.0, noise_probability=0.0, time_masks=0, mel_masks=0)
"""Nothing happens."""


def _energies(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).gamma(1.0, 2.0, (count, 100, 40)).astype(np.float32)


def _rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_without_any_range_the_clips_stay_as_they_are() -> None:
    energies = _energies(3)
    assert np.array_equal(Augmenter(FRONTEND, None, STILL)(energies, _rng()), FRONTEND.finish(energies))


@settings(max_examples=25)
@given(seed=st.integers(0, 1 << 30), count=st.integers(0, 5), silent=st.booleans())
def test_every_draw_keeps_shape_and_is_finite(seed: int, count: int, silent: bool) -> None:
    energies = np.zeros((count, 100, 40), np.float32) if silent else _energies(count, seed)
    augment = Augmenter(FRONTEND, _energies(2, 9).reshape(-1, 40))
    out = augment(energies, _rng(seed))
    assert out.shape == energies.shape
    assert out.dtype == np.float32
    assert np.isfinite(out).all()


def test_the_generator_decides_and_the_clips_are_not_changed() -> None:
    energies = _energies(4)
    before = energies.copy()
    augment = Augmenter(FRONTEND, _energies(2, 9).reshape(-1, 40))
    first = augment(energies, _rng(1))
    assert np.array_equal(first, augment(energies, _rng(1)))
    assert not np.array_equal(first, augment(energies, _rng(2)))
    assert np.array_equal(energies, before)


@pytest.mark.parametrize("snr", [0.0, 10.0, 20.0])
def test_noise_comes_at_the_asked_ratio_to_the_word(snr: float) -> None:
    """Words of 25, 50 and 100 of 100 frames at an energy of 8: noise is the same for all, of mean 8 / 10^(snr/10)."""
    energies = np.zeros((3, 100, 40), np.float32)
    for clip, frames in enumerate((25, 50, 100)):
        energies[clip, :frames] = 8
    noise = np.full((300, 40), 37, np.float32)
    noisy = energies.copy()
    Augmenter(FRONTEND, noise, replace(STILL, noise_probability=1.0, snr_db=(snr, snr)))._add_noise(noisy, _rng())
    expected = np.full(3, 8 * 10 ** (-snr / 10))
    assert (noisy - energies).mean(axis=(1, 2)) == pytest.approx(expected, rel=1e-4)


def test_the_level_of_a_word_is_that_of_the_loudest_frames_with_98_percent() -> None:
    """Ten frames of 9.7, one of 2 and one of 1 make 100: eleven hold 99, and ten only 97, so 99 / 11 is the level."""
    frames = np.zeros((4, 100), np.float32)
    frames[0, 40:50], frames[0, 60], frames[0, 3] = 9.7, 2, 1
    frames[1] = np.roll(frames[0], 31) * 5
    frames[2] = 3
    energies = np.repeat(frames[:, :, None], 40, axis=2)
    level = word_level(energies)
    assert level.dtype == np.float32
    assert level == pytest.approx([9, 45, 3, 0], rel=1e-6)
    assert word_level(energies[:0]).shape == (0,)


def test_noise_is_heard_in_the_asked_share_of_clips() -> None:
    energies = _energies(1000)[:, :100]
    noisy = energies.copy()
    Augmenter(FRONTEND, _energies(3, 9).reshape(-1, 40), replace(STILL, noise_probability=0.8))._add_noise(
        noisy, _rng()
    )
    share = (noisy != energies).any(axis=(1, 2)).mean()
    assert share == pytest.approx(0.8, abs=0.05)


def test_a_shift_moves_whole_frames_and_repeats_the_edge() -> None:
    energies = np.broadcast_to(np.arange(100, dtype=np.float32)[None, :, None], (50, 100, 40))
    moved = Augmenter(FRONTEND, None, replace(STILL, shift_frames=10))._move_in_time(energies, _rng())[:, :, 0]
    steps = moved[:, 50] - 50
    assert np.abs(steps).max() <= 10
    assert len(np.unique(steps)) > 10
    assert np.array_equal(moved, np.clip(np.arange(100) + steps[:, None], 0, 99))


def test_tempo_stretches_about_the_middle() -> None:
    energies = np.broadcast_to(np.arange(100, dtype=np.float32)[None, :, None], (200, 100, 40))
    moved = Augmenter(FRONTEND, None, replace(STILL, tempo=0.1))._move_in_time(energies, _rng())[:, :, 0]
    span = moved[:, 90] - moved[:, 10]
    assert 0.88 * 80 <= span.min() < 75
    assert 85 < span.max() <= 1.12 * 80
    assert np.abs(moved[:, 49] + moved[:, 50] - 99).max() <= 1


def test_a_warp_moves_bands_by_at_most_its_share() -> None:
    energies = np.zeros((200, 100, 40), np.float32)
    energies[:, :, 20] = 1
    warped = Augmenter(FRONTEND, None, replace(STILL, warp=0.12))._warp_mels(energies, _rng())
    centre = (warped[:, 0] * np.arange(40)).sum(1) / warped[:, 0].sum(1)
    assert 20 / 1.12 - 0.6 <= centre.min() < 19
    assert 21 < centre.max() <= 20 / 0.88 + 0.6


@settings(max_examples=25)
@given(seed=st.integers(0, 1 << 30), width=st.integers(0, 120), bands=st.integers(0, 60))
def test_masks_are_bounded_even_where_they_are_wider_than_the_clip(seed: int, width: int, bands: int) -> None:
    s = replace(STILL, time_masks=2, time_width=width, mel_masks=2, mel_width=bands)
    kept = Augmenter(FRONTEND, None, s)._mask(np.ones((4, 100, 40), np.float32), _rng(seed)) == 1
    rows, columns = (~kept).all(axis=2).sum(axis=1), (~kept).all(axis=1).sum(axis=1)
    full_rows, full_columns = min(100, 2 * width), min(40, 2 * bands)
    assert (rows[columns < 40] <= full_rows).all()
    assert (columns[rows < 100] <= full_columns).all()
    hidden = (~kept).sum(axis=(1, 2))
    assert (hidden <= full_rows * 40 + full_columns * 100).all()


def test_gain_changes_nothing_but_the_distance_to_the_floor() -> None:
    energies = _energies(20) + 1
    out = Augmenter(FRONTEND, None, replace(STILL, gain_db=6.0))(energies, _rng())
    assert out == pytest.approx(FRONTEND.finish(energies), abs=1e-5)


def test_noise_recordings_are_cut_to_whole_clips() -> None:
    sound = np.random.default_rng(0).standard_normal(40_000).astype(np.float32)
    energies = noise_energies(FRONTEND, [sound, sound[:15_999]])
    assert energies is not None
    assert energies.shape == (200, 40)
    assert np.array_equal(energies[:100], FRONTEND.energies(sound[None, :16_000])[0])
    assert noise_energies(FRONTEND, [sound[:15_999]]) is None
    assert noise_energies(FRONTEND, []) is None
