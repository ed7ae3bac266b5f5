"""From counted updates to the next model, with numbers worked out by hand."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auricle.errors import StorageError
from auricle.wire.tensor_specs import TensorSpec
from auricle.wire.tensors import Flat, TensorTable, encode
from auricle_cloud.rounds.read_cohort import cohort_of
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.rows import UpdateRow
from auricle_learning.aggregation.next_model import DIVERGED, NextModel
from auricle_learning.aggregation.next_model import next_model as follow
from auricle_learning.aggregation.server_optimizer import OptimizerSettings, OptimizerState
from auricle_learning.methods import get_rule

SHAPES = {"conv": (2,), "head.weight": (2, 1), "head.bias": (2,)}
TABLE = TensorTable([TensorSpec(name, shape, name.split(".")[0], 0.1) for name, shape in SHAPES.items()])
START = np.zeros(6, np.float32)
NONE = OptimizerSettings(kind="none")
WILD = OptimizerSettings(kind="momentum", lr=1e38, beta1=0.5)
MOMENTUM = OptimizerSettings(kind="momentum", lr=0.5, beta1=0.5)


def flat(*values: float) -> Flat:
    return np.array(values, np.float32)


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path)


def row(blobs: Blobs, device: str, weights: Flat, samples: int = 1, codec: str = "float32", **more: Any) -> UpdateRow:
    known = {"task": "t", "round": 1, "device": device, "counted_in": 1, "staleness": 0, "attempt": 1, "loss": 1.0}
    told = {"steps": 1, "seconds": 1.0, "personal_accuracy": None, "plugin_accuracy": None, "held_out": 0}
    body = blobs.put(encode(weights, codec))
    return UpdateRow(**{**known, **told, "received": 1.0, "body": body, "codec": codec, "samples": samples, **more})


def same(value: float) -> Flat:
    return np.full(6, value, np.float32)


def next_model(start: Flat, counted: list[UpdateRow], blobs: Blobs, *how: Any) -> NextModel:
    """From rows and files to the next model of a synchronous round; `how`: rule, optimizer and its state."""
    return follow(cohort_of(TABLE, start, counted, blobs), *how, *[None][: 3 - len(how)])


def test_an_average_by_samples(blobs: Blobs) -> None:
    counted = [
        row(blobs, "dev-a", flat(1, 2, 3, 4, 5, 6), samples=1),
        row(blobs, "dev-b", flat(5, 6, 7, 8, 9, 10), samples=3),
    ]

    made = next_model(START, counted, blobs, get_rule("fedavg"), NONE)

    assert made.weights.tolist() == [4, 5, 6, 7, 8, 9]
    assert made.weights.dtype == np.float32
    assert made.optimizer is None
    assert made.aggregate.layers == ("conv", "head")


def test_half_precision_updates_are_read_as_such(blobs: Blobs) -> None:
    counted = [row(blobs, "dev-a", same(1), codec="float16"), row(blobs, "dev-b", same(2))]
    assert next_model(START, counted, blobs, get_rule("fedavg"), NONE).weights.tolist() == [1.5] * 6


def test_the_servers_optimizer_follows_the_average_and_remembers(blobs: Blobs) -> None:
    counted = [row(blobs, "dev-a", same(4))]
    first = next_model(START, counted, blobs, get_rule("fedavg"), MOMENTUM)
    stored = OptimizerState.from_bytes(first.optimizer.to_bytes(), TABLE.size)
    second = next_model(first.weights, counted, blobs, get_rule("fedavg"), MOMENTUM, stored)
    # m1 = 4, w1 = 0 + 0.5 * 4 = 2;  m2 = 0.5 * 4 + (4 - 2) = 4, w2 = 2 + 0.5 * 4 = 4.
    assert first.weights.tolist() == [2.0] * 6
    assert second.weights.tolist() == [4.0] * 6
    assert second.optimizer.step == 2


def test_the_order_of_arrival_does_not_change_a_byte(blobs: Blobs) -> None:
    rng = np.random.default_rng(0)
    counted = [row(blobs, f"dev-{i:02}", rng.normal(size=6).astype(np.float32), samples=i + 1) for i in range(12)]
    shuffled = random.Random(0).sample(counted, len(counted))
    made = [next_model(START, rows, blobs, get_rule("lpa+fedvsa"), MOMENTUM) for rows in (counted, shuffled)]
    assert encode(made[0].weights) == encode(made[1].weights)
    assert made[0].aggregate.explain() == made[1].aggregate.explain()


@pytest.mark.parametrize(
    ("rule", "wild", "update", "loss"),
    [("fedvsa", MOMENTUM, same(9), None), ("fedavg", WILD, flat(1e6, 1, 1, 1, 1, 1), 1.0)],
    ids=["nobody usable", "leaves the numbers"],
)
def test_a_step_that_cannot_be_keeps_model_and_state(
    blobs: Blobs, rule: str, wild: OptimizerSettings, update: Flat, loss: float | None
) -> None:
    state, start = OptimizerState(np.full(6, 1e6), np.zeros(6), 3), flat(1, 2, 3, 4, 5, 6)
    made = next_model(start, [row(blobs, "dev-a", update, loss=loss)], blobs, get_rule(rule), wild, state)
    assert made.weights.tolist() == start.tolist()
    assert made.optimizer is state
    assert made.aggregate.flag is not None
    assert (made.aggregate.flag == DIVERGED) == (rule == "fedavg")


def test_a_missing_or_damaged_update_is_named(blobs: Blobs) -> None:
    counted = [row(blobs, "dev-a", same(1)), row(blobs, "dev-b", same(2))]
    blobs.path(counted[1].body).write_bytes(b"\0" * 24)
    with pytest.raises(StorageError, match=counted[1].body[:12]):
        next_model(START, counted, blobs, get_rule("lpa"), NONE)


# -- asynchronous rounds


def test_a_stale_update_moves_the_model_by_its_weighted_difference(blobs: Blobs) -> None:
    bases = {1: same(1), 4: same(2)}
    start = flat(2, 3, 4, 5, 6, 7)
    counted = [
        row(blobs, "dev-a", same(5), round=1, staleness=3),
        row(blobs, "dev-b", same(3), round=4, staleness=0, samples=3),
    ]

    cohort = cohort_of(TABLE, start, counted, blobs, bases.__getitem__)
    made = follow(cohort, get_rule("fedavg"), NONE, None)

    # dev-a: (5 - 1) / sqrt(1 + 3) = 2 on top of the model; dev-b: (3 - 2) / sqrt(1 + 0) = 1; (2 + 3 * 1) / 4 = 1.25.
    assert cohort.ids == ("dev-a", "dev-b")
    assert np.asarray(cohort.weights).tolist() == [(start + 2).tolist(), (start + 1).tolist()]
    assert made.weights.tolist() == (start + 1.25).tolist()
    assert made.weights.dtype == np.float32


def test_a_fresh_update_is_the_same_in_either_mode(blobs: Blobs) -> None:
    start = flat(0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    counted = [row(blobs, "dev-a", flat(0.7, 0.1, 0.9, 0.3, 0.2, 0.4))]
    together = cohort_of(TABLE, start, counted, blobs)
    alone = cohort_of(TABLE, start, counted, blobs, lambda _: start)
    assert np.asarray(alone.weights).tolist() == np.asarray(together.weights).tolist()


def test_a_device_may_be_in_a_buffer_twice(blobs: Blobs) -> None:
    counted = [row(blobs, "dev-a", same(2), round=1, staleness=0), row(blobs, "dev-a", same(4), round=2, staleness=0)]
    cohort = cohort_of(TABLE, START, counted, blobs, lambda _: START)
    assert cohort.ids == ("dev-a@1", "dev-a@2")
    assert follow(cohort, get_rule("fedavg"), NONE, None).weights.tolist() == [3.0] * 6


def test_a_base_that_is_gone_is_named(blobs: Blobs) -> None:
    counted = [row(blobs, "dev-a", same(2))]

    def gone(number: int) -> Flat:
        raise StorageError(f"There is no round {number} of t.")

    with pytest.raises(StorageError, match="There is no round 1"):
        cohort_of(TABLE, START, counted, blobs, gone)
