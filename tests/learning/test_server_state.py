"""What is kept with a model: an optimizer's state, a rule's, or both, and the bytes that lie in databases already."""

from __future__ import annotations

import struct

import msgspec
import numpy as np
import pytest

from auricle.errors import DataError
from auricle_learning.aggregation.extras import RuleState
from auricle_learning.aggregation.server_optimizer import OptimizerState
from auricle_learning.aggregation.server_state import MAGIC, ServerState

OPTIMIZER = struct.pack("<q4d", 3, 0.5, -1.0, 0.25, 4.0)
"""Of a model of two values: three steps, m and v."""
RULE = {"rule": "fedopt", "step": 7, "arrays": {"m": struct.pack("<2d", 1.5, -2.0), "v": struct.pack("<2d", 0, 3e300)}}


def written(**changes: object) -> bytes:
    """A rule's state as a coordinator has written it."""
    return MAGIC + msgspec.msgpack.encode({**RULE, **changes})


def test_bytes_that_lie_in_a_database_are_read_for_what_they_are() -> None:
    nothing, optimizer = ServerState.from_bytes(None, 2), ServerState.from_bytes(OPTIMIZER, 2)
    rule, both = ServerState.from_bytes(written(), 2), ServerState.from_bytes(written(optimizer=OPTIMIZER), 2)

    assert nothing.optimizer is nothing.rule is optimizer.rule is rule.optimizer is None
    for read in (optimizer.optimizer, both.optimizer):
        assert read is not None
        assert (read.step, read.m.tolist(), read.v.tolist()) == (3, [0.5, -1.0], [0.25, 4.0])
    for state in (rule.rule, both.rule):
        assert state is not None
        assert (state.rule, state.step) == ("fedopt", 7)
        assert {name: values.tolist() for name, values in state.arrays.items()} == {"m": [1.5, -2.0], "v": [0.0, 3e300]}


def test_a_state_is_read_as_it_was_written() -> None:
    optimizer = OptimizerState(np.array([0.5, -1.0]), np.array([0.25, 4.0]), 3)
    rule = RuleState("acmu", {"c": np.array([1.0, 2.0]), "table": np.ones((3, 2), np.float32)}, 7)

    assert ServerState(optimizer).to_bytes() == OPTIMIZER
    assert ServerState().to_bytes() is None
    for state in (ServerState(optimizer), ServerState(rule=rule), ServerState(optimizer, rule)):
        saved = state.to_bytes()
        assert ServerState.from_bytes(saved, 2).to_bytes() == saved
    read = ServerState.from_bytes(ServerState(optimizer, rule).to_bytes(), 2)
    assert read.rule is not None
    assert read.rule.arrays["table"].dtype == np.float32


def test_another_rules_state_is_not_taken() -> None:
    state = ServerState.from_bytes(written(), 2)

    assert state.of_rule("fedopt") is state.rule
    assert state.of_rule("scaffold") is ServerState().of_rule("fedopt") is None


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("saved", [OPTIMIZER, written(), written(optimizer=OPTIMIZER)])
def test_the_state_of_a_model_of_another_size_is_refused(saved: bytes, size: int) -> None:
    with pytest.raises(DataError, match=f"of {size} values"):
        ServerState.from_bytes(saved, size)


@pytest.mark.parametrize(
    "saved",
    [
        b"",
        MAGIC,
        written()[:-3],
        written(step=-1),
        written(arrays={"m": struct.pack("<2d", 1.0, float("nan"))}),
        written(optimizer=OPTIMIZER[:-1]),
    ],
)
def test_a_damaged_state_is_refused(saved: bytes) -> None:
    with pytest.raises(DataError, match="state"):
        ServerState.from_bytes(saved, 2)
