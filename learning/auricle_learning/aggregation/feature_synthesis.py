"""Synthetic features whose gradients are the clients', PKCF (MuPFL, eq. 16-21) in the manner of CReFF.

Shang et al. 2022, https://arxiv.org/abs/2204.13399. A classifier is v = (W (C, d), b (C,)); the gradient of the mean
cross-entropy on one class's features with respect to v is a vector of length C d + C, the weights first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.wire.prior_knowledge import PriorKnowledge, Tuning, class_gradient, posteriors, split_classifier
from auricle.wire.tensors import Flat, TensorTable
from auricle_learning.aggregation.cohort import Cohort, CohortError, Float64Array
from auricle_learning.aggregation.extras import RuleState, Synthesis

CREFF_EPSILON = 1e-6
MATCH_RATE = 0.1
MATCH_STEPS = 100
FEATURES, KNOWN = "features", "known"
"""Names in a rule's state of H (C, m, d), which is float32, and of (1, C) ones for the classes that it stands for."""
HEAD = "head"
"""Name in a rule's state of the classifier (C, d + 1) float32 that devices take gradients at, W beside b; without one
it is the model's."""

STAYED = "The features that stand for the devices' clips stay as they were: "

Match = Callable[[Float64Array, dict[int, Float64Array], Float64Array, Float64Array], tuple[float, Float64Array]]
"""(H, targets, W, b) -> loss, gradient."""


def mean_class_gradients(gradients: Iterable[Mapping[int, NDArray[Any]]]) -> dict[int, Float64Array]:
    """z^k: for each class the unweighted mean over the clients that have it (eq. 17).

    Parameters
    ----------
    gradients
        Of each client the gradients (C d + C,) by class; one with a value that is not finite does not count.
    """
    sums: dict[int, Float64Array] = {}
    counts: Counter[int] = Counter()
    for client in gradients:
        for label, vector in client.items():
            if np.isfinite(vector).all():
                sums[label] = np.add(sums[label], vector) if label in sums else np.array(vector, np.float64)
                counts[label] += 1
    return {label: sums[label] / counts[label] for label in sorted(sums)}


def match_loss_grad(
    features: Float64Array, targets: dict[int, Float64Array], weight: Float64Array, bias: Float64Array
) -> tuple[float, Float64Array]:
    """Σ_k (1 - cos(z^k, ẑ^k)) / |present| and its gradient with respect to the features (A28).

    Parameters
    ----------
    features
        H (C, m, d); a class without a target has gradient 0.
    targets
        z^k (C d + C,) by class, see `mean_class_gradients`. A vector of length 0 has cosine 0 and gradient 0.
    weight, bias
        The classifier (C, d) and (C,), the one at which the targets were taken (A29).

    Returns
    -------
    loss, gradient
        The gradient is (C, m, d).
    """
    loss, gradient = 0.0, np.zeros_like(features, np.float64)
    for label, wanted in targets.items():
        value, slope = _match_class(features[label], label, wanted, weight, bias)
        loss += value / len(targets)
        gradient[label] = slope / len(targets)
    return loss, gradient


def pkcf(
    features: Float64Array,
    targets: dict[int, Float64Array],
    weight: Float64Array,
    bias: Float64Array,
    *,
    steps: int = MATCH_STEPS,
    lr: float = 0.1,
    match: Match | None = None,
) -> tuple[Float64Array, list[float]]:
    """Move synthetic features so that their gradients point where the clients' do, by plain gradient descent.

    Parameters
    ----------
    features
        H (C, m, d) of the round before; `first_features` for the first.
    targets, weight, bias
        As in `match_loss_grad`.
    steps, lr
        Match steps and their learning rate; CReFF's are 100 and 0.1.
    match
        The loss and its gradient: `creff_match`; `match_loss_grad` without.

    Returns
    -------
    features, losses
        H (C, m, d), and the loss before each step and after the last.

    Raises
    ------
    DataError
        Shapes do not fit together, or a value is not finite.
    """
    _check(features, targets, weight, bias)
    distance = match_loss_grad if match is None else match
    moved, losses = np.array(features, np.float64), []
    for _ in range(steps):
        loss, gradient = distance(moved, targets, weight, bias)
        losses.append(loss)
        moved -= lr * gradient
    return moved, [*losses, distance(moved, targets, weight, bias)[0]]


