"""What holds for every cohort, whatever the numbers; what holds for every method is in `test_every_method`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.learning.rule_cases import PLAIN

from auricle_learning.aggregation.cohort import Cohort, Layer
from auricle_learning.methods import get_rule

LAYERS = (Layer("front", (slice(0, 2), slice(3, 4))), Layer("head", (slice(2, 3), slice(4, 6))))
START = np.arange(6, dtype=np.float32)


def every_rule_but(*exceptions: str) -> pytest.MarkDecorator:
    names = [name for name in PLAIN if name not in exceptions]
    return pytest.mark.parametrize("rule", [get_rule(name) for name in names], ids=names)


PRUNING_RULES = pytest.mark.parametrize("name", ["lpa", "lpa+fedvsa"])
FEW = settings(max_examples=40)

Parts = dict[str, Any]


@st.composite
def parts(draw: st.DrawFn, least: int = 1) -> Parts:
    count = draw(st.integers(least, 12))
    number = st.floats(-100, 100, width=32, allow_subnormal=False)
    loss = st.one_of(st.floats(0, 8), st.sampled_from([math.inf, 0.5, 0.5]))
    return {
        "ids": [f"client-{k:02d}" for k in range(count)],
        "weights": draw(hnp.arrays(np.float32, (count, 6), elements=number)),
        "samples": draw(st.lists(st.integers(0, 500), min_size=count, max_size=count)),
        "losses": draw(st.lists(loss, min_size=count, max_size=count)),
    }


def build(values: Parts, start: Any = START) -> Cohort:
    return Cohort.build(**values, start=start, layers=LAYERS)


def taken(values: Parts, order: list[int]) -> Parts:
    return {
        name: column[order] if isinstance(column, np.ndarray) else [column[k] for k in order]
        for name, column in values.items()
    }


@every_rule_but("norm-clip")  # what it cuts off is w^t's part
@FEW
@given(values=parts())
def test_the_result_lies_between_the_clients_and_shares_sum_to_one(rule: Any, values: Parts) -> None:
    result = rule(build(values))

    assert (result.weights >= values["weights"].min(axis=0) - 1e-11).all()
    assert (result.weights <= values["weights"].max(axis=0) + 1e-11).all()
    assert result.weights.dtype == np.float32
    np.testing.assert_allclose(result.share.sum(axis=0), 1.0, rtol=1e-11)
    assert (result.share >= 0).all()
    assert not result.share[~result.kept].any()


@every_rule_but("geometric-median", "raf")  # its ν is a length
@FEW
@given(values=parts(), power=st.integers(-20, 20))
def test_scaling_every_model_scales_the_result(rule: Any, values: Parts, power: int) -> None:
    factor = np.float32(2.0**power)
    scaled = {**values, "weights": values["weights"] * factor}

    ours, theirs = rule(build(values)), rule(build(scaled, start=START * factor))

    np.testing.assert_allclose(
        theirs.weights, ours.weights * factor, rtol=1e-6, atol=1e-36
    )  # subnormals have few digits


@pytest.mark.parametrize(("name", "plain"), [("lpa", "fedavg"), ("lpa+fedvsa", "fedvsa")])
@FEW
@given(values=parts())
def test_with_nothing_to_prune_it_is_the_mean(name: str, plain: str, values: Parts) -> None:
    cohort = build(values)

    result = get_rule(name, prune_low=0, prune_high=0)(cohort)

    assert result.weights.tobytes() == get_rule(plain)(cohort).weights.tobytes()
    assert result.warnings == ()


@FEW
@given(values=parts())
def test_equal_losses_weigh_equally(values: Parts) -> None:
    values["losses"] = [0.7] * len(values["ids"])
    cohort = build(values)

    result = get_rule("fedvsa")(cohort)

    assert result.weights.tobytes() == get_rule("fedavg", weighting="uniform")(cohort).weights.tobytes()


@PRUNING_RULES
@FEW
@given(values=parts(), low=st.integers(0, 49), high=st.integers(0, 49))
def test_the_sizes_are_those_of_equation_12(name: str, values: Parts, low: int, high: int) -> None:
    result = get_rule(name, prune_low=low / 100, prune_high=high / 100)(build(values))

    count = len(values["ids"])
    assert result.pruned is not None
    assert ((result.pruned == -1).sum(axis=0) == low * count // 100).all()
    assert ((result.pruned == 1).sum(axis=0) == high * count // 100).all()
    assert (result.kept == (result.pruned == 0)).all()
    assert result.kept.any(axis=0).all()


@FEW
@given(values=parts())
def test_lpa_is_the_plain_reading_of_the_paper(values: Parts) -> None:
    result = get_rule("lpa", prune_low=0.2, prune_high=0.3)(build(values))

    expected = plain_lpa(values, low=0.2, high=0.3)
    np.testing.assert_allclose(result.weights, expected, rtol=1e-6, atol=1e-12)


def plain_lpa(values: Parts, *, low: float, high: float) -> Any:
    """Write equations 9 to 13 with lists, one layer after the other."""
    answer = np.zeros(6)
    for columns in ([0, 1, 3], [2, 4, 5]):
        block = values["weights"][:, columns].astype(np.float64)
        distance = np.linalg.norm(block - block.mean(axis=0), axis=1)
        ranked = sorted((float(f"{d:.9e}"), k) for k, d in enumerate(distance))
        count = len(ranked)
        left = [k for _, k in ranked[math.floor(low * count + 1e-9) : count - math.floor(high * count + 1e-9)]]
        sizes = np.array([values["samples"][k] for k in left], np.float64)
        answer[columns] = np.average(block[left], axis=0, weights=sizes if sizes.sum() else None)
    return answer
