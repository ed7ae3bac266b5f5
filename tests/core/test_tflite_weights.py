"""Weights copied into a `.tflite` by the manifest's map alone."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.core import tiny_pack

from auricle.checks.tflite_weights import LEVELS, check_buffers, is_quantised, quantise, with_weights
from auricle.errors import PackError
from auricle.packs.manifest import Buffer, FileEntry, Task, Tflite
from auricle.packs.pack import Pack
from auricle.wire.tensor_specs import TensorSpec

TABLE = (
    TensorSpec("mix.weight", (2, 8), "mix", 0.5),
    TensorSpec("head.weight", (2, 2), "head", 0.5),
    TensorSpec("head.bias", (2,), "head", 0.5),
)
SIZE = 22
PLACES = {"mix.weight": 16, "head.weight": 80, "head.bias": 96}
FLOATS = tuple(Buffer(tensor=name, offset=offset) for name, offset in PLACES.items())
BYTES = (Buffer(tensor="mix.weight", offset=16, scale=40), *FLOATS[1:])


def pack_of(buffers: tuple[Buffer, ...], precision: str = "float32", size: int = 112) -> tuple[Pack, Tflite]:
    """A pack with one file of that size, filled with 0xAA."""
    content = b"\xaa" * size
    entry = Tflite(model="net", precision=precision, file="tflite/net.tflite", buffers=buffers)  # type: ignore[arg-type]
    file = FileEntry(path=entry.file, bytes=size, sha256=hashlib.sha256(content).hexdigest())
    toy: dict[str, Any] = {"task": Task(("no", "yes")), "plugin": "net", "architectures": {"net": TABLE}}
    manifest = tiny_pack.manifest({}, **toy, graphs=(), files=(file,), start={}, tflite=(entry,))
    return Pack(manifest, {entry.file: content}), entry


def test_float32_weights_lie_where_the_map_says_and_nothing_else_changes() -> None:
    pack, entry = pack_of(FLOATS)
    flat = np.arange(SIZE, dtype=np.float32)
    content = with_weights(pack, entry, flat)
    assert np.array_equal(np.frombuffer(content, "<f4", 16, 16), flat[:16])
    assert np.array_equal(np.frombuffer(content, "<f4", 4, 80), flat[16:20])
    assert np.array_equal(np.frombuffer(content, "<f4", 2, 96), flat[20:])
    assert content[:16] == b"\xaa" * 16 and content[104:] == b"\xaa" * 8 and len(content) == 112


def test_int8_weights_and_their_scales_are_those_worked_out_by_hand() -> None:
    """Row 0: largest 254, scale 2; row 1: largest 1.27, scale 0.01."""
    pack, entry = pack_of(BYTES, "int8")
    rows = np.array([[254, -254, 2, -2, 0, 1, 127, 3], [1.27, -1.27, 0.01, 0, 0, 0, 0.5, -0.5]], np.float32)
    flat = np.concatenate([rows.ravel(), np.arange(6)]).astype(np.float32)
    content = with_weights(pack, entry, flat)
    expected = [[127, -127, 1, -1, 0, 0, 64, 2], [127, -127, 1, 0, 0, 0, 50, -50]]
    assert np.frombuffer(content, np.int8, 16, 16).reshape(2, 8).tolist() == expected
    assert np.frombuffer(content, "<f4", 2, 40) == pytest.approx([2, 0.01])
    assert np.array_equal(np.frombuffer(content, "<f4", 4, 80), flat[16:20])


@pytest.mark.parametrize(("precision", "kind"), [("float32", "<f4"), ("int8", np.int8)])
def test_axes_are_permuted_as_the_map_says(precision: str, kind: str) -> None:
    scale = 40 if precision == "int8" else None
    pack, entry = pack_of((Buffer(tensor="mix.weight", offset=16, axes=(1, 0), scale=scale), *FLOATS[1:]), precision)
    flat = np.arange(SIZE, dtype=np.float32)
    flat[7], flat[15] = 127, 127
    held = np.frombuffer(with_weights(pack, entry, flat), kind, 16, 16).reshape(8, 2)
    assert np.array_equal(held, flat[:16].reshape(2, 8).T)


@given(arrays.arrays(np.float32, (3, 9), elements=st.floats(-(2.0**99), 2.0**99, width=32)))
def test_an_int8_weight_is_off_by_half_a_scale_at_most(tensor: np.ndarray) -> None:  # type: ignore[type-arg]
    steps, scales = quantise(tensor)
    assert steps.shape == tensor.shape and scales.shape == (3,) and np.abs(steps.astype(int)).max() <= LEVELS
    error = np.abs(steps * scales[:, None].astype(np.float64) - tensor)
    assert (error <= scales[:, None] * (0.5 + 1e-4) + 1e-38).all()


def test_a_slice_of_zeros_stays_zero() -> None:
    steps, scales = quantise(np.zeros((2, 8), np.float32))
    assert not steps.any() and scales.tolist() == [1, 1]


def test_biases_and_tiny_kernels_stay_float32() -> None:
    assert not is_quantised(TensorSpec("bias", (64,), "a", 0))
    assert not is_quantised(TensorSpec("depthwise", (64, 1, 3), "a", 0))
    assert is_quantised(TensorSpec("kernel", (64, 40, 3), "a", 0))


@pytest.mark.parametrize(
    ("buffers", "message"),
    [
        (FLOATS[:2], "each tensor of net once"),
        ((*FLOATS, FLOATS[0]), "each tensor of net once"),
        ((*FLOATS[:2], Buffer(tensor="other", offset=96)), "each tensor of net once"),
        ((*FLOATS[:2], Buffer(tensor="head.bias", offset=105)), "head.bias over"),
        ((*FLOATS[:2], Buffer(tensor="head.bias", offset=92)), "head.bias over"),
        ((*FLOATS[1:], Buffer(tensor="mix.weight", offset=4)), "mix.weight over"),
        ((Buffer(tensor="mix.weight", offset=16, axes=(1, 1)), *FLOATS[1:]), "mix.weight axes"),
        (BYTES, "a scale"),
    ],
)
def test_a_map_that_is_not_sound_is_refused(buffers: tuple[Buffer, ...], message: str) -> None:
    pack, entry = pack_of(buffers)
    with pytest.raises(PackError, match=message):
        check_buffers(pack, entry)
    with pytest.raises(PackError, match=message):
        with_weights(pack, entry, np.zeros(SIZE, np.float32))


def test_scales_over_the_numbers_are_refused() -> None:
    pack, entry = pack_of((Buffer(tensor="mix.weight", offset=16, scale=28), *FLOATS[1:]), "int8")
    with pytest.raises(PackError, match=r"puts mix\.weight over something else"):
        check_buffers(pack, entry)


@pytest.mark.parametrize("flat", [np.zeros(SIZE - 1, np.float32), np.full(SIZE, np.nan, np.float32)])
def test_weights_that_are_not_the_models_are_refused(flat: np.ndarray) -> None:  # type: ignore[type-arg]
    pack, entry = pack_of(FLOATS)
    with pytest.raises(PackError, match="are not 22 finite numbers"):
        with_weights(pack, entry, flat)
