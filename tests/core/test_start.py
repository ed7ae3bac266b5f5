"""Trained weights in a pack: what is written is read, by us and by the safetensors package, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save
from tests.core import tiny_pack

from auricle.errors import PackError
from auricle.packs.start import read_start, start_file, start_weights
from auricle.wire.tensors import TensorTable

TABLE = TensorTable(tiny_pack.TABLE)
WEIGHTS = TABLE.initial(5)


def test_weights_are_those_that_were_put_in() -> None:
    pack = tiny_pack.pack()
    read = start_weights(pack, "lite")
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, TABLE.initial(7).astype(np.float16).astype(np.float32))


def test_float32_is_exact_and_float16_half_the_size() -> None:
    exact, half = start_file(TABLE, WEIGHTS, "F32"), start_file(TABLE, WEIGHTS)
    np.testing.assert_array_equal(read_start(exact, TABLE, "It"), WEIGHTS)
    np.testing.assert_allclose(read_start(half, TABLE, "It"), WEIGHTS, rtol=1e-3)
    assert len(exact) - len(half) == 2 * TABLE.size


def test_the_safetensors_package_reads_what_is_written() -> None:
    tensors = load(start_file(TABLE, WEIGHTS, "F32"))
    assert list(tensors) and set(tensors) == {spec.name for spec in TABLE.specs}
    for spec in TABLE.specs:
        np.testing.assert_array_equal(tensors[spec.name], TABLE.tensor(WEIGHTS, spec.name))


def test_what_the_safetensors_package_writes_is_read() -> None:
    tensors = {spec.name: np.ascontiguousarray(TABLE.tensor(WEIGHTS, spec.name)) for spec in TABLE.specs}
    tensors["head.bias"] = tensors["head.bias"].astype(np.float16)
    read = read_start(save(tensors, metadata={"made by": "somebody"}), TABLE, "It")
    np.testing.assert_array_equal(read[:-3], WEIGHTS[:-3])
    np.testing.assert_allclose(read[-3:], WEIGHTS[-3:], rtol=1e-3)


def test_a_model_without_trained_weights_is_named() -> None:
    pack = tiny_pack.pack().with_labels(("a", "b"))
    with pytest.raises(PackError, match="has no trained weights for lite: start from scratch"):
        start_weights(pack, "lite")
    with pytest.raises(PackError, match='has no model "light": did you mean "lite"'):
        start_weights(pack, "light")


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e6])
def test_weights_of_another_model_and_those_that_float16_cannot_hold_are_not_written(number: float) -> None:
    weights = WEIGHTS.copy()
    weights[3] = number
    for wrong in (weights, WEIGHTS[:-1]):
        with pytest.raises(PackError, match="15 numbers"):
            start_file(TABLE, wrong)


FILE = start_file(TABLE, WEIGHTS)


@settings(max_examples=400)
@given(place=st.integers(0, len(FILE) - 1), insert=st.binary(max_size=4), gone=st.integers(0, 4))
def test_a_mutated_file_is_refused_or_whole(place: int, insert: bytes, gone: int) -> None:
    try:
        read = read_start(FILE[:place] + insert + FILE[place + gone :], TABLE, "It")
    except PackError as error:
        assert str(error).startswith("It is refused: ")
        return
    assert read.shape == (TABLE.size,)
    assert np.isfinite(read).all()