def first_features(classes: int, width: int, *, m: int = 100, seed: int = 0) -> Float64Array:
    """H (C, m, d) from N(0, 1), seeded (A30)."""
    return np.random.default_rng(seed).standard_normal((classes, m, width))


class Synthesised(NamedTuple):
    """H after a round in the rule's state, what is to be said of it, and what is odd."""

    state: RuleState | None
    found: Synthesis | None
    warnings: tuple[str, ...] = ()


def synthesised(
    cohort: Cohort,
    rule: str,
    *,
    m: int,
    steps: int = MATCH_STEPS,
    rate: float | None = None,
    match: Match | None = None,
) -> Synthesised:
    """H after a round, from the gradients that came with its updates.

    Targets and H's gradients are those at the classifier that devices were sent: that of w^t (A29), or `HEAD` of the
    rule's state. H goes on from the round before (A30). It stays as it was where no gradient came, or where the match
    gives values that are not finite or a larger loss.

    Parameters
    ----------
    cohort
        K updates with `extras.gradients`.
    rule
        Name of the rule that keeps H in its state.
    m
        Features of each class; with another number than before H begins with noise again.
    steps, match
        As in `pkcf`.
    rate
        Of the match; without 0.1 m |present|: |present| since the loss is a mean over classes, where CReFF's is a sum,
        and m by this project's own choice. A feature's gradient has a factor of 1 / m, in CReFF as well, and with a
        rate of 0.1 |present| the loss hardly moves in 100 steps.

    Raises
    ------
    CohortError
        The gradients are of no classifier of this model.
    """
    kept, said = cohort.extras.kept_by(rule), [one for one in cohort.extras.gradients or () if one is not None]
    shapes = {one.shape for one in said}
    for shape in shapes:
        if len(shapes) > 1 or len(shape) != 2 or not all(shape) or shape[1] % shape[0] or shape[1] > cohort.start.size:
            raise CohortError(f"gradients of a client have the shape {shape}, which no classifier of this model has.")
    said = [one for one in said if one.any()]
    if not said:
        return Synthesised(cohort.extras.state, None)
    classes, length = said[0].shape
    targets = mean_class_gradients({k: one[k] for k in range(classes) if one[k].any()} for one in said)
    weight, bias = classifier_of(kept, cohort.start[-length:], classes)
    before, known = kept.arrays.get(FEATURES), kept.arrays.get(KNOWN)
    if before is None or known is None or before.shape != (classes, m, weight.shape[1]):
        before, known = first_features(classes, weight.shape[1], m=m), np.zeros((1, classes))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        lr = MATCH_RATE * m * len(targets) if rate is None else rate
        found, losses = pkcf(before, targets, weight, bias, steps=steps, lr=lr, match=match)
        moved = found.astype(np.float32)
        finite = bool(np.isfinite(moved).all() and np.isfinite(losses).all())
    if not finite:
        return Synthesised(cohort.extras.state, None, (f"{STAYED}the match gave values that are not finite.",))
    if losses[-1] > losses[0]:
        rose = (
            f"the match led away from the devices' gradients, from a distance of {losses[0]:.2f} to {losses[-1]:.2f}."
        )
        return Synthesised(cohort.extras.state, None, (f"{STAYED}{rose}",))
    known = known.copy()
    known[0, list(targets)] = 1.0
    state = RuleState(rule, {**kept.arrays, FEATURES: moved, KNOWN: known}, kept.step + 1)
    return Synthesised(state, Synthesis(tuple(targets), len(said), losses[0], losses[-1]))


