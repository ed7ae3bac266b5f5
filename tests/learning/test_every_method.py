"""What holds for every method, and the options that change what its rule computes: one suite over `METHODS`.

A method that is new needs no line here unless it differs: `whole_round` gives everything that one may ask for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.learning.rule_cases import SIZE, Place, bowl_around, whole_round

from auricle_learning.aggregation.cohort import NO_UPDATE, Aggregate, Cohort
from auricle_learning.aggregation.compute.matrix import Opener
from auricle_learning.aggregation.extras import RuleState
from auricle_learning.aggregation.matrix_parts import MatrixParts
from auricle_learning.aggregation.server_state import ServerState
from auricle_learning.methods import METHODS, get_method
from auricle_learning.methods.method import Method, Step

STEPPING = {"fedopt", "fednova", "feddyn", "feddc", "zeno", "fedlaw", "fedrpo"}
"""Whose step is another than to the clients' model where they agree; where nobody moved, they stay as well."""
STAYING = {"local", "fedkad"}
"""Whose model is w^t, whatever comes."""
PARTLY = {"fedrep"}
"""Whose clients keep a part of the model, which stays at w^t."""
VARIANTS: dict[str, tuple[dict[str, object], ...]] = {
    "acmu": ({"pkcf": True, "pkcf_features": 3},),
    "dnc": ({"n_iters": 3, "b": 5},),
    "feddc": ({"mode": "paper"},),
    "fedmlac": ({"lpa": False},),
    "fednova": ({"momentum": 0.5}, {"mu": 0.1}),
    "fedopt": ({"variant": "yogi"}, {"variant": "adagrad"}, {"variant": "torch-adam"}),
    "mupfl": ({"start": "cluster"}, {"pkcf": False}),
    "trimmed-mean": ({"cut": 2},),
}
"""Options that change what a rule computes, beside FedVSA's weights in the rules that leave the weights open."""

CASES: list[tuple[str, dict[str, object]]] = [
    (name, options)
    for name, method in METHODS.items()
    for options in (
        {},
        *VARIANTS.get(name, ()),
        *([{"weighting": "fedvsa"}] if {"weighting", "clip"} <= set(method.rule.settings) else []),
    )
]
EVERY = pytest.mark.parametrize(
    ("name", "options"), CASES, ids=["-".join([n, *(f"{k}={v}" for k, v in o.items())]) for n, o in CASES]
)
DRAWN = pytest.mark.parametrize("name", METHODS)
FEW = settings(max_examples=10)


def made(name: str, options: dict[str, object], cohort: Cohort, state: RuleState | None = None) -> Step:
    """A round of the method at the coordinator."""
    return get_method(name, **options).aggregate(cohort, state)


def same(ours: Aggregate, theirs: Aggregate) -> None:
    """To the last bit, in all that an operator is told."""
    assert ours.weights.tobytes() == theirs.weights.tobytes()
    assert ours.share.tobytes() == theirs.share.tobytes()
    assert ours.kept.tobytes() == theirs.kept.tobytes()
    assert ours.explain() == theirs.explain()
    assert saved(ours.state) == saved(theirs.state)


def saved(state: RuleState | None) -> bytes | None:
    return ServerState(rule=state).to_bytes()


@st.composite
def drawn(draw: st.DrawFn, least: int = 1) -> dict[str, Any]:
    """Models, sample counts and losses of some clients."""
    count = draw(st.integers(least, 9))
    number = st.floats(-100, 100, width=32, allow_subnormal=False)
    loss = st.one_of(st.floats(0, 8), st.sampled_from([math.inf, 0.5, 0.5]))
    return {
        "count": count,
        "weights": draw(hnp.arrays(np.float32, (count, SIZE), elements=number)),
        "samples": draw(st.lists(st.integers(0, 500), min_size=count, max_size=count)),
        "losses": draw(st.lists(loss, min_size=count, max_size=count)),
    }


@DRAWN
@FEW
@given(values=drawn(), data=st.data())
def test_the_order_of_arrival_changes_no_byte(name: str, values: dict[str, Any], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(values["count"])))

    ours, shuffled = (
        made(name, {}, whole_round(**values, method=name, order=each)).aggregate for each in (None, order)
    )

    same(ours, shuffled)


@EVERY
def test_the_order_of_arrival_changes_no_byte_with_any_options(name: str, options: dict[str, object]) -> None:
    orders = (None, [3, 0, 6, 1, 5, 2, 4])

    ours, shuffled = (made(name, options, whole_round(method=name, order=each)).aggregate for each in orders)

    same(ours, shuffled)


