"""Words one straight after the other: how close, how loud, and what is mined from them."""

from __future__ import annotations

import numpy as np

from auricle.packs.manifest import Task
from auricle.speech.features import LogMel
from auricle_export.pretrain.hard_negatives import EDGE_FRAMES, GAP_FRAMES, ROW_FRAMES, mine, run_together
from auricle_export.pretrain.sounds import Sounds
from auricle_export.pretrain.window_settings import WindowSettings
from auricle_export.pretrain.windows import Bank, Composer

LABELS = ("high", "_unknown_", "_silence_")
FRONTEND = LogMel(Task(LABELS))
MELS = FRONTEND.task.frontend.mels


def word(height: float, length: int = 30, count: int = 3) -> Sounds:
    """Words of so many frames at one height, 40 frames of silence on both sides."""
    one = np.zeros((80 + length, MELS), np.float32)
    one[40 : 40 + length] = height
    each = np.full(count, len(one), np.int64)
    return Sounds(
        energies=np.concatenate([one] * count + [np.zeros((1, MELS), np.float32)]),
        starts=np.arange(count) * len(one),
        lengths=each,
        begins=np.full(count, 40),
        ends=np.full(count, 40 + length),
        levels=np.full(count, height, np.float32),
        targets=np.full(count, -1),
    )


def test_words_follow_each_other_without_the_silence_around_them() -> None:
    rows = run_together((word(1.0), word(1.0, count=1)), np.random.default_rng(0), frames=4 * ROW_FRAMES)
    assert rows.lengths.min() >= ROW_FRAMES
    assert rows.lengths.sum() >= 4 * ROW_FRAMES == len(rows.energies) - 1 - (rows.lengths.sum() - 4 * ROW_FRAMES)
    silent = rows.energies[: rows.lengths[0], 0] == 0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], silent, [False]]).astype(int)))
    between = (edges[1::2] - edges[::2])[1:-1]
    assert between.min() >= 2 * EDGE_FRAMES
    assert between.max() < 2 * EDGE_FRAMES + GAP_FRAMES
    loudness = rows.energies[rows.energies > 0]
    assert 10**-0.4 <= loudness.min() < 0.6 < 1.5 < loudness.max() <= 10**0.4


def test_each_collection_is_drawn_from_as_often_as_the_other_however_large() -> None:
    rows = run_together((word(1.0, count=50), word(100.0, count=1)), np.random.default_rng(0), frames=60_000)
    loud = (rows.energies[:, 0] > 10).sum() / (rows.energies[:, 0] > 0).sum()
    assert 0.45 < loud < 0.55


def test_they_are_met_as_running_speech_and_the_mistaken_ones_more_often() -> None:
    low, high = word(1.0), word(1.0)
    high.energies[:, : MELS // 2] = 0
    low.energies[:, MELS // 2 :] = 0
    rows = run_together((low, high), np.random.default_rng(0), frames=30_000)
    bank = Bank(word(1.0), word(1.0), word(1.0), word(1.0), running=word(1.0, 200), noise=word(1.0), together=rows)
    only = WindowSettings(keywords=0.0, noise_only=0.0, running=1.0, cut=0.0, alike=0.0, together=1.0, mined=1.0)
    quiet = dict.fromkeys(
        ("backwards", "tempo", "warp", "babble", "noise", "second_noise", "room", "tilt_db", "masks"), 0.0
    )
    plain = Composer(bank, FRONTEND, 1, 2, WindowSettings(**{**_fields(only), **quiet, "gain_db": (0.0, 0.0)}))

    def recognise(features: np.ndarray) -> np.ndarray:
        found = np.zeros((len(features), 3), np.float32)
        found[:, 0] = features[:, :, 0].mean(axis=1) < features[:, :, -1].mean(axis=1)
        return found

    def mistaken() -> float:
        windows, targets = plain(400, np.random.default_rng(1))
        assert set(targets) == {1}
        assert windows.shape == (400, FRONTEND.task.frames, MELS)
        return float(recognise(windows)[:, 0].mean())

    before = mistaken()
    mined = mine(bank, FRONTEND, LABELS, recognise)
    assert len(mined.together.scores) == len(mined.together.sounds) == len(mined.together.frames) > 0
    plain.weigh(mined)
    assert mistaken() > before + 0.2


def _fields(settings: WindowSettings) -> dict[str, float]:
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}
