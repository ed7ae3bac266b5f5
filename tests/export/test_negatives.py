"""A pack's negatives made from recordings: what goes in comes back within the step, and what cannot be is refused."""

from __future__ import annotations

import numpy as np
import pytest
from tests.core.bare_pack import bare_pack

from auricle.errors import PackError
from auricle.packs.manifest import FORMAT, LISTENING_FORMAT
from auricle.speech.features import stream_energies
from auricle_export.packs.negatives import energies_of, with_negatives

PACK = bare_pack("gsc12")
TASK = PACK.manifest.task


def _noise(seconds: float, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 500, int(seconds * TASK.sample_rate)).astype(np.int16)


def test_a_pack_carries_the_energies_of_the_recordings() -> None:
    recordings = [("noise", _noise(3.0, 0)), ("speech", _noise(1.5, 1))]

    read = with_negatives(PACK, energies_of(TASK, recordings))

    assert (PACK.manifest.format, read.manifest.format) == (FORMAT, LISTENING_FORMAT)
    assert read.manifest.negatives.kinds == ("noise", "speech")
    assert [len(stretch) for stretch in read.negatives()] == [300, 150]
    floor, step = TASK.frontend.floor, read.manifest.negatives.step
    for (_, samples), stretch in zip(recordings, read.negatives(), strict=True):
        apart = np.log(stretch + floor) - np.log(stream_energies(TASK, samples) + floor)
        assert np.abs(apart).max() <= step / 2 + 1e-3
    assert read.manifest.start == PACK.manifest.start


def test_new_negatives_take_the_place_of_those_before() -> None:
    once = with_negatives(PACK, energies_of(TASK, [("noise", _noise(2.0, 0))]))
    twice = with_negatives(once, energies_of(TASK, [("words", _noise(1.0, 1))]))

    assert twice.manifest.negatives.kinds == ("words",)
    assert sorted(twice.files) == sorted(once.files)


def test_what_no_window_fits_into_and_what_a_pack_cannot_carry_is_refused() -> None:
    with pytest.raises(PackError, match="shorter than a clip"):
        energies_of(TASK, [("noise", _noise(0.9, 0))])
    with pytest.raises(PackError, match=r"at most 13\.1 minutes"):
        energies_of(TASK, [("noise", np.zeros(14 * 60 * TASK.sample_rate, np.int16))])
    with pytest.raises(PackError, match="one recording or more"):
        energies_of(TASK, [])
