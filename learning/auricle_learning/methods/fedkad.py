"""FedKAD as its rivals modify it: the fleet shares class means of features and no weights ([MLAC], A16).

A client sends f̄_k^c, the mean over its clips of class c of what its own model's classifier sees, and the counts n_k^c;
the server makes F^c = Σ n_k^c f̄_k^c / Σ n_k^c. A client's loss is CE +
β mean_j valid[y_j] mean_d (f(x_j) - F^{y_j})².
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta

from auricle.errors import WireError
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_learning.aggregation.cohort import Aggregate, Cohort, CohortError, Float64Array
from auricle_learning.aggregation.extras import COUNTS, RuleState
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.fedavg import FedAvgOptions
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.aggregation.rules.weighting import WeightedOptions, client_share, of_clients
from auricle_learning.methods.feddisco import HISTOGRAM
from auricle_learning.methods.local_only import local_plan, travels
from auricle_learning.methods.method import (
    JobChanges,
    Kept,
    Method,
    Needs,
    Received,
    Sent,
    Trained,
    Vector,
    method_options,
)
from auricle_learning.methods.projection import lifted, projected

if TYPE_CHECKING:
    from auricle.packs.pack import Pack

NAME = "fedkad"
MEANS, VALID = "means", "valid"
MOST = 1e4
MOST_DIMENSIONS = 4096


class FedKadOptions(FedAvgOptions, frozen=True):
    """Options of `fedkad`; what is weighed are the clients that have the class."""

    beta: Annotated[float, Meta(ge=0, lt=1e6, description="β of the clients; the means do not use it.")] = 1.0
    projection: Annotated[
        int,
        Meta(
            ge=1,
            le=MOST_DIMENSIONS,
            description="D: features are compared in a common space of so many dimensions, whatever the architecture.",
        ),
    ] = 64


def fedkad(cohort: Cohort, options: FedKadOptions) -> Aggregate:
    """Average the class means, F^c = Σ n_k^c f̄_k^c / Σ n_k^c; a class that nobody has keeps its mean.

    Parameters
    ----------
    cohort
        K updates with `extras.vectors`: `means` (C D) and `counts` (C,) of each.

    Returns
    -------
    Aggregate
        `weights` (P,), those of w^t; F (C, D) and which of it is valid (1, C) in `state`.

    Raises
    ------
    CohortError
        Means or counts are missing, or do not fit one another.
    """
    if not cohort.ids:
        return replace(unchanged(cohort), state=cohort.extras.state)
    means, counts = _brought(cohort, options.projection)
    weights = counts if options.weighting == "samples" else (counts > 0).astype(np.float64)
    total = weights.sum(axis=0)
    kept = cohort.extras.kept_by(NAME)
    before, known = kept.arrays.get(MEANS), kept.arrays.get(VALID)
    if before is None or known is None or before.shape != means.shape[1:] or known.size != total.size:
        before, known = np.zeros(means.shape[1:]), np.zeros((1, total.size))
    mean = np.einsum("kc,kcd->cd", weights, means) / np.where(total > 0, total, 1.0)[:, None]
    valid = np.maximum(known, total > 0)
    state = RuleState(NAME, {MEANS: np.where(total[:, None] > 0, mean, before), VALID: valid}, kept.step + 1)
    return of_clients(
        cohort, cohort.start, client_share(cohort, WeightedOptions(weighting=options.weighting)), state=state
    )


def before(received: Received, kept: Kept) -> JobChanges:
    """Clients train their own model, held to the fleet's class means once there are some."""
    own, valid = kept.get(MEANS), received.vectors[VALID]
    shape = (valid.size, received.width)
    mine = np.zeros(shape) if own is None or own.size != valid.size * received.width else own.reshape(shape)
    common = received.vectors[MEANS].astype(np.float64).reshape(valid.size, -1)
    means = lifted(common, mine.astype(np.float64)).astype(np.float32)
    scalars = {"beta": received.options(FedKadOptions).beta}
    return JobChanges(trains="local", kind="distill", inputs={"means": means, "valid": valid}, scalars=scalars)


def after(trained: Trained, kept: Kept) -> tuple[Sent, Kept]:
    """Clients send the means and counts of their classes, and keep the means."""
    counts = trained.received.histogram
    features, targets = trained.features()
    means = np.zeros((counts.size, trained.received.width))
    for label in np.unique(targets):
        means[label] = features[targets == label].astype(np.float64).mean(axis=0)
    common = projected(means, trained.received.options(FedKadOptions).projection)
    return {MEANS: common.astype(np.float32).ravel(), COUNTS: counts}, {MEANS: means.astype(np.float32).ravel()}


def _brought(cohort: Cohort, size: int) -> tuple[Float64Array, Float64Array]:
    """(K, C, D) and (K, C)."""
    pairs = [cohort.extras.vectors.get(name, ()) for name in (MEANS, COUNTS)]
    if not all(pairs) or any(one is None for each in pairs for one in each):
        raise CohortError("the rule needs each client's class means and the counts of its classes.")
    rows = [[np.asarray(one, np.float64).ravel() for one in each] for each in pairs]
    if any(len({row.size for row in each}) > 1 for each in rows):
        raise CohortError("class means or counts of clients are of different numbers of classes.")
    means, counts = (np.stack(each) for each in rows)
    if means.shape[1] != counts.shape[1] * size or (counts < 0).any():
        raise CohortError(f"class means are not {size} numbers for each of {counts.shape[1]} classes.")
    return means.reshape(len(means), -1, size), counts


def _numbers(pack: Pack, plan: Plan) -> int:
    return len(pack.labels) * method_options(FedKadOptions, plan).projection


def _check(pack: Pack, vector: Flat, largest: float) -> None:
    if (np.abs(vector) > MOST).any():
        raise WireError(f"A class mean is above {MOST:g}.")


FEDKAD = Method(
    Rule(NAME, fedkad, FedKadOptions(), needs=("server-state",), plan=local_plan, step=True),
    Needs(
        down=(Vector(MEANS, _numbers), Vector(VALID, HISTOGRAM.size)),
        up=(
            Vector(MEANS, _numbers, allowed_by="means", check=_check),
            Vector(COUNTS, HISTOGRAM.size, allowed_by="means", check=HISTOGRAM.check),
        ),
    ),
    before,
    after,
    travels,
    own_model=True,
)
