"""What the codec leaves out of an update goes along with the next one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from auricle.packs.pack import load_pack
from auricle.wire.plan import Plan
from auricle.wire.tensor_specs import TensorSpec
from auricle.wire.tensors import Flat, TensorTable
from auricle.wire.update_codec import MOVES, TOP_K, decode_update
from auricle_learning.training.train import LocalState, RoundResult
from auricle_learning.training.update_body import update_body

TABLE = load_pack("digits").plugin_table
ZEROS = np.zeros(TABLE.size, np.float32)
SMALL = TensorTable(TensorSpec(name, shape, "l", 0.1) for name, shape in (("head.weight", (2, 2)), ("head.bias", (2,))))


def result(trained: Flat, **variates: Flat) -> RoundResult:
    return RoundResult(trained, LocalState(np.zeros(3, np.float32), variates=variates), 0.5, 1, 1.0, 4, None, None, 0)


def drawn(seed: int, table: TensorTable = TABLE) -> Flat:
    return np.random.default_rng(seed).normal(0, 0.01, table.size).astype(np.float32)


def test_two_rounds_of_the_larger_half_by_hand() -> None:
    base, plan = np.full(6, 4, np.float32), Plan(codec=TOP_K)
    moves = np.array([7, -2.5, 1, 0.5, 0.25, -0.75], np.float32)
    body, _, first = update_body(result(base + moves), base, plan, SMALL, None)
    assert (decode_update(body, base, SMALL, TOP_K) - base).tolist() == [7, -2, 1, 0, 0, 0]
    assert first is not None and first.tolist() == [0, -0.5, 0, 0.5, 0.25, -0.75]
    # after the same moves again it wants to send [7, -3, 1, 1, 0.5, -1.5]
    body, _, second = update_body(result(base + moves), base, plan, SMALL, first)
    assert (decode_update(body, base, SMALL, TOP_K) - base).tolist() == [7, -3, 0, 0, 0, -1.5]
    assert second is not None and second.tolist() == [0, 0, 1, 1, 0.5, 0]


@given(st.lists(arrays(np.int8, 6), min_size=1, max_size=5), st.sampled_from(MOVES))
def test_sent_and_left_over_together_are_trained(trained: list[NDArray[np.int8]], codec: str) -> None:
    """Exactly, but for the float32 in which weights travel and are kept."""
    base, left = drawn(0, SMALL), None
    moved, sent = np.zeros(6), np.zeros(6)
    for each in trained:
        weights = base + (each / 1024).astype(np.float32)
        moved += weights.astype(np.float64) - base
        wanted = weights if left is None else weights + left
        body, _, left = update_body(result(weights), base, Plan(codec=codec), SMALL, left)
        read = decode_update(body, base, SMALL, codec).astype(np.float64)
        assert left is not None and left.tolist() == (wanted - read).astype(np.float32).tolist()
        sent += read - base
    assert np.abs(moved - sent - left).max() <= len(trained) * 2.0**-23


@pytest.mark.parametrize("codec", MOVES)
def test_in_the_long_run_everything_is_sent(codec: str) -> None:
    wanted = sent = np.zeros(TABLE.size)
    alone, left, plan = np.zeros(TABLE.size), None, Plan(codec=codec)
    for seed in range(12):
        trained = drawn(seed)
        body, _, left = update_body(result(trained), ZEROS, plan, TABLE, left)
        wanted = wanted + trained
        sent = sent + decode_update(body, ZEROS, TABLE, codec)
        alone = alone + decode_update(update_body(result(trained), ZEROS, plan, TABLE, None)[0], ZEROS, TABLE, codec)
    assert left is not None and np.abs(wanted - sent - left).max() < 1e-6
    assert np.linalg.norm(wanted - sent) < 0.5 * np.linalg.norm(wanted - alone)


def test_a_plan_that_asks_for_plain_numbers_leaves_nothing_over() -> None:
    body, _, left = update_body(result(drawn(1)), ZEROS, Plan(), TABLE, drawn(2))
    assert left is None
    assert body == drawn(1).tobytes()


@pytest.mark.parametrize("codec", MOVES)
def test_what_was_kept_of_another_model_does_not_count(codec: str) -> None:
    bodies = [
        update_body(result(drawn(1)), ZEROS, Plan(codec=codec), TABLE, unsent)[0]
        for unsent in (np.ones(3, np.float32), None)
    ]
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize("codec", ["float32", "float16", "int8"])
def test_the_body_is_what_the_coordinator_reads(codec: str) -> None:
    body, _, _ = update_body(result(drawn(3)), drawn(4), Plan(codec=codec), TABLE, None)
    assert np.abs(decode_update(body, drawn(4), TABLE, codec) - drawn(3)).max() < 1e-3


@pytest.mark.parametrize("codec", ["float16", *MOVES])
def test_maps_go_along_and_leave_the_weights_as_they_are(codec: str) -> None:
    plan, done = Plan(codec=codec), result(drawn(3))
    maps = {"maps": np.arange(3, dtype=np.float32)}
    body, headers, _ = update_body(replace(done, vectors=maps), drawn(4), plan, TABLE, None)
    assert [(header.name, header.length) for header in headers] == [("maps", 12)]
    assert body == update_body(done, drawn(4), plan, TABLE, None)[0] + np.arange(3, dtype="<f4").tobytes()
