"""From counted updates to the next model, with numbers worked out by hand."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auricle.errors import StorageError
from auricle.tensors import Flat, TensorSpec, TensorTable, encode
from auricle_cloud.aggregation import DIVERGED, next_model
from auricle_cloud.blobs import Blobs
from auricle_cloud.rules import get_rule
from auricle_cloud.server_optimizer import OptimizerSettings, OptimizerState

TABLE = TensorTable(
    [
        TensorSpec("conv", (2,), "conv", 0.1),
        TensorSpec("head.weight", (2, 1), "head", 0.1),
        TensorSpec("head.bias", (2,), "head", 0.1),
    ]
)
START = np.zeros(6, np.float32)
NONE = OptimizerSettings(kind="none")
MOMENTUM = OptimizerSettings(kind="momentum", lr=0.5, beta1=0.5)


def flat(*values: float) -> Flat:
    return np.array(values, np.float32)


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path)


def row(
    blobs: Blobs, device: str, weights: Flat, samples: int = 1, codec: str = "float32", **more: Any
) -> dict[str, Any]:
    body = blobs.put(encode(weights, codec))
    return {"device": device, "body": body, "codec": codec, "samples": samples, "loss": 1.0, **more}


def test_an_average_by_samples(blobs: Blobs) -> None:
    counted = [
        row(blobs, "dev-a", flat(1, 2, 3, 4, 5, 6), samples=1),
        row(blobs, "dev-b", flat(5, 6, 7, 8, 9, 10), samples=3),
    ]

    made = next_model(TABLE, START, counted, blobs, get_rule("fedavg"), NONE, None)

    assert made.weights.tolist() == [4, 5, 6, 7, 8, 9]
    assert made.weights.dtype == np.float32
    assert made.optimizer is None
    assert made.aggregate.layers == ("conv", "head")


def test_half_precision_updates_are_read_as_such(blobs: Blobs) -> None:
    counted = [
        row(blobs, "dev-a", flat(1, 1, 1, 1, 1, 1), codec="float16"),
        row(blobs, "dev-b", flat(2, 2, 2, 2, 2, 2)),
    ]

    made = next_model(TABLE, START, counted, blobs, get_rule("fedavg"), NONE, None)

    assert made.weights.tolist() == [1.5] * 6


def test_the_servers_optimiser_follows_the_average_and_remembers(blobs: Blobs) -> None:
    counted = [row(blobs, "dev-a", flat(4, 4, 4, 4, 4, 4))]

    first = next_model(TABLE, START, counted, blobs, get_rule("fedavg"), MOMENTUM, None)
    assert first.optimizer is not None
    stored = OptimizerState.from_bytes(first.optimizer.to_bytes(), TABLE.size)
    second = next_model(TABLE, first.weights, counted, blobs, get_rule("fedavg"), MOMENTUM, stored)

    # m1 = 4, w1 = 0 + 0.5 * 4 = 2;  m2 = 0.5 * 4 + (4 - 2) = 4, w2 = 2 + 0.5 * 4 = 4.
    assert first.weights.tolist() == [2.0] * 6
    assert second.weights.tolist() == [4.0] * 6
    assert second.optimizer is not None
    assert second.optimizer.step == 2


def test_the_order_of_arrival_does_not_change_a_byte(blobs: Blobs) -> None:
    rng = np.random.default_rng(0)
    counted = [row(blobs, f"dev-{i:02}", rng.normal(size=6).astype(np.float32), samples=i + 1) for i in range(12)]
    shuffled = random.Random(0).sample(counted, len(counted))

    made = [
        next_model(TABLE, START, rows, blobs, get_rule("lpa+fedvsa"), MOMENTUM, None) for rows in (counted, shuffled)
    ]

    assert encode(made[0].weights) == encode(made[1].weights)
    assert made[0].aggregate.explain() == made[1].aggregate.explain()


def test_nobody_usable_keeps_model_and_state(blobs: Blobs) -> None:
    state = OptimizerState(np.full(6, 2.0), np.zeros(6), 3)
    start = flat(1, 2, 3, 4, 5, 6)
    counted = [row(blobs, "dev-a", flat(9, 9, 9, 9, 9, 9), loss=None)]

    made = next_model(TABLE, start, counted, blobs, get_rule("fedvsa"), MOMENTUM, state)

    assert made.weights.tolist() == start.tolist()
    assert made.optimizer is state
    assert made.aggregate.flag is not None


def test_a_step_that_leaves_the_numbers_keeps_model_and_state(blobs: Blobs) -> None:
    wild = OptimizerSettings(kind="momentum", lr=1e38, beta1=0.5)
    state = OptimizerState(np.full(6, 1e6), np.zeros(6), 1)
    counted = [row(blobs, "dev-a", flat(1e6, 1, 1, 1, 1, 1))]

    made = next_model(TABLE, START, counted, blobs, get_rule("fedavg"), wild, state)

    assert made.weights.tolist() == START.tolist()
    assert made.optimizer is state
    assert made.aggregate.flag == DIVERGED
    encode(made.weights)


def test_a_missing_or_damaged_update_is_named(blobs: Blobs) -> None:
    counted = [row(blobs, "dev-a", flat(1, 1, 1, 1, 1, 1)), row(blobs, "dev-b", flat(2, 2, 2, 2, 2, 2))]
    blobs.path(counted[1]["body"]).write_bytes(b"\0" * 24)

    with pytest.raises(StorageError, match=counted[1]["body"][:12]):
        next_model(TABLE, START, counted, blobs, get_rule("lpa"), NONE, None)
