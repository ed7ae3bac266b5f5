"""Updates as they travel: exact small ones in int8, what it may cost, and blocks that nobody would make."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from auricle.errors import WireError
from auricle.wire.tensor_specs import TensorSpec
from auricle.wire.tensors import Flat, TensorTable, encode
from auricle.wire.update_codec import INT8, decode_update, encode_update, length_of

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


@given(arrays(np.float32, 9, elements=st.floats(-1e4, 1e4, width=32)))
def test_no_value_is_further_off_than_half_a_step_of_its_tensor(moved: Flat) -> None:
    body = encode_update(BASE + moved, BASE, TABLE, INT8)
    off = np.abs(decode_update(body, BASE, TABLE, INT8).astype(np.float64) - (BASE + moved))
    for at in TABLE.offsets.values():
        step = np.abs((BASE + moved)[at].astype(np.float64) - BASE[at]).max() / 127
        assert off[at].max() <= step / 2 * (1 + 1e-5) + 2e-3  # and float32 at 1e4


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 3e38])
def test_a_scale_that_nobody_makes_and_a_move_beyond_every_float32_are_refused(value: float) -> None:
    body = encode_update(moves(*[1.0] * 9), BASE, TABLE, INT8)
    with pytest.raises(WireError, match="not finite" if value == 3e38 else "scale"):
        decode_update(np.array([value], "<f4").tobytes() + body[4:], BASE, TABLE, INT8)


def test_a_value_that_nobody_makes_is_refused() -> None:
    body = encode_update(moves(*[1.0] * 9), BASE, TABLE, INT8)
    with pytest.raises(WireError, match="A value is below -127"):
        decode_update(body[:-1] + b"\x80", BASE, TABLE, INT8)


def test_what_cannot_travel_is_refused() -> None:
    with pytest.raises(WireError, match="not finite"):
        encode_update(moves(np.nan, *[0.0] * 8), BASE, TABLE, INT8)
    with pytest.raises(WireError, match='"int4"'):
        length_of(TABLE, "int4")
    with pytest.raises(WireError, match="started from"):
        decode_update(encode_update(BASE, BASE, TABLE, INT8), None, TABLE, INT8)
