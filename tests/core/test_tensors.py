"""The raw block that travels, and the table that says what lies where in it."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle.errors import WireError
from auricle.wire.tensor_specs import TensorSpec
from auricle.wire.tensors import LARGEST_MODEL, TensorTable, decode, digest, encode

HEAD = (TensorSpec("head.weight", (2, 3), "head", 0.5), TensorSpec("head.bias", (2,), "head", 0.5))
TABLE = TensorTable((TensorSpec("conv.0.weight", (2, 2), "conv.0", 0.25), *HEAD))
FLAT = np.arange(12, dtype=np.float32)


def test_a_table_says_where_each_tensor_lies() -> None:
    assert TABLE.size == 4 + 6 + 2
    assert TABLE.offsets == {"conv.0.weight": slice(0, 4), "head.weight": slice(4, 10), "head.bias": slice(10, 12)}
    assert TABLE.tensor(FLAT, "head.weight").tolist() == [[4, 5, 6], [7, 8, 9]]


def test_the_three_parts_of_a_model_join_to_the_same_vector() -> None:
    body, weight, bias = TABLE.parts(FLAT)
    assert (body.tolist(), weight.shape, bias.tolist()) == ([0, 1, 2, 3], (2, 3), [10, 11])
    assert TABLE.join(body, weight, bias).tolist() == FLAT.tolist()


def test_initial_weights_are_uniform_within_each_tensors_bound_and_the_same_for_a_seed() -> None:
    table = TensorTable((TensorSpec("conv.0.weight", (100, 100), "conv.0", 0.25), *HEAD))
    flat = table.initial(7)
    body = flat[:10_000]
    assert np.abs(body).max() <= 0.25
    assert np.abs(body).max() > 0.2499
    assert abs(body.mean()) < 0.01
    assert np.std(body) == pytest.approx(0.25 / 3**0.5, rel=0.02)
    assert np.array_equal(flat, table.initial(7))
    assert not np.array_equal(flat, table.initial(8))


def test_initial_weights_are_these_numbers_on_every_machine() -> None:
    draw = np.random.Generator(np.random.PCG64(0)).random(12, dtype=np.float32)
    expected = (2 * draw - 1) * np.array([0.25] * 4 + [0.5] * 8, np.float32)
    assert TABLE.initial(0).tolist() == expected.tolist()
    assert TABLE.initial(0)[:3].tolist() == pytest.approx([0.1753121, 0.06848082, 0.00556824], abs=1e-7)


@pytest.mark.parametrize(
    ("specs", "sentence"),
    [
        ((*HEAD[:1], *HEAD), "same tensor twice"),
        (HEAD[::-1], "must end with head.weight and head.bias"),
        ((), "must end with"),
        ((TensorSpec("head.weight", (6,), "head", 0.5), HEAD[1]), "must be \\(labels, width\\)"),
        ((HEAD[0], TensorSpec("head.bias", (3,), "head", 0.5)), "must be \\(labels, width\\)"),
        ((TensorSpec("x", (1 << 20,) * 8, "x", 0.5), *HEAD), f"at most {LARGEST_MODEL}"),
    ],
)
def test_an_unsound_table_is_refused_before_anything_is_allocated(specs: tuple[TensorSpec, ...], sentence: str) -> None:
    with pytest.raises(WireError, match=sentence):
        TensorTable(specs)


def test_the_block_is_raw_little_endian() -> None:
    flat = np.array([1.0, -2.0, 0.5], np.float32)
    assert encode(flat) == struct.pack("<3f", 1.0, -2.0, 0.5)
    assert encode(flat, "float16") == struct.pack("<3e", 1.0, -2.0, 0.5)
    assert digest(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=20))
def test_float32_travels_without_loss(values: list[float]) -> None:
    flat = np.array(values, np.float32)
    assert decode(encode(flat), len(flat)).tobytes() == flat.tobytes()


@given(st.lists(st.floats(-60000, 60000, width=32), max_size=20))
def test_float16_travels_within_half_a_unit_in_the_last_place(values: list[float]) -> None:
    flat = np.array(values, np.float32)
    back = decode(encode(flat, "float16"), len(flat), "float16")
    assert np.all(np.abs(back - flat) <= np.maximum(np.abs(flat) * 2.0**-11, 2.0**-25))


@pytest.mark.parametrize("block", [b"", b"\0" * 7, b"\0" * 9])
def test_a_block_of_another_length_is_refused(block: bytes) -> None:
    with pytest.raises(WireError, match="where 8 are due"):
        decode(block, 2)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_neither_leave_nor_enter(value: float) -> None:
    with pytest.raises(WireError, match="not finite"):
        encode(np.array([1.0, value], np.float32))
    with pytest.raises(WireError, match="not finite"):
        decode(struct.pack("<2f", 1.0, value), 2)


def test_every_half_is_read_as_numpy_reads_it() -> None:
    halves = np.arange(1 << 16, dtype="<u2")
    finite = halves[(halves & 0x7C00) != 0x7C00]
    found = decode(finite.tobytes(), finite.size, "float16")
    assert found.tobytes() == finite.view("<f2").astype(np.float32).tobytes()
    assert encode(found, "float16") == finite.tobytes()
    for one in halves[(halves & 0x7C00) == 0x7C00][[0, 1, -1]]:
        with pytest.raises(WireError, match="not finite"):
            decode(one.tobytes(), 1, "float16")


def test_halves_are_the_nearest_ties_to_even_as_numpys_are() -> None:
    halves = np.arange(0x7BFF, dtype="<u2").view("<f2").astype(np.float64)
    middles = ((halves[1:] + halves[:-1]) / 2).astype(np.float32)
    beside = [np.nextafter(middles, np.float32(toward)) for toward in (0.0, 1e6)]
    drawn = np.random.default_rng(0).integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    drawn = drawn[np.abs(drawn) < 65520]
    largest = np.nextafter(np.float32(65520), np.float32(0))
    for numbers in (middles, -middles, *beside, drawn, np.array([largest, -largest, 0.0, -0.0, 1e-45], np.float32)):
        assert encode(numbers, "float16") == numbers.astype("<f2").tobytes()
    for number in (65520.0, -65520.0, 1e30, np.inf, np.nan):
        with pytest.raises(WireError, match="does not fit float16"):
            encode(np.array([1.0, number], np.float32), "float16")


def test_a_weight_too_large_for_float16_is_refused_rather_than_sent_as_infinity() -> None:
    with pytest.raises(WireError, match="does not fit float16"):
        encode(np.array([70000.0], np.float32), "float16")


@pytest.mark.parametrize("travel", [lambda: encode(FLAT, "int4"), lambda: decode(b"", 0, "int4")])
def test_an_unknown_codec_is_named(travel: Callable[[], object]) -> None:
    with pytest.raises(WireError, match='"int4"'):
        travel()
