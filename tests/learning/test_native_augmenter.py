"""Augmentation with the C library: the draws of NumPy's, its log-mels within float32's rounding, nothing outside."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from auricle.errors import AuricleError
from auricle.packs.pack import load_pack
from auricle.speech.augment import Augmentation, Augmenter
from auricle.speech.features import LogMel
from auricle_learning.native import library as native_library
from auricle_learning.native.compiling import LEVELS
from auricle_learning.native.library import Library, compiler, library
from auricle_learning.training.native_augmenter import NEAR, NativeAugmenter, augmenter

FRONTEND = LogMel(load_pack("gsc12").manifest.task)
FRAMES, MELS = FRONTEND.task.frames, FRONTEND.task.frontend.mels
pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")


@pytest.fixture(scope="module")
def built() -> Library:
    return library()


def sound(clips: int, seed: int = 0) -> np.ndarray:
    """Mel energies over twelve orders of magnitude, with silence in between."""
    energies = np.random.default_rng(seed).lognormal(-4, 5, (clips, FRAMES, MELS)).astype(np.float32)
    energies[:, ::7] = 0.0
    return energies


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("settings", [Augmentation(), Augmentation(0, 0.0, 0.0, 0.0, 1.0, (-5.0, 5.0), 0, 0, 0, 0)])
def test_it_is_numpys_augmentation_at_every_level(built: Library, settings: Augmentation, noisy: bool) -> None:
    energies, noise = sound(7), sound(3, seed=1).reshape(-1, MELS) if noisy else None
    plain, made = np.random.default_rng(5), []
    right = Augmenter(FRONTEND, noise, settings)(energies, plain)
    after = plain.random()
    for level in LEVELS[: LEVELS.index(built.level) + 1]:
        rng = np.random.default_rng(5)
        made.append(NativeAugmenter(FRONTEND, noise, settings, library=built, level=level)(energies, rng))
        assert rng.random() == after
        assert np.abs(made[-1] - right).max() <= NEAR * np.abs(right).max()
        assert np.array_equal(made[-1] == 0, right == 0)
    assert {one.tobytes() for one in made} == {made[0].tobytes()}


@pytest.mark.parametrize("frames", [50, 165, 200])
def test_clips_of_another_window_are_augmented_as_numpy_does(built: Library, frames: int) -> None:
    frontend = LogMel(msgspec.structs.replace(FRONTEND.task, frames=frames, clip_samples=160 * frames))
    energies = np.random.default_rng(2).lognormal(-4, 5, (5, frames, MELS)).astype(np.float32)
    noise = np.random.default_rng(3).lognormal(-4, 2, (3 * frames, MELS)).astype(np.float32)
    right = Augmenter(frontend, noise)(energies, np.random.default_rng(5))
    made = NativeAugmenter(frontend, noise, library=built)(energies, np.random.default_rng(5))
    assert made.shape == (5, frames, MELS)
    assert np.abs(made - right).max() <= NEAR * np.abs(right).max()


def test_an_epoch_at_once_and_no_clip_at_all(built: Library) -> None:
    augment = NativeAugmenter(FRONTEND, None, library=built)
    assert augment(sound(0), np.random.default_rng(0)).shape == (0, FRAMES, MELS)
    assert np.isfinite(augment(sound(200), np.random.default_rng(0))).all()


def test_what_is_not_finite_stays_so(built: Library) -> None:
    energies = sound(2)
    energies[0, 50, 20] = np.nan
    still = replace(Augmentation(0, 0.0, 0.0, 0.0), time_masks=0, mel_masks=0)
    made = NativeAugmenter(FRONTEND, None, still, library=built)(energies, np.random.default_rng(0))
    assert np.isnan(made[0]).all() and np.isfinite(made[1]).all()


def test_a_frame_outside_of_a_clip_is_refused(built: Library) -> None:
    class Far(NativeAugmenter):
        def draw_frames(self, count: int, frames: int, rng: np.random.Generator) -> np.ndarray:
            return super().draw_frames(count, frames, rng) + frames

    class Wide(NativeAugmenter):
        def draw_masks(self, count: int, frames: int, mels: int, rng: np.random.Generator) -> list:
            return [(2, np.full((count, 1), mels - 1), np.full((count, 1), 2))]

    class Late(NativeAugmenter):
        def draw_noise(self, count: int, frames: int, rng: np.random.Generator) -> tuple:
            return np.ones(count, np.int64), np.ones(count), np.ones(count, np.bool_)

    for kind in (Far, Wide, Late):
        with pytest.raises(AuricleError, match="outside of a clip or of the noise"):
            kind(FRONTEND, sound(1).reshape(-1, MELS), library=built)(sound(3), np.random.default_rng(0))


def test_numpy_augments_where_there_is_no_library(monkeypatch: pytest.MonkeyPatch, built: Library) -> None:
    assert isinstance(augmenter(FRONTEND, None), NativeAugmenter)
    monkeypatch.setattr(native_library, "brought_library", lambda: None)
    monkeypatch.setattr(native_library, "library_path", lambda: native_library.HERE / "none.so")
    assert type(augmenter(FRONTEND, None)) is Augmenter
