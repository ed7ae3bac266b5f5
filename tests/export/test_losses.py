"""The losses of the step graphs, on batches small enough for a sheet of paper (ALGORITHMS 3.1, 3.3 and 5)."""

from __future__ import annotations

from collections.abc import Callable
from math import log

import numpy as np
import pytest

pytest.importorskip("torch", reason="graphs are built with PyTorch and onnx")

from tests.export.small_graph import run

from auricle_export.compiler import losses
from auricle_export.compiler.builder import GraphBuilder
from auricle_export.compiler.losses import Loss

P = np.array([[1, 2, 5], [4, 2, 2]]) / 8
"""What the student says of two samples."""
Q = np.array([[4, 2, 2], [1, 6, 1]]) / 8
"""What the teacher says."""
Y = np.array([[0, 0, 1], [1, 0, 0]])
SHARE = np.array([[0.75], [0.25]])


def _of(loss: Callable[[GraphBuilder], Loss]) -> Callable[[GraphBuilder], dict[str, str]]:
    def build(b: GraphBuilder) -> dict[str, str]:
        made = loss(b)
        return {"value": made.value, "gradient": made.gradient}

    return build


def _pseudo(b: GraphBuilder) -> dict[str, str]:
    made = losses.pseudo_labels(b, "z", "t", "share", "threshold")
    return {"value": made.loss.value, "gradient": made.loss.gradient, "confident": made.confident}


@pytest.mark.parametrize(
    ("weights", "shares"), [([3, 0, 1], [0.75, 0, 0.25]), ([0.125, 0.125, 0], [0.5, 0.5, 0]), ([0, 0, 0], [0, 0, 0])]
)
def test_a_samples_share_is_its_part_of_the_weights(weights: list[float], shares: list[float]) -> None:
    """Also where they sum to less than 1; a batch that is all padding has no shares."""
    found = run(lambda b: {"share": losses.shares(b, "weight")}, {"weight": weights})
    assert found["share"].tolist() == [[share] for share in shares]


def test_cross_entropy_is_the_log_of_what_was_said_of_the_label() -> None:
    found = run(_of(lambda b: losses.cross_entropy(b, "z", "y", "share")), {"z": np.log(P) + 3, "y": Y, "share": SHARE})
    assert found["value"] == pytest.approx(0.75 * log(8 / 5) + 0.25 * log(2), abs=1e-6)
    expected = [[0.75 / 8, 0.75 * 2 / 8, 0.75 * -3 / 8], [0.25 * -4 / 8, 0.25 * 2 / 8, 0.25 * 2 / 8]]
    assert found["gradient"] == pytest.approx(np.array(expected), abs=1e-6)


