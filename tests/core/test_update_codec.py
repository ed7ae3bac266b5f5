"""Updates as they travel: exact small ones of each codec, what it may cost, and blocks that nobody would make."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from auricle.errors import WireError
from auricle.packs.pack import load_pack
from auricle.wire.tensor_specs import TensorSpec
from auricle.wire.tensors import Flat, TensorTable, encode
from auricle.wire.update_codec import INT8, MOVES, TOP_K, decode_update, encode_update, largest, length_of

TABLE = TensorTable(
    TensorSpec(name, shape, name.partition(".")[0], 0.1)
    for name, shape in (("body", (3,)), ("head.weight", (2, 2)), ("head.bias", (2,)))
)
BASE = np.arange(9, dtype=np.float32)


def moves(*values: float) -> Flat:
    return BASE + np.array(values, np.float32)


def test_each_tensor_has_a_scale_of_its_own() -> None:
    sent = moves(127, -63.5, 0, 0.25, -0.25, 0, 0.125, 0, 0)
    body = encode_update(sent, BASE, TABLE, INT8)
    assert np.frombuffer(body[:12], "<f4").tolist() == [1.0, np.float32(0.25 / 127), 0.0]
    # 63.5 lies between two values: rounded to the even one
    assert np.frombuffer(body[12:], np.int8).tolist() == [127, -64, 0, 127, -127, 0, 64, 0, 0]
    assert len(body) == length_of(TABLE, INT8) == 3 * 4 + 9
    found = decode_update(body, BASE, TABLE, INT8)
    assert found.dtype == np.float32
    assert found.tolist() == pytest.approx(moves(127, -64, 0, 0.25, -0.25, 0, 64 * 0.25 / 127, 0, 0).tolist())


@pytest.mark.parametrize("codec", ["float32", "float16"])
def test_raw_numbers_travel_as_before(codec: str) -> None:
    sent = moves(1, 2, 3, 4, 5, 6, 7, 8, 9)
    body = encode_update(sent, BASE, TABLE, codec)
    assert body == encode(sent, codec)
    assert len(body) == length_of(TABLE, codec)
    assert decode_update(body, None, TABLE, codec).tolist() == sent.tolist()


SENT = moves(7, -3.5, 0.5, 0.25, 1.75, 0, 0.125, -14, 2)
TOP_K_BODY = np.array([1, 0.25, 2], "<f4").tobytes() + bytes.fromhex("93 01 c7 97 01")
"""Of nine moves the five largest, 7, -3.5, 1.75, -14 and 2: 7 -4 | 7 | -7 1 steps of 1, 0.25 and 2. The places 0, 1, 4
and 7 are bits of 0x93, 8 is one of 0x01."""


def test_the_larger_half_travels_in_four_bits() -> None:
    body = encode_update(SENT, BASE, TABLE, TOP_K)
    assert body == TOP_K_BODY
    assert len(body) == length_of(TABLE, TOP_K) == 3 * 4 + 2 + 3
    read = decode_update(body, BASE, TABLE, TOP_K)
    assert read.dtype == np.float32
    assert read.tolist() == moves(7, -4, 0, 0, 1.75, 0, 0, -14, 2).tolist()


def test_of_equal_moves_the_first_are_sent() -> None:
    assert largest(np.array([1.0, -2, 2, 1, -1, 0]), 4).tolist() == [True, True, True, True, False, False]
    assert largest(np.zeros(3), 2).tolist() == [True, True, False]
    still = decode_update(encode_update(BASE, BASE, TABLE, TOP_K), BASE, TABLE, TOP_K)
    assert still.tolist() == BASE.tolist()


@given(arrays(np.float32, 9, elements=st.floats(-1e4, 1e4, width=32)))
def test_what_is_sent_is_at_least_as_large_as_what_is_not(moved: Flat) -> None:
    sent = largest(moved.astype(np.float64), 5)
    assert np.count_nonzero(sent) == 5
    assert np.abs(moved[sent]).min() >= np.abs(moved[~sent]).max()


@pytest.mark.parametrize(
    ("at", "byte", "says"),
    [
        (12, 0x83, "4 weights are sent where 5 are due"),
        (12, 0x97, "6 weights are sent where 5 are due"),
        (13, 0x03, "beyond the last"),
        (14, 0xC8, "A value is below -7"),
        (16, 0x11, "beside the last value"),
    ],
    ids=["too few", "too many", "out of range", "no value", "more"],
)
def test_places_and_values_that_nobody_makes_are_refused(at: int, byte: int, says: str) -> None:
    body = TOP_K_BODY[:at] + bytes([byte]) + TOP_K_BODY[at + 1 :]
    with pytest.raises(WireError, match=says):
        decode_update(body, BASE, TABLE, TOP_K)


@pytest.mark.parametrize("codec", MOVES)
def test_a_body_of_another_length_is_refused(codec: str) -> None:
    body = encode_update(SENT, BASE, TABLE, codec)
    for wrong in (b"", body[:-1], body + b"\0"):
        with pytest.raises(WireError, match=f"has {len(wrong)} bytes where {len(body)} are due"):
            decode_update(wrong, BASE, TABLE, codec)


@pytest.mark.parametrize(("codec", "most"), [("float16", 0.5), (INT8, 0.2505), (TOP_K, 0.1)])
@pytest.mark.parametrize("pack", ["home", "digits", "gsc12", "gsc12-res", "gsc35"])
def test_how_much_of_float32_travels(pack: str, codec: str, most: float) -> None:
    table = load_pack(pack).plugin_table
    assert length_of(table, codec) <= most * length_of(table, "float32")


@given(arrays(np.float32, 9, elements=st.floats(-1e4, 1e4, width=32)))
def test_no_value_is_further_off_than_half_a_step_of_its_tensor(moved: Flat) -> None:
    body = encode_update(BASE + moved, BASE, TABLE, INT8)
    off = np.abs(decode_update(body, BASE, TABLE, INT8).astype(np.float64) - (BASE + moved))
    for at in TABLE.offsets.values():
        step = np.abs((BASE + moved)[at].astype(np.float64) - BASE[at]).max() / 127
        assert off[at].max() <= step / 2 * (1 + 1e-5) + 2e-3  # and float32 at 1e4


@pytest.mark.parametrize("codec", MOVES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 3e38])
def test_a_scale_that_nobody_makes_and_a_move_beyond_every_float32_are_refused(value: float, codec: str) -> None:
    body = encode_update(moves(*[1.0] * 9), BASE, TABLE, codec)
    with pytest.raises(WireError, match="not finite" if value == 3e38 else "scale"):
        decode_update(np.array([value], "<f4").tobytes() + body[4:], BASE, TABLE, codec)


def test_a_value_that_nobody_makes_is_refused() -> None:
    body = encode_update(moves(*[1.0] * 9), BASE, TABLE, INT8)
    with pytest.raises(WireError, match="A value is below -127"):
        decode_update(body[:-1] + b"\x80", BASE, TABLE, INT8)


@pytest.mark.parametrize("codec", MOVES)
def test_what_cannot_travel_is_refused(codec: str) -> None:
    with pytest.raises(WireError, match="not finite"):
        encode_update(moves(np.nan, *[0.0] * 8), BASE, TABLE, codec)
    with pytest.raises(WireError, match='"int4"'):
        length_of(TABLE, "int4")
    with pytest.raises(WireError, match="started from"):
        decode_update(encode_update(BASE, BASE, TABLE, codec), None, TABLE, codec)
