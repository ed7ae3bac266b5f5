"""CReFF: features with the devices' gradients, and the classifier that a round is judged with, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from auricle.packs.pack import load_pack
from auricle.wire.prior_knowledge import class_gradient, split_classifier
from auricle_learning.aggregation.cohort import Cohort, Layer
from auricle_learning.aggregation.extras import Extras, RuleState
from auricle_learning.aggregation.feature_synthesis import creff_match, first_features, lent_after
from auricle_learning.aggregation.next_model import next_model
from auricle_learning.aggregation.server_optimizer import OptimizerSettings
from auricle_learning.aggregation.server_state import ServerState
from auricle_learning.methods import get_rule
from auricle_learning.methods.creff import fresh_classifier

CLASSES, WIDTH, EACH = 3, 2, 4
HEAD = CLASSES * WIDTH + CLASSES
START = np.random.default_rng(4).normal(size=2 + HEAD).astype(np.float32)
FEW = {"features": EACH, "epochs": 5, "rate": 0.1}


def gradients(*labels: int, seed: int = 0) -> Any:
    """(C, C d + C) of a device that has clips of these classes, at the classifier of `START`."""
    rng, (weight, bias) = np.random.default_rng(seed), split_classifier(START[-HEAD:], CLASSES)
    found = np.zeros((CLASSES, HEAD))
    for label in labels:
        found[label] = class_gradient(rng.normal(size=(7, WIDTH)) + label, label, weight, bias)
    return found


def cohort(*rows: Any, state: RuleState | None = None) -> Cohort:
    """A round of so many devices, with their gradients."""
    return Cohort.build(
        ids=[f"c{k}" for k in range(len(rows))],
        weights=np.stack([START + k for k in range(len(rows))]),
        samples=[1 + k for k in range(len(rows))],
        start=START,
        layers=(Layer("all", (slice(0, START.size),)),),
        extras=Extras(gradients=rows, state=state),
    )


def test_the_distance_of_two_classes_by_hand() -> None:
    """v = 0: p is a half, H_0 = 2 has ẑ = (-1, 1, -½, ½). Of z = (-3, 0, 1, 1) rows have cosines 1 and 0, and b 0."""
    features, weight, bias = np.array([[[2.0]], [[1.0]]]), np.zeros((2, 1)), np.zeros(2)

    loss, _ = creff_match(features, {0: np.array([-3.0, 0.0, 1.0, 1.0])}, weight, bias)

    assert loss == pytest.approx((1 - 3 / (3 + 1e-6)) + 1 + 1, abs=1e-12)


def test_one_step_of_the_match_goes_down_its_slope() -> None:
    sent = [gradients(0, 2), gradients(0, seed=1)]
    targets = {0: (sent[0][0] + sent[1][0]) / 2, 2: sent[0][2]}
    at = split_classifier(START[-HEAD:], CLASSES)
    first = first_features(CLASSES, WIDTH, m=EACH)
    slope = np.zeros_like(first)
    for place in np.ndindex(first.shape):
        unit = np.zeros_like(first)
        unit[place] = 1e-6
        up, down = (creff_match(first + way * unit, targets, *at)[0] for way in (1, -1))
        slope[place] = (up - down) / 2e-6

    made = get_rule("creff", match_steps=1, match_rate=0.5, **FEW)(cohort(*sent))

    assert made.state is not None and made.synthesis is not None
    np.testing.assert_allclose(made.state.arrays["features"], first - 0.5 * slope, atol=1e-6)
    assert made.state.arrays["known"].tolist() == [[1, 0, 1]]
    assert made.synthesis.before == pytest.approx(creff_match(first, targets, *at)[0] / (2 * (CLASSES + 1)))


def test_a_fresh_classifier_by_hand() -> None:
    """From zeros all answers are a third, of h = 1 of class 0 and of h = -1 of class 2; class 1 is not known."""
    features, known = np.array([[[1.0]], [[9.0]], [[-1.0]]]), np.array([[1.0, 0.0, 1.0]])
    state = RuleState("creff", {"features": features, "known": known})

    once = fresh_classifier(state, epochs=1, rate=0.3)
    twice = fresh_classifier(state, epochs=2, rate=0.3)

    # W's gradient is ½ [(-⅔, ⅓, ⅓) - (⅓, ⅓, -⅔)] = (-½, 0, ½), that of b ½ (-⅓, ⅔, -⅓).
    np.testing.assert_allclose(once, [[0.15, 0.05], [0.0, -0.1], [-0.15, 0.05]], atol=1e-7)
    logits = np.array([[0.2, -0.1, -0.1], [-0.1, -0.1, 0.2]])
    errors = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True) - np.eye(3)[[0, 2]]
    weight = once[:, 0] - 0.3 * (errors[0] - errors[1]) / 2
    np.testing.assert_allclose(twice, np.column_stack([weight, once[:, 1] - 0.3 * errors.mean(axis=0)]), atol=1e-7)


def test_devices_go_on_from_fedavgs_model_and_the_round_is_judged_with_the_new_classifier() -> None:
    given = cohort(gradients(0), gradients(1, 2, seed=1))

    made = get_rule("creff", **FEW)(given)

    assert made.weights.tobytes() == get_rule("fedavg")(given).weights.tobytes()
    assert made.state is not None and made.evaluated is not None
    head = made.state.arrays["head"]
    assert made.evaluated[:2].tobytes() == made.weights[:2].tobytes()
    assert made.evaluated[2:].tolist() == [*head[:, :2].ravel(), *head[:, 2]]
    np.testing.assert_array_equal(head, fresh_classifier(made.state, epochs=5, rate=0.1))


def test_the_next_rounds_gradients_are_those_of_that_classifier() -> None:
    first = get_rule("creff", **FEW)(cohort(gradients(0, 1, 2)))
    state = first.state
    assert state is not None
    head = state.arrays["head"]
    read = ServerState.from_bytes(ServerState(rule=state).to_bytes(), START.size).rule
    assert read is not None
    assert read.arrays["head"].tobytes() == head.tobytes(), "as devices had it, to the last bit"

    second = get_rule("creff", **FEW)(cohort(gradients(1, seed=3), state=read))

    assert second.synthesis is not None
    at = head[:, :2].astype(np.float64), head[:, 2].astype(np.float64)
    expected = creff_match(state.arrays["features"].astype(np.float64), {1: gradients(1, seed=3)[1]}, *at)[0]
    assert second.synthesis.before == pytest.approx(expected / (CLASSES + 1))


def test_what_is_lent_is_the_classifier_alone() -> None:
    table, tuning = load_pack("digits").plugin_table, get_rule("creff").tuning
    classes, width = table.specs[-2].shape
    model = table.initial(3)
    head = np.random.default_rng(0).normal(size=(classes, width + 1)).astype(np.float32)
    arrays = {"head": head, "features": np.ones((classes, 1, width)), "known": np.ones((1, classes))}
    assert tuning is not None

    lent, first = (lent_after(s, model, table, tuning) for s in (RuleState("creff", arrays), None))

    assert lent.classifier.tolist() == [*head[:, :-1].ravel(), *head[:, -1]]
    assert (lent.labels, lent.features.size) == ((), 0), "nothing is tuned"
    assert np.array_equal(first.classifier, model[-classes * (width + 1) :]), "before there are gradients"


def test_rounds_without_gradients_are_fedavgs_and_keep_what_there_is() -> None:
    none = np.zeros((CLASSES, HEAD))
    first = get_rule("creff", **FEW)(cohort(none, none))
    assert (first.evaluated, first.state, first.synthesis) == (None, None, None)
    state = get_rule("creff", **FEW)(cohort(gradients(0))).state
    assert state is not None

    later = get_rule("creff", **FEW)(cohort(none, state=state))

    assert later.state is state and later.evaluated is not None
    assert later.evaluated[-CLASSES:].tolist() == state.arrays["head"][:, -1].tolist()


def test_a_servers_step_moves_what_is_judged_but_for_the_classifier() -> None:
    given, server = cohort(gradients(0), gradients(1)), OptimizerSettings(kind="momentum", lr=0.5, beta1=0.0)

    made = next_model(given, get_rule("creff", **FEW), server, None)

    assert made.aggregate.evaluated is not None
    assert made.evaluated[:2].tolist() == made.weights[:2].tolist() != made.aggregate.weights[:2].tolist()
    assert made.evaluated[2:].tolist() == made.aggregate.evaluated[2:].tolist()
    plain = next_model(given, get_rule("fedavg"), server, None)
    assert plain.evaluated is plain.weights
