"""CReFF: re-training the classifier on federated features (Shang et al. 2022, https://arxiv.org/abs/2204.13399).

Devices train as with FedAvg and send gradients of a classifier v by class. The coordinator moves features H (C, m, d)
until their gradients at v point where the devices' do, and trains a fresh v on H, with which the model is judged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from msgspec import Meta

from auricle.wire.prior_knowledge import MOST_FEATURES, Tuning, classifier_epoch, in_turn
from auricle_learning.aggregation.cohort import Aggregate, Cohort, FloatArray
from auricle_learning.aggregation.extras import RuleState, Synthesis
from auricle_learning.aggregation.feature_synthesis import (
    FEATURES,
    HEAD,
    KNOWN,
    MATCH_RATE,
    MATCH_STEPS,
    creff_match,
    synthesised,
)
from auricle_learning.aggregation.options import Positive
from auricle_learning.aggregation.rules.fedavg import FedAvgOptions, fedavg
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.methods.method import Method

NAME = "creff"
MOST_EPOCHS, MOST_STEPS = 1_000, 1_000


class CreffOptions(FedAvgOptions, frozen=True):
    """Options of `creff`; the classifier begins with zeros and takes 64 features of the known classes a step."""

    features: Annotated[int, Meta(ge=1, le=MOST_FEATURES, description="m of each class.")] = 100
    match_steps: Annotated[int, Meta(ge=1, le=MOST_STEPS, description="Steps of H.")] = MATCH_STEPS
    match_rate: Annotated[Positive, Meta(description="Rate of H.")] = MATCH_RATE
    epochs: Annotated[int, Meta(ge=1, le=MOST_EPOCHS, description="Of the classifier.")] = 300
    rate: Annotated[float, Meta(gt=0, lt=10, description="Of the classifier.")] = 0.01


def creff(cohort: Cohort, options: CreffOptions) -> Aggregate:
    """Average as FedAvg does, and train a classifier for evaluation on features that have the devices' gradients.

    H <- H - `match_rate` ∇ Σ_k [Σ_rows (1 - cos(z_W^k, ẑ_W^k)) + 1 - cos(z_b^k, ẑ_b^k)], `match_steps` times, with
    1e-6 in each denominator; z^k is the unweighted mean over the devices that have class k.

    Parameters
    ----------
    cohort
        K updates, with `extras.gradients` of those that say some, at the classifier of `extras.state`.

    Returns
    -------
    Aggregate
        As of `fedavg`; `evaluated` (P,) with the new classifier, H and the classifier in `state`, and what became of H
        in `synthesis`. Without any gradient so far it is FedAvg's alone.

    Raises
    ------
    CohortError
        The gradients are of no classifier of this model.
    """
    averaged = fedavg(cohort, options)
    if not cohort.ids:
        return replace(averaged, state=cohort.extras.state)
    steps, rate = options.match_steps, options.match_rate
    made = synthesised(cohort, NAME, m=options.features, steps=steps, rate=rate, match=creff_match)
    state = made.state if made.state is not None and made.state.rule == NAME else None
    if made.found is not None and state is not None:
        head = fresh_classifier(state, epochs=options.epochs, rate=options.rate)
        state = replace(state, arrays={**state.arrays, HEAD: head})
    return replace(
        averaged,
        state=state,
        evaluated=_judged(averaged.weights, state),
        synthesis=None if made.found is None or state is None else _by_rows(made.found, state),
        warnings=(*averaged.warnings, *made.warnings),
    )


def fresh_classifier(state: RuleState, *, epochs: int, rate: float) -> FloatArray:
    """(C, d + 1) W beside b, from zeros by `epochs` of cross-entropy on H of the known classes; float32."""
    known = np.flatnonzero(state.arrays[KNOWN][0])
    made = state.arrays[FEATURES]
    rows, labels = in_turn(made[known], known.tolist())
    weight, bias = np.zeros((len(made), made.shape[2])), np.zeros(len(made))
    for _ in range(epochs):
        weight, bias = classifier_epoch(weight, bias, rows, labels, rate)
    return np.column_stack([weight, bias]).astype(np.float32)


def creff_tuning(options: CreffOptions) -> Tuning:
    """Devices are lent the classifier that they say gradients of, and no feature: nothing is tuned."""
    return Tuning(features=1, epochs=1, rate=options.rate)


def _judged(weights: FloatArray, state: RuleState | None) -> FloatArray | None:
    head = None if state is None else state.arrays.get(HEAD)
    if head is None or head.size > weights.size:
        return None
    judged: FloatArray = weights.copy()
    judged[-head.size :] = np.concatenate([head[:, :-1].ravel(), head[:, -1]])
    return judged


def _by_rows(found: Synthesis, state: RuleState) -> Synthesis:
    """The distances as means over classes, rows and b."""
    parts = len(found.classes) * (len(state.arrays[FEATURES]) + 1)
    return replace(found, before=found.before / parts, after=found.after / parts)


CREFF = Method(Rule(NAME, creff, CreffOptions(), needs=("server-state", "device-half"), tunes=creff_tuning))