def classifier_of(state: RuleState | None, own: NDArray[Any], classes: int) -> tuple[Float64Array, Float64Array]:
    """W (C, d) and b (C,) that devices are sent: a state's `HEAD`, or without one the model's `own` (C d + C,)."""
    head = None if state is None else state.arrays.get(HEAD)
    if head is None or head.shape != (classes, own.size // classes):
        return split_classifier(own, classes)
    return head[:, :-1].astype(np.float64), head[:, -1].astype(np.float64)


def lent_after(state: RuleState | None, model: Flat, table: TensorTable, tuning: Tuning) -> PriorKnowledge:
    """What devices are lent in the round after a model (P,): a classifier, and H of the classes that are known.

    The classifier is the model's. Where a rule keeps one of its own (`HEAD`), it is that, and no feature goes with it.

    Parameters
    ----------
    state
        What the rule kept with the model; None: nothing yet.
    model, table
        w^t, and where its classifier is.
    tuning
        How devices tune theirs.
    """
    classes, width = table.specs[-2].shape
    classifier = model[-(classes * width + classes) :]
    if state is not None and HEAD in state.arrays:
        weight, bias = classifier_of(state, classifier, classes)
        classifier, state = np.concatenate([weight.ravel(), bias]).astype(np.float32), None
    features, known = (None, None) if state is None else (state.arrays.get(FEATURES), state.arrays.get(KNOWN))
    if features is None or known is None or features.shape != (classes, tuning.features, width):
        return PriorKnowledge(classifier, (), np.zeros((0, tuning.features, width), np.float32), tuning)
    labels = np.flatnonzero(known[0])
    return PriorKnowledge(classifier, tuple(labels.tolist()), features[labels].astype(np.float32), tuning)


def creff_match(
    features: Float64Array, targets: dict[int, Float64Array], weight: Float64Array, bias: Float64Array
) -> tuple[float, Float64Array]:
    """CReFF's distance, summed over classes: Σ over rows of W (1 - cos) + (1 - cos b), and its gradient (C, m, d).

    Parameters as of `match_loss_grad`. 1e-6 is added to the denominator of each cosine, as the authors do.
    """
    cuts = [slice(row * weight.shape[1], (row + 1) * weight.shape[1]) for row in range(len(weight))]
    blocks = [*cuts, slice(weight.size, None)]
    loss, gradient = 0.0, np.zeros_like(features, np.float64)
    for label, wanted in targets.items():
        made = class_gradient(features[label], label, weight, bias)
        found = [_one_minus_cosine(made[block], wanted[block], CREFF_EPSILON) for block in blocks]
        loss += sum(value for value, _ in found)
        gradient[label] = _through(np.concatenate([slope for _, slope in found]), features[label], label, weight, bias)
    return loss, gradient


def _match_class(
    features: Float64Array, label: int, wanted: Float64Array, weight: Float64Array, bias: Float64Array
) -> tuple[float, Float64Array]:
    """1 - cos of one class and its gradient (m, d)."""
    value, slope = _one_minus_cosine(class_gradient(features, label, weight, bias), wanted)
    return value, _through(slope, features, label, weight, bias)


def _one_minus_cosine(made: Float64Array, wanted: Float64Array, epsilon: float = 0.0) -> tuple[float, Float64Array]:
    """1 - ⟨z, ẑ⟩ / (‖z‖ ‖ẑ‖ + ε) and its gradient with respect to ẑ; 1 and zeros with a vector of length 0."""
    there, here = float(np.linalg.norm(wanted)), float(np.linalg.norm(made))
    if not there or not here:
        return 1.0, np.zeros_like(made)
    lengths = there * here + epsilon
    cosine = float(wanted @ made) / lengths
    return 1.0 - cosine, cosine * there / (lengths * here) * made - wanted / lengths


def _through(
    slope: Float64Array, features: Float64Array, label: int, weight: Float64Array, bias: Float64Array
) -> Float64Array:
    """The gradient (m, d) with respect to the features of what has the gradient `slope` with respect to ẑ.

    With p = softmax(W h + b), e = p - y and slope = (A, a): ∇_h = [Aᵀ e + Wᵀ (diag(p) - p pᵀ) (A h + a)] / m.
    """
    outer, inner = slope[: weight.size].reshape(weight.shape), slope[weight.size :]
    shares = posteriors(features, weight, bias)
    errors = shares.copy()
    errors[:, label] -= 1.0
    pushed = features @ outer.T + inner
    through = shares * (pushed - (shares * pushed).sum(axis=1, keepdims=True))
    return np.asarray((errors @ outer + through @ weight) / len(features))


def _check(features: Float64Array, targets: dict[int, Float64Array], weight: Float64Array, bias: Float64Array) -> None:
    classes, width = weight.shape
    fits = features.ndim == 3 and features.shape[0] == classes and features.shape[2] == width
    if not fits or not features.shape[1] or bias.shape != (classes,):
        raise DataError(f"features of the shape {features.shape} do not fit a classifier of {classes} x {width}.")
    for label, vector in targets.items():
        if not 0 <= label < classes or vector.shape != (classes * width + classes,):
            raise DataError(f"the gradient of class {label} does not fit a classifier of {classes} x {width}.")
    if not all(np.isfinite(values).all() for values in (features, weight, bias, *targets.values())):
        raise DataError("features, classifier or gradients have values that are not finite.")
