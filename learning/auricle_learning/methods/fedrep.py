"""FedRep: a common body and a classifier of one's own (Collins et al. 2021, https://arxiv.org/abs/2102.07078).

A client trains its classifier for some epochs with the body frozen, then the body with the classifier frozen, and sends
the body. The server averages the bodies; its classifier stays the common initialisation, which a new client takes.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.rules.average import average, sample_share, unchanged
from auricle_learning.aggregation.rules.fedavg import FedAvgOptions
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.methods.method import JobChanges, Kept, Method, Received, Sent, Trained

NAME = "fedrep"
HEAD = "head"
MOST_EPOCHS = 1000


Epochs = Annotated[int, Meta(ge=1, le=MOST_EPOCHS)]


class FedRepOptions(FedAvgOptions, frozen=True):
    """Options of `fedrep`."""

    head_epochs: Annotated[
        Epochs | None,
        Meta(
            description="Of the clients' classifiers; None: one less than the plan's, at least 1. The average does not "
            "use it."
        ),
    ] = None
    body_epochs: Annotated[Epochs, Meta(description="Of the clients' bodies.")] = 1


def fedrep(cohort: Cohort, options: FedRepOptions) -> Aggregate:
    """Average the bodies, w_body = Σ p_k w_k,body; the classifier stays that of w^t, whatever is sent of it.

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P), `samples` (K,).

    Returns
    -------
    Aggregate
        `weights` (P,); `share` 0 in the classifier's layers.
    """
    if not cohort.ids:
        return unchanged(cohort)
    kept = np.ones((len(cohort.ids), len(cohort.layers)), np.bool_)
    share = sample_share(cohort.samples if options.weighting == "samples" else np.ones_like(cohort.samples), kept)
    kept[:, head_layers(cohort)] = False
    share[~kept] = 0.0
    return Aggregate(average(cohort, share), cohort.ids, cohort.names, kept, share, dropped=cohort.dropped)


def head_layers(cohort: Cohort) -> list[int]:
    """Places of the classifier's layers: the one that ends the model, and those of the same module."""
    last = max(range(len(cohort.layers)), key=lambda place: max(span.stop for span in cohort.layers[place].slices))
    module = cohort.names[last].rpartition(".")[0]
    same = [place for place, name in enumerate(cohort.names) if module and name.rpartition(".")[0] == module]
    return same or [last]


def fedrep_plan(plan: Plan, options: FedRepOptions) -> Plan:
    """Clients train the plug-in itself."""
    return msgspec.structs.replace(plan, mode="supervised")


def before(received: Received, kept: Kept) -> JobChanges:
    """Clients put their classifier on the body, train it, and then the body."""
    options = received.options(FedRepOptions)
    head_epochs = options.head_epochs or max(1, received.plan.epochs - 1)
    own, begin = kept.get(HEAD), received.plugin.copy()
    if own is not None and own.shape == (received.head,):
        begin[-received.head :] = own
    body = np.ones(begin.size, np.float32)
    body[-received.head :] = 0.0
    head = np.ones_like(body) - body
    second = JobChanges(terms=("freeze",), vectors={"keep": body}, epochs=options.body_epochs)
    return JobChanges(terms=("freeze",), vectors={"keep": head}, begin=begin, epochs=head_epochs, then=(second,))


def after(trained: Trained, kept: Kept) -> tuple[Sent, Kept]:
    """Clients keep their classifier."""
    return {}, {HEAD: trained.plugin[-trained.received.head :].copy()}


def travels(trained: Trained) -> Flat:
    """(P,) the body alone: of the classifier what was received."""
    head = trained.received.head
    return np.concatenate([trained.plugin[:-head], trained.received.plugin[-head:]])


FEDREP = Method(
    Rule(NAME, fedrep, FedRepOptions(), mean=True, plan=fedrep_plan, composes=True),
    before=before,
    after=after,
    travels=travels,
)
