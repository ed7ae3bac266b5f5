"""One step of each optimizer in the step graphs, with numbers that can be followed by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, sqrt
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="graphs are built with PyTorch and onnx")

from tests.export.small_graph import run

from auricle.packs.graph_interface import PARTS
from auricle_export.compiler.builder import GraphBuilder
from auricle_export.compiler.optimizers import update

SHAPES = ((2,), (1, 1), (1,))
"""A body of two weights, and a classifier of one weight and a bias."""
SGD = {"rate": 1.0, "momentum": 0.0, "decay": 0.0, "clip": inf}
ADAM = {"rate": 0.5, "beta1": 0.5, "beta2": 0.75, "epsilon": 1.0, "step": 1.0, "decay": 0.0, "l2": 0.0, "clip": inf}


def _parts(name: str, values: Sequence[float]) -> dict[str, Any]:
    """Four numbers as the three parts of a vector."""
    cut = np.array(values[:2]), np.array(values[2:3]).reshape(1, 1), np.array(values[3:])
    return {f"{name}/{part}": value for part, value in zip(PARTS, cut, strict=True)}


def _stepped(
    optimizer: str, terms: Sequence[str], hyper: Mapping[str, float], vectors: Mapping[str, Sequence[float]]
) -> dict[str, list[float]]:
    """The new vectors after one step; `gradient` among the vectors is that of the loss."""
    feeds: dict[str, Any] = {f"model.{name}": value for name, value in hyper.items()}
    for name, values in vectors.items():
        feeds |= _parts({"weights": "model", "gradient": "gradient"}.get(name, f"model.{name}"), values)

    def build(b: GraphBuilder) -> None:
        update(b, "model", optimizer, terms, [f"gradient/{part}" for part in PARTS], SHAPES)

    found = run(build, feeds)
    vectors = dict.fromkeys(name.rsplit("/", 1)[0] for name in found)
    parts = {name: [found[f"{name}/{part}"] for part in PARTS] for name in vectors}
    assert all(tuple(part.shape for part in each) == SHAPES for each in parts.values())
    flat = {name: np.concatenate([part.reshape(-1) for part in each]).tolist() for name, each in parts.items()}
    return {name.removeprefix("new/model").removeprefix(".") or "weights": values for name, values in flat.items()}


def test_sgd_keeps_momentum_and_decays() -> None:
    """m = 1/2 m + g + 1/4 w, w = w - 2 m: the first is 1/2 * 4 + 1 + 1/4 * 8 = 5 and 8 - 10 = -2."""
    hyper = {**SGD, "rate": 2.0, "momentum": 0.5, "decay": 0.25}
    vectors = {"weights": [8, -4, 2, 0], "momentum": [4, 2, 0, -2], "gradient": [1, 0, -3, 0.5]}
    assert _stepped("sgd", (), hyper, vectors) == {"weights": [-2, -4, 7, 1], "momentum": [5, 0, -2.5, -0.5]}


@pytest.mark.parametrize(("clip", "factor"), [(2.5, 0.5), (5.0, 1.0), (6.0, 1.0), (inf, 1.0)])
def test_gradients_are_shortened_to_a_common_norm(clip: float, factor: float) -> None:
    """Their norm over all three parts is 5: sqrt(1 + 4 + 16 + 4); none is made longer."""
    vectors = {"weights": [0, 0, 0, 0], "momentum": [0, 0, 0, 0], "gradient": [1, 2, -4, 2]}
    found = _stepped("sgd", (), {**SGD, "clip": clip}, vectors)
    assert found["weights"] == pytest.approx([-factor, -2 * factor, 4 * factor, -2 * factor], abs=1e-6)


@pytest.mark.parametrize(("rate", "gradient", "moved"), [(1.0, 0.0, 0), (1e13, 1e-13, -1)])
def test_no_gradient_is_divided_by_or_made_longer_or_turned_around(rate: float, gradient: float, moved: float) -> None:
    vectors = {"weights": [0, 2, 3, 4], "momentum": [0, 0, 0, 0], "gradient": [gradient, 0, 0, 0]}
    found = _stepped("sgd", (), {**SGD, "clip": 1.0, "rate": rate}, vectors)
    assert found["weights"] == pytest.approx([moved, 2, 3, 4], abs=1e-6)


def test_drift_pulls_to_the_anchor_and_adds_a_linear_term() -> None:
    """g + mu (w - anchor) + linear: FedProx's pull of a weight above its anchor is down, of one below it up.

    The first: 1 + 1/2 (1 - 3) + 1/4 = 1/4, so 1 becomes 3/4.
    """
    vectors = {"weights": [1, 4, 0, 2], "momentum": [0, 0, 0, 0], "gradient": [1, 0, 0, -1]}
    vectors |= {"anchor": [3, 2, 0, 2], "linear": [0.25, 0, 5, 0]}
    found = _stepped("sgd", ("drift",), {**SGD, "mu": 0.5}, vectors)
    assert found["weights"] == [0.75, 3, -5, 3]


def test_drift_counts_in_the_norm_that_is_clipped() -> None:
    """A gradient of 0 and a pull of 2 (3 - 1) = 4, clipped to 1."""
    vectors = {name: [0, 0, 0, 0] for name in ("momentum", "gradient", "linear")}
    vectors |= {"weights": [3, 0, 0, 0], "anchor": [1, 0, 0, 0]}
    found = _stepped("sgd", ("drift",), {**SGD, "mu": 2.0, "clip": 1.0}, vectors)
    assert found["weights"] == pytest.approx([2, 0, 0, 0], abs=1e-6)


def test_what_is_frozen_keeps_its_weight_and_momentum_and_is_not_in_the_norm() -> None:
    """The second and the last of four are frozen: the norm of the rest is 5, clipped to 2.5."""
    vectors = {"weights": [1, 2, 3, 4], "momentum": [0, 7, 0, 9], "gradient": [3, 100, 4, 100], "keep": [1, 0, 1, 0]}
    found = _stepped("sgd", ("freeze",), {**SGD, "momentum": 0.5, "decay": 0.0, "clip": 2.5}, vectors)
    assert found["weights"] == pytest.approx([-0.5, 2, 1, 4], abs=1e-6)
    assert found["momentum"] == pytest.approx([1.5, 7, 2, 9], abs=1e-6)


def test_the_first_step_of_adam_has_no_memory() -> None:
    """Bias-corrected moments are g and g squared: w - 1/2 g / (|g| + 1), whatever the betas."""
    vectors = {name: [0, 0, 0, 0] for name in ("weights", "first", "second")}
    found = _stepped("adamw", (), ADAM, {**vectors, "gradient": [1, -3, 0, 9]})
    assert found["weights"] == pytest.approx([-0.25, 0.375, 0, -0.45], abs=1e-6)
    assert found["first"] == [0.5, -1.5, 0, 4.5]
    assert found["second"] == [0.25, 2.25, 0, 20.25]


def test_a_later_step_of_adam_weighs_its_moments() -> None:
    """Second step, m = 1, v = 4, g = 2: m = 3/2, v = 4; corrected by 3/4 and 7/16."""
    vectors = {"weights": [1, 0, 0, 0], "first": [1, 0, 0, 0], "second": [4, 0, 0, 0], "gradient": [2, 0, 0, 0]}
    found = _stepped("adamw", (), {**ADAM, "step": 2.0}, vectors)
    assert found["first"][0] == 1.5
    assert found["second"][0] == 4
    assert found["weights"][0] == pytest.approx(1 - 0.5 * (1.5 / 0.75) / (sqrt(4 / 0.4375) + 1), abs=1e-6)


def test_l2_is_part_of_the_gradient_and_decay_is_not() -> None:
    """Adam: g = 1 + 1/2 * 4 = 3, so 4 - 1/2 * 3/4. AdamW: 4 (1 - 1/2 * 1/4) - 1/2 * 1/2."""
    vectors = {"weights": [4, 0, 0, 0], "first": [0] * 4, "second": [0] * 4, "gradient": [1, 0, 0, 0]}
    l2, decay = (_stepped("adamw", (), {**ADAM, name: v}, vectors) for name, v in (("l2", 0.5), ("decay", 0.25)))
    assert l2["weights"][0] == pytest.approx(4 - 0.375, abs=1e-6)
    assert l2["first"][0] == 1.5
    assert decay["weights"][0] == pytest.approx(3.5 - 0.25, abs=1e-6)
    assert decay["first"][0] == 0.5


def test_what_is_frozen_keeps_both_moments_of_adam() -> None:
    vectors = {"weights": [1, 1, 1, 1], "first": [2] * 4, "second": [3] * 4, "gradient": [1] * 4, "keep": [1, 0, 0, 0]}
    found = _stepped("adamw", ("freeze",), {**ADAM, "decay": 0.5}, vectors)
    assert [found[name][1:] for name in ("weights", "first", "second")] == [[1] * 3, [2] * 3, [3] * 3]
    assert found["first"][0] == 1.5
    assert found["second"][0] == 2.5
    assert found["weights"][0] == pytest.approx(0.75 - 0.5 * 3 / (sqrt(10) + 1), abs=1e-6)