def test_the_squared_error_is_that_of_posteriors() -> None:
    """P - Y = (1, 2, -3)/8 and (-4, 2, 2)/8; p (d - p·d) with p·d = -10/64 and -8/64."""
    found = run(_of(lambda b: losses.brier_score(b, "z", "y", "share")), {"z": np.log(P) + 3, "y": Y, "share": SHARE})
    assert found["value"] == pytest.approx((0.75 * 14 + 0.25 * 24) / 64, abs=1e-6)
    first, second = (np.array([1, 2, 5]) * [18, 26, -14]), (np.array([4, 2, 2]) * [-24, 24, 24])
    assert found["gradient"] == pytest.approx(2 * np.array([0.75 * first, 0.25 * second]) / 512, abs=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_divergence_is_that_of_the_student_from_the_teacher(temperature: float) -> None:
    """KL(q || p) = 1/2 ln 4 + 1/4 ln(2/5) for the first sample, the other way round it is 5/8 ln(5/2) - 1/8 ln 4.

    Logits are T log p, so that the softened answers are P and Q; the gradient then is (p - q) / T.
    """
    feeds = {"z": temperature * np.log(P), "t": temperature * np.log(Q), "share": SHARE, "T": temperature}

    found = run(_of(lambda b: losses.divergence(b, "z", "t", "share", "T")), feeds)

    first = 0.5 * log(4) + 0.25 * log(2 / 5)
    second = 1 / 8 * log(1 / 4) + 6 / 8 * log(3) + 1 / 8 * log(1 / 2)
    assert found["value"] == pytest.approx(0.75 * first + 0.25 * second, abs=1e-6)
    expected = np.array([[0.75 * -3, 0, 0.75 * 3], [0.25 * 3, 0.25 * -4, 0.25 * 1]]) / 8 / temperature
    assert found["gradient"] == pytest.approx(expected, abs=1e-6)

    found = run(_of(lambda b: losses.divergence(b, "z", "t", "share", "T")), {**feeds, "t": feeds["z"] - 7})
    assert found["value"] == pytest.approx(0, abs=1e-6)  # what two models agree on teaches nothing
    assert found["gradient"] == pytest.approx(np.zeros((2, 3)), abs=1e-6)


def test_losses_are_added_with_their_factors() -> None:
    """alpha CE + (1 - alpha) KL of eq. 5: 1/4 of 8 and 3/4 of 4 are 5."""
    both = _of(lambda b: losses.weigh(b, [("a", Loss("v", "g")), ("c", Loss("w", "h"))]))
    found = run(both, {"a": 0.25, "c": 0.75, "v": 8.0, "w": 4.0, "g": [[4.0, 0.0]], "h": [[0.0, 2.0]]})
    assert found["value"] == 5
    assert found["gradient"].tolist() == [[1.0, 1.5]]


def test_pseudo_labels_count_in_the_mean_over_the_whole_batch() -> None:
    """The shares are 0.4, 0.3, 0.2 and 0.1; the teacher is 1/2, 1/3, 3/4 and 3/4 sure, of labels 0, any, 2 and 1.

    At a threshold of 1/2, which is inclusive, the second does not count; the others keep their shares. Of the first
    two labels the teacher holds equally likely, the lower is taken.
    """
    teacher = [[0, 0, -200], [0, 0, 0], [0, 0, log(6)], [0, log(6), 0]]
    student = np.log(np.array([[1, 2, 5], [4, 2, 2], [1, 6, 1], [2, 2, 4]]) / 8)

    share = [[0.4], [0.3], [0.2], [0.1]]
    found = run(_pseudo, {"z": student, "t": teacher, "share": share, "threshold": 0.5})

    assert found["confident"] == pytest.approx(0.7, abs=1e-6)
    assert found["value"] == pytest.approx(0.4 * log(8) + 0.2 * log(8) + 0.1 * log(4), abs=1e-6)
    rows = [[0.4 * -7, 0.4 * 2, 0.4 * 5], [0, 0, 0], [0.2, 0.2 * 6, 0.2 * -7], [0.1 * 2, 0.1 * -6, 0.1 * 4]]
    assert found["gradient"] == pytest.approx(np.array(rows) / 8, abs=1e-6)

    found = run(_pseudo, {"z": np.log(P), "t": np.log(Q), "share": SHARE, "threshold": 0.8})  # sure of nothing
    assert (found["value"], found["confident"]) == (0, 0)
    assert not found["gradient"].any()


def test_features_are_pulled_to_the_mean_of_their_own_label() -> None:
    """Features of width 4; the means of labels 0 and 1 are known, that of label 2 is not.

    The first sample is 1 and 2 from its label's mean: 3/5 (1 + 4) / 4. The second is at it, the third has none.
    """

    build = _of(lambda b: losses.class_means(b, "f", 4, "y", "share", "means", "valid"))
    feeds = {
        "f": [[2, 1, 0, 7], [5, 5, 5, 5], [9, 9, 9, 9]],
        "y": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        "share": [[0.6], [0.3], [0.1]],
        "means": [[1, 3, 0, 7], [5, 5, 5, 5], [0, 0, 0, 0]],
        "valid": [1, 1, 0],
    }
    found = run(build, feeds)

    assert found["value"] == pytest.approx(0.75, abs=1e-6)
    assert found["gradient"] == pytest.approx(np.array([[0.3, -0.6, 0, 0], [0] * 4, [0] * 4]), abs=1e-6)
