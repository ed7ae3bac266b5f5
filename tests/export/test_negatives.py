"""A pack's negatives: what goes in comes back within the step, and what a pack cannot carry is refused."""

from __future__ import annotations

import numpy as np
import pytest
from tests.core.bare_pack import bare_pack

from auricle.errors import PackError
from auricle.packs.listening import LARGEST_NEGATIVES
from auricle.packs.manifest import FORMAT, LISTENING_FORMAT
from auricle.speech.features import stream_energies
from auricle_export.packs.start_weights import with_negatives

PACK = bare_pack("gsc12")
TASK = PACK.manifest.task


def _noise(seconds: float, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 500, int(seconds * TASK.sample_rate)).astype(np.int16)


def test_a_pack_carries_the_energies_of_the_recordings() -> None:
    recordings = [("noise", _noise(3.0, 0)), ("speech", _noise(1.5, 1))]

    read = with_negatives(PACK, [(kind, stream_energies(TASK, samples)) for kind, samples in recordings])

    assert (PACK.manifest.format, read.manifest.format) == (FORMAT, LISTENING_FORMAT)
    assert read.manifest.negatives.kinds == ("noise", "speech")
    assert [len(stretch) for stretch in read.negatives()] == [300, 150]
    floor, step = TASK.frontend.floor, read.manifest.negatives.step
    for (_, samples), stretch in zip(recordings, read.negatives(), strict=True):
        apart = np.log(stretch + floor) - np.log(stream_energies(TASK, samples) + floor)
        assert np.abs(apart).max() <= step / 2 + 1e-3
    assert read.manifest.start == PACK.manifest.start


def test_new_negatives_take_the_place_of_those_before_and_too_many_are_refused() -> None:
    once = with_negatives(PACK, [("noise", stream_energies(TASK, _noise(2.0, 0)))])
    twice = with_negatives(once, [("words", stream_energies(TASK, _noise(1.0, 1)))])
    assert twice.manifest.negatives.kinds == ("words",)
    assert sorted(twice.files) == sorted(once.files)
    mels = TASK.frontend.mels
    with pytest.raises(PackError, match="at most"):
        with_negatives(PACK, [("noise", np.zeros((LARGEST_NEGATIVES // mels + 1, mels), np.float32))])