@DRAWN
@FEW
@given(values=drawn(least=2), data=st.data())
def test_a_client_with_nan_is_as_if_it_had_not_come(name: str, values: dict[str, Any], data: st.DataObject) -> None:
    victim = data.draw(st.integers(0, values["count"] - 1))
    others = [k for k in range(values["count"]) if k != victim]
    without = made(name, {}, whole_round(**values, method=name, order=others)).aggregate
    values["weights"][victim, data.draw(st.integers(0, SIZE - 1))] = data.draw(st.sampled_from([np.nan, np.inf]))

    result = made(name, {}, whole_round(**values, method=name)).aggregate

    assert result.dropped == (f"c{victim:02}",)
    assert result.ids == without.ids
    same(result, without)


@DRAWN
@FEW
@given(values=drawn())
def test_clients_who_agree_are_the_next_model(name: str, values: dict[str, Any]) -> None:
    """One alone agrees with itself."""
    agree(name, {}, **{**values, "weights": np.repeat(values["weights"][:1], values["count"], axis=0)})


@EVERY
@pytest.mark.parametrize("count", [1, 7])
def test_clients_who_agree_are_the_next_model_with_any_options(
    name: str, options: dict[str, object], count: int
) -> None:
    agree(name, options, count=count, weights=np.repeat(whole_round(1).weights, count, axis=0))


def agree(name: str, options: dict[str, object], **values: Any) -> None:
    """A round of clients with the same model is that model, or what the tables above say."""
    cohort = whole_round(**values, method=name)
    result, model = made(name, options, cohort).aggregate, cohort.weights[0]
    if name in STEPPING:
        assert np.isfinite(result.weights).all()
        still_there(name, options, **values)
    elif name in STAYING:
        assert result.weights.tolist() == cohort.start.tolist()
    elif name in PARTLY:
        taken = result.weights == model
        assert taken.any() and (taken | (result.weights == cohort.start)).all()
    elif result.clusters is not None:  # which add steps to w^t
        np.testing.assert_allclose(result.weights, model, rtol=1e-6, atol=1e-12)
    else:
        assert result.weights.tolist() == model.tolist()


def still_there(name: str, options: dict[str, object], **values: Any) -> None:
    """Where no client moved, and the coordinator's clips are learnt as well as they can be, the model stays."""
    start = whole_round(values["count"]).start
    weights = np.repeat(start[None], values["count"], axis=0)
    cohort = whole_round(**{**values, "weights": weights}, extras={"objectives": (bowl_around(start),)})
    result = made(name, options, cohort).aggregate
    np.testing.assert_allclose(result.weights, start, rtol=1e-4)


@EVERY
def test_a_cohort_that_composes_gives_the_same_model_from_three_places(name: str, options: dict[str, object]) -> None:
    whole = whole_round(method=name)
    if not get_method(name, **options).rule.composes:
        return
    rows = [np.array(mine) for mine in ([0, 3], [1, 2, 6], [4, 5])]
    places = [Place(whole.weights[mine]) for mine in rows]
    nowhere = np.broadcast_to(np.float32(np.nan), whole.weights.shape)
    apart = replace(whole, weights=nowhere, opener=lambda _: MatrixParts(places, rows))

    ours, one = (made(name, options, cohort) for cohort in (apart, whole))

    np.testing.assert_allclose(ours.aggregate.weights, one.aggregate.weights, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours.aggregate.share, one.aggregate.share, rtol=1e-9)
    assert ours.aggregate.kept.tolist() == one.aggregate.kept.tolist()
    assert ours.aggregate.flag == one.aggregate.flag


@EVERY
def test_nobody_left_keeps_model_and_state(name: str, options: dict[str, object]) -> None:
    kept = RuleState(name, {"m": np.ones(SIZE)}, 4)
    empty = whole_round(0, method=name)

    step = made(name, options, empty, kept)

    assert step.aggregate.weights.tobytes() == empty.start.tobytes()
    assert step.aggregate.flag == NO_UPDATE
    assert step.state is (kept if made(name, options, whole_round(method=name)).state is not None else None)


@EVERY
def test_where_nobody_has_samples_all_count_alike(name: str, options: dict[str, object]) -> None:
    none, alike = (made(name, options, whole_round(samples=np.full(7, n), method=name)).aggregate for n in (0, 1))

    assert none.weights.tobytes() == alike.weights.tobytes()
    assert np.isfinite(none.share).all()


