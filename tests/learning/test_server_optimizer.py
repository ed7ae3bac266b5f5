"""FedOPT on numbers worked out by hand, its settings and its checkpoint."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from auricle.errors import DataError, SettingsError
from auricle_learning.aggregation.server_optimizer import (
    KINDS,
    TORCH_ADAM,
    OptimizerSettings,
    OptimizerState,
    first_state,
    step,
)


def follow(settings: OptimizerSettings, *averages: float, begin: float = 0.0) -> tuple[OptimizerState, float]:
    """Run one round for each average on a model of one value."""
    state, w = first_state(1, settings), np.array([begin])
    for average in averages:
        state, w = step(state, w, np.array([average]), settings)
    return state, w.item()


def test_none_is_the_average_bit_by_bit() -> None:
    average = np.array([0.1, -3.0], np.float32)
    settings = OptimizerSettings()

    state, w = step(first_state(2, settings), np.ones(2, np.float32), average, settings)

    assert w.tobytes() == average.tobytes()
    assert w is not average
    assert state.step == 1


def test_momentum_remembers_the_last_rounds() -> None:
    settings = OptimizerSettings(kind="momentum", beta1=0.5, lr=1.0)

    state, w = follow(settings, 1.0, 2.0)  # Δ 1, m 1, w 1; Δ 1, m 1.5, w 2.5

    assert (state.m.item(), w, state.step) == (1.5, 2.5, 2)
    assert follow(OptimizerSettings(kind="momentum", beta1=0.0), 1.0, 4.0)[1] == 4.0, "fedavg"


ADAM = {"kind": "adam", "beta1": 0.5, "beta2": 0.5, "tau": 1.0, "lr": 6.0}
YOGI = {"kind": "yogi", "beta1": 0.5, "beta2": 0.5, "tau": 1.0, "lr": 1.0}


@pytest.mark.parametrize(
    ("options", "delta", "v", "moved"),
    [
        # m √3, v 1 + 3, w 3 √3 / (2 + 1)
        ({"kind": "adagrad", "tau": 1.0, "lr": 3.0}, math.sqrt(3), 4.0, math.sqrt(3)),
        # Algorithm 2 without bias correction: m √7/2, v (1 + 7)/2, w 6 (√7/2) / (2 + 1)
        (ADAM, math.sqrt(7), 4.0, math.sqrt(7)),
        # Yogi moves v towards the square additively.
        ({**YOGI, "v0": 1.0}, math.sqrt(6), 4.0, math.sqrt(6) / 2 / 3),
        ({**YOGI, "v0": 4.0}, 1.0, 3.5, 1 / 2 / (math.sqrt(3.5) + 1)),
        ({**YOGI, "v0": 4.0}, 2.0, 4.0, 1 / 3),
    ],
)
def test_the_first_step_by_hand(options: dict[str, Any], delta: float, v: float, moved: float) -> None:
    state, w = follow(OptimizerSettings(**options), delta)

    assert (state.v.item(), w) == (pytest.approx(v, rel=1e-15), pytest.approx(moved, rel=1e-15))


def test_the_torch_preset_corrects_the_bias() -> None:
    state, w = follow(TORCH_ADAM, 0.5, 0.5)

    first = 1e-3 * 0.5 / (0.5 + 1e-8)  # m̂ = Δ, √v̂ = |Δ|
    delta = 0.5 - first
    m = (0.9 * 0.1 * 0.5 + 0.1 * delta) / (1 - 0.9**2)
    v = (0.999 * 0.001 * 0.25 + 0.001 * delta**2) / (1 - 0.999**2)
    assert w == pytest.approx(first + 1e-3 * m / (math.sqrt(v) + 1e-8), rel=1e-12)
    assert state.step == 2


def test_a_value_that_never_moves_stays_with_v0_zero_and_no_bias_is_corrected_in_a_sum() -> None:
    for kind in ("adagrad", "adam", "yogi"):
        settings = OptimizerSettings(kind=kind, v0=0.0, bias_correction=True)
        assert follow(settings, 3.0, 3.0, begin=3.0)[1] == 3.0
    plain, corrected = (OptimizerSettings(kind="adagrad", bias_correction=on) for on in (False, True))
    assert follow(plain, 1.0, 2.0)[1] == follow(corrected, 1.0, 2.0)[1]


def test_the_defaults_are_those_of_the_paper() -> None:
    adam, adagrad = OptimizerSettings(kind="adam"), OptimizerSettings(kind="adagrad")

    assert (adam.first_decay, adam.beta2, adam.tau, adam.rate) == (0.9, 0.99, 1e-3, 1e-2)
    assert (adam.first_v, adagrad.first_decay) == (1e-3**2, 0.0)
    assert not adam.bias_correction
    assert OptimizerSettings(kind="momentum").rate == 1.0
    assert first_state(2, adam).v.tolist() == [1e-3**2] * 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kind": "adaam"}, 'mean "adam"'),
        ({"lr": 0.0}, "lr is 0.0"),
        ({"lr": math.inf}, "lr is inf"),
        ({"beta1": 1.0}, "beta1 is 1.0"),
        ({"beta2": -0.1}, "beta2 is -0.1"),
        ({"tau": 0.0}, "tau is 0.0"),
        ({"tau": "x"}, "tau is 'x'"),
        ({"v0": -1.0}, "v0 is -1.0"),
    ],
)
def test_a_wrong_constant_is_named(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        OptimizerSettings(**{"kind": "adam", **options})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_model_keeps_its_dtype_and_nothing_is_written_into(kind: str, dtype: Any) -> None:
    settings = OptimizerSettings(kind=kind)
    state, w, average = first_state(3, settings), np.ones(3, dtype), np.full(3, 2.0, dtype)

    after, moved = step(state, w, average, settings)

    assert moved.dtype == dtype
    assert after.m.dtype == after.v.dtype == np.float64
    assert w.tolist() == [1.0] * 3
    assert state.m.tolist() == [0.0] * 3
    assert (moved > 1.0).all()


@given(
    m=hnp.arrays(np.float64, 4, elements=st.floats(-1e300, 1e300)),
    v=hnp.arrays(np.float64, 4, elements=st.floats(0, 1e300)),
    count=st.integers(0, 2**62),
)
def test_a_checkpoint_comes_back_bit_by_bit(m: Any, v: Any, count: int) -> None:
    data = OptimizerState(m=m, v=v, step=count).to_bytes()

    back = OptimizerState.from_bytes(data, 4)

    assert len(data) == 8 + 16 * 4
    assert back.to_bytes() == data
    assert (back.m.tobytes(), back.v.tobytes(), back.step) == (m.tobytes(), v.tobytes(), count)


def test_a_checkpoint_that_goes_on_gives_the_bytes_of_an_uninterrupted_run() -> None:
    settings = OptimizerSettings(kind="yogi")
    state, w = follow(settings, 1.0, -2.0)
    restored = OptimizerState.from_bytes(state.to_bytes(), 1)

    _, straight = step(state, np.array([w]), np.array([3.0]), settings)
    _, resumed = step(restored, np.array([w]), np.array([3.0]), settings)

    assert straight.tobytes() == resumed.tobytes()


def test_a_damaged_checkpoint_or_one_of_another_model_is_refused() -> None:
    with pytest.raises(DataError, match="2 values"):
        step(first_state(2, OptimizerSettings()), np.ones(3), np.ones(3), OptimizerSettings(kind="adam"))
    data = first_state(2, OptimizerSettings()).to_bytes()
    nan = OptimizerState(np.array([math.nan, 0.0]), np.zeros(2), 0).to_bytes()
    negative = OptimizerState(np.zeros(2), np.array([-1.0, 0.0]), 0).to_bytes()

    for cut in (data[:-1], data + b"\0", b""):
        with pytest.raises(DataError, match="needs 40"):
            OptimizerState.from_bytes(cut, 2)
    for damaged in (nan, negative):
        with pytest.raises(DataError, match="damaged"):
            OptimizerState.from_bytes(damaged, 2)
