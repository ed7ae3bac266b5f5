"""CReFF: re-training the classifier on federated features (Shang et al. 2022, https://arxiv.org/abs/2204.13399).

Devices train as with FedAvg and send gradients of a classifier v by class. The coordinator moves features H (C, m, d)
until their gradients at v point where the devices' do, and trains a fresh v on H, with which the model is judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

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
from auricle_learning.aggregation.options import check_count, check_number
from auricle_learning.aggregation.rules.fedavg import check_fedavg, fedavg
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.methods.method import Method

NAME = "creff"
MOST_EPOCHS, MOST_STEPS = 1_000, 1_000


def check_creff(
    *, weighting: str, features: int, match_steps: int, match_rate: float, epochs: int, rate: float
) -> None:
    """Refuse a weighting that FedAvg does not know, counts that are too large, and rates that are not above 0.

    Raises
    ------
    SettingsError
        An option is not allowed.
    """
    check_fedavg(weighting=weighting)
    counts = (("features", features, MOST_FEATURES), ("match_steps", match_steps, MOST_STEPS))
    for name, value, most in (*counts, ("epochs", epochs, MOST_EPOCHS)):
        check_count(name, value, least=1, optional=False)
        check_number(name, value, below=most + 1)
    check_number("match_rate", match_rate, above=True)
    check_number("rate", rate, above=True, below=10.0)


def creff(
    cohort: Cohort,
    *,
    weighting: str = "samples",
    features: int = 100,
    match_steps: int = MATCH_STEPS,
    match_rate: float = MATCH_RATE,
    epochs: int = 300,
    rate: float = 0.01,
) -> Aggregate:
    """Average as FedAvg does, and train a classifier for evaluation on features that have the devices' gradients.

    H <- H - `match_rate` ∇ Σ_k [Σ_rows (1 - cos(z_W^k, ẑ_W^k)) + 1 - cos(z_b^k, ẑ_b^k)], `match_steps` times, with
    1e-6 in each denominator; z^k is the unweighted mean over the devices that have class k.

    Parameters
    ----------
    cohort
        K updates, with `extras.gradients` of those that say some, at the classifier of `extras.state`.
    weighting
        As in `fedavg`.
    features
        m of each class.
    match_steps, match_rate
        Of H.
    epochs, rate
        Of the classifier, which begins with zeros and takes 64 features of the known classes a step.

    Returns
    -------
    Aggregate
        As of `fedavg`; `evaluated` (P,) with the new classifier, H and the classifier in `state`, and what became of H
        in `synthesis`. Without any gradient so far it is FedAvg's alone.

    Raises
    ------
    SettingsError
        An option is not allowed.
    CohortError
        The gradients are of no classifier of this model.
    """
    check_creff(
        weighting=weighting,
        features=features,
        match_steps=match_steps,
        match_rate=match_rate,
        epochs=epochs,
        rate=rate,
    )
    averaged = fedavg(cohort, weighting=weighting)
    if not cohort.ids:
        return replace(averaged, state=cohort.extras.state)
    made = synthesised(cohort, NAME, m=features, steps=match_steps, rate=match_rate, match=creff_match)
    state = made.state if made.state is not None and made.state.rule == NAME else None
    if made.found is not None and state is not None:
        state = replace(state, arrays={**state.arrays, HEAD: fresh_classifier(state, epochs=epochs, rate=rate)})
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


def creff_tuning(options: Mapping[str, object]) -> Tuning:
    """Devices are lent the classifier that they say gradients of, and no feature: nothing is tuned."""
    return Tuning(features=1, epochs=1, rate=float(str(options["rate"])))


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


CREFF = Method(Rule(NAME, creff, check_creff, needs=("server-state", "device-half"), tunes=creff_tuning))
