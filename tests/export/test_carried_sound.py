"""Sound that the shipped packs carry: which of it trains a wake word, and which chooses its threshold."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.packs.manifest import Task
from auricle.packs.pack import load_pack
from auricle.speech.features import Energies, stream_energies
from auricle_export.packs.network import LOG_MELS
from auricle_export.wakeword.carried import (
    CHOOSING_PACKS,
    PEOPLE,
    PIECE_FRAMES,
    SHORTEST_FRAMES,
    WORDS_CARRIED,
    choosing_stretches,
    load_carried,
    stretches_of,
    without_same,
)

TASK = load_pack(PEOPLE).manifest.task


def _syllables(seed: int, seconds: int) -> NDArray[np.float32]:
    """Noise of two colours whose level changes every 80 ms, as syllables do."""
    rng = np.random.default_rng(seed)
    levels = np.repeat(rng.uniform(0.01, 0.3, (2, seconds * 25 // 2)), 1_280, axis=1)
    white = rng.normal(0, 1, levels.shape)
    low = np.convolve(white[0], np.ones(12) / 12, "same")
    sound: NDArray[np.float32] = (levels[0] * low + 0.3 * levels[1] * np.diff(white[1], append=0)).astype(np.float32)
    return sound


def _energies(sound: NDArray[np.float32]) -> Energies:
    return stream_energies(TASK, sound)


def test_a_recording_that_trains_is_left_out_in_another_noise_and_at_another_place() -> None:
    trained, unheard = _syllables(0, 8), _syllables(1, 8)
    noise = np.random.default_rng(2).normal(0, 0.004, 16_000 * 8).astype(np.float32)[: len(trained)]
    again = _energies(0.5 * np.pad(trained, (5_000, 0))[: len(trained)] + noise)

    assert len(without_same(again, [_energies(unheard), _energies(trained)])) == 0
    kept = without_same(again, [_energies(unheard)])
    np.testing.assert_array_equal(kept, again[: len(again) // PIECE_FRAMES * PIECE_FRAMES])


def test_what_is_left_are_the_other_pieces_in_their_order() -> None:
    trained, unheard = _energies(_syllables(0, 8))[:600], _energies(_syllables(1, 8))[:600]
    mixed = np.concatenate([unheard[:200], trained[200:400], unheard[200:600]])

    np.testing.assert_array_equal(without_same(mixed, [trained]), unheard)
    np.testing.assert_array_equal(without_same(mixed, []), mixed)
    np.testing.assert_array_equal(without_same(mixed, [trained[:100]]), mixed)


def test_no_piece_that_chooses_thresholds_is_of_the_half_that_trains() -> None:
    halves = [energies[: len(energies) // 2] for _, energies in stretches_of(load_pack(PEOPLE))]
    trained = {piece.tobytes() for half in halves for piece in half}
    stretches = choosing_stretches()

    assert not any(frame.tobytes() in trained for _, energies in stretches for frame in energies)
    assert sum(len(energies) for _, energies in stretches) == 138_600  # 23 minutes
    assert min(len(energies) for _, energies in stretches) >= SHORTEST_FRAMES
    assert [kind for kind, _ in stretches].count("speech") == 1 + len(CHOOSING_PACKS)


def test_no_speech_in_the_halves_of_home_is_the_same() -> None:
    """Its streams hold each reading once: what chooses the limit of the correlation."""
    speech = dict(stretches_of(load_pack(PEOPLE)))["speech"]
    half = len(speech) // 2
    assert len(without_same(speech[half:], [speech[:half]])) == half
    assert len(without_same(speech[:half], [speech[:half]])) == 0


def test_single_words_are_left_out_where_the_phrase_is_one_of_them() -> None:
    word, phrase = load_carried(("marvin",), TASK), load_carried(("hey robot",), TASK)
    kinds = [{scene.stretches[0].kind for scene, _ in each.scenes} for each in (word, phrase)]

    assert kinds[1] - kinds[0] == {*WORDS_CARRIED}
    assert "speech" in kinds[0]
    assert word.trained["speech"].seconds == 120 and phrase.trained["speech"].seconds == 240
    assert word.identities == tuple(load_pack(name).identity for name in (PEOPLE, *CHOOSING_PACKS))


def test_another_front_end_hears_the_same_frames() -> None:
    other = Task(TASK.labels, frontend=LOG_MELS)
    here, there = load_carried(("hey robot",), TASK), load_carried(("hey robot",), other)
    assert [len(energies) for _, energies in here.scenes] == [len(energies) for _, energies in there.scenes]
    assert {energies.shape[1] for _, energies in there.scenes} == {LOG_MELS.mels}
    assert all(len(scene.samples) == len(energies) * TASK.frontend.hop for scene, energies in here.scenes)


def test_a_pack_without_sound_is_named() -> None:
    with pytest.raises(DataError, match="The pack gsc35 carries no sound without keywords: reinstall auricle"):
        stretches_of(load_pack("gsc35"))