@EVERY
def test_a_client_without_samples_does_no_harm(name: str, options: dict[str, object]) -> None:
    result = made(name, options, whole_round(samples=[0, 5, 5, 9, 9, 3, 4], method=name)).aggregate

    assert np.isfinite(result.weights).all()
    if get_method(name, **options).rule.weighed_by == "samples" and name in ("fedavg", "lpa", "norm-clip"):
        assert not result.share[0].any()


@EVERY
def test_a_run_goes_on_from_its_saved_state_as_if_it_had_not_stopped(name: str, options: dict[str, object]) -> None:
    method = get_method(name, **options)

    straight, resumed = ([*rounds(method, 4, each)] for each in (lambda state: state, read_again))

    for ours, theirs in zip(straight, resumed, strict=True):
        same(ours.aggregate, theirs.aggregate)
        assert {key: each.tobytes() for key, each in ours.send.items()} == {
            key: each.tobytes() for key, each in theirs.send.items()
        }
    last = straight[-1].state
    assert last is None or last.step == 4


def rounds(method: Method, count: int, between: Callable[[RuleState | None], RuleState | None]) -> list[Step]:
    """Rounds of seven clients, each from the model of the one before; `between` is what becomes of the state."""
    model, state, steps = whole_round().start, None, []
    for number in range(1, count + 1):
        rng = np.random.default_rng(number)
        weights = (model + rng.standard_normal((7, SIZE)) / 4).astype(np.float32)
        cohort = whole_round(start=model, weights=weights, method=method.name, extras={"round": number})
        steps.append(method.aggregate(cohort, state))
        model, state = steps[-1].aggregate.weights, between(steps[-1].state)
    return steps


def read_again(state: RuleState | None) -> RuleState | None:
    """A state as a coordinator finds it that starts again."""
    return ServerState.from_bytes(ServerState(rule=state).to_bytes(), SIZE).rule


@EVERY
def test_float32_is_float64_within_a_ten_thousandth(name: str, options: dict[str, object]) -> None:
    narrow, wide = (made(name, options, whole_round(dtype=d, method=name)).aggregate for d in (np.float32, np.float64))

    assert narrow.weights.dtype == np.float32
    assert wide.weights.dtype == np.float64
    np.testing.assert_allclose(narrow.weights, wide.weights, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(narrow.share, wide.share, rtol=1e-4, atol=1e-6)
    assert narrow.kept.tolist() == wide.kept.tolist()


@EVERY
@pytest.mark.parametrize("memory", [1 << 30, 1 << 16], ids=["resident", "piece by piece"])
def test_pytorch_computes_the_same(name: str, options: dict[str, object], memory: int) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from auricle_learning.aggregation.compute.matrix_torch import TorchMatrix

    same_as_numpy(name, options, lambda weights: TorchMatrix(weights, device="cpu", memory=memory))


@EVERY
def test_a_gpu_computes_the_same(name: str, options: dict[str, object]) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU that PyTorch can use")
    from auricle_learning.aggregation.compute.accelerator import choose

    same_as_numpy(name, options, choose("cuda", memory=1 << 24).opener)
    same_as_numpy(name, options, choose("cuda").opener)


def same_as_numpy(name: str, options: dict[str, object], opener: Opener) -> None:
    """On 80 clients with 1,500 values, one of them far away and two alike."""
    weights = whole_round(80, size=1500).weights.copy()
    weights[5] *= 1e4
    weights[11] = weights[12]

    ours, theirs = (
        made(name, options, whole_round(80, size=1500, method=name, weights=weights, **more)).aggregate
        for more in ({}, {"opener": opener})
    )

    np.testing.assert_allclose(theirs.weights, ours.weights, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(theirs.share, ours.share, rtol=1e-6, atol=1e-12)
    assert theirs.kept.tolist() == ours.kept.tolist()
    for mine, other in ((ours.score, theirs.score), (ours.deviation, theirs.deviation)):
        assert (mine is None) == (other is None)
        if mine is not None:
            np.testing.assert_allclose(other, mine, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", METHODS)
def test_the_registered_defaults_are_accepted(name: str) -> None:
    told = made(name, METHODS[name].rule.settings, whole_round(method=name)).aggregate

    same(told, made(name, {}, whole_round(method=name)).aggregate)


def test_what_differs_is_there() -> None:
    """Names in the tables above that are no methods say nothing."""
    tables: Sequence[set[str]] = (STEPPING, STAYING, PARTLY, set(VARIANTS))

    assert {name for table in tables for name in table} <= set(METHODS)
