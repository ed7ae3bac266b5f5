"""MuPFL: personalised learning of devices whose clips differ, in three parts.

While they train, devices drop activations (BAVD, eq. 6). The coordinator groups them by how they moved and what they
activate, and averages the groups' models (ACMU, eq. 7-15). From the gradients of their classifiers by class it makes
features that stand for the clips of all, on which each device tunes its own classifier at the start of the next round
(PKCF, eq. 16-21). Broadcast (w, H) -> tune -> train with BAVD -> send w_i, maps and gradients -> ACMU -> (15) -> PKCF.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.rules.acmu import PKCF, PkcfOptions, acmu_plan, acmu_tuning
from auricle_learning.aggregation.rules.model_groups import clustered
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.methods.method import NO_CHANGES, JobChanges, Kept, Method, Received, Sent, Trained

NAME, HEAD = "mupfl", "head"
FLEET, CLUSTER = "fleet", "cluster"


class MupflOptions(PkcfOptions, frozen=True):
    """Options of `mupfl`: those of `acmu`, whose parts are all on; `maps` counts with `bavd` alone."""

    start: Annotated[
        Literal["fleet", "cluster"],
        Meta(
            description='With what a device\'s next round begins (A27): "fleet", the body of w with its own '
            'classifier, which it tunes first; "cluster", w̃_i (eq. 14). With "fleet" Δ_i is w_i - w^t, the '
            "device's own classifier included."
        ),
    ] = "fleet"
    bavd: Annotated[bool, Meta(description="Whether clients drop activations while they train.")] = True
    maps: Annotated[bool, Meta(description="Whether they send their last maps of activations, with `bavd`.")] = True
    pkcf: Annotated[
        bool, Meta(description="Whether features H are kept, on which clients tune their classifiers (eq. 21).")
    ] = True


def mupfl(cohort: Cohort, options: MupflOptions) -> Aggregate:
    """Group clients, average their groups' models, w = Σ p_i w̃_i (eq. 15), and move PKCF's features, as `acmu` does.

    Parameters
    ----------
    cohort
        As of `acmu`.

    Returns
    -------
    Aggregate
        As of `acmu`, with `start="fleet"` without models in `clusters`.

    Raises
    ------
    CohortError
        The models that the clients started from are not of this model's size.
    """
    made = clustered(cohort, NAME, options, features=options.pkcf_features if options.pkcf else None)
    if made.clusters is None or options.start == CLUSTER:
        return made
    return replace(made, clusters=replace(made.clusters, models=None))


def before(received: Received, kept: Kept) -> JobChanges:
    """Clients put their own classifier on the fleet's body, which is then tuned on H (A27, A31) and trained."""
    own = kept.get(HEAD)
    if received.options(MupflOptions).start != FLEET or own is None or own.shape != (received.head,):
        return NO_CHANGES
    return JobChanges(begin=np.concatenate([received.plugin[: -received.head], own]))


def after(trained: Trained, kept: Kept) -> tuple[Sent, Kept]:
    """Clients keep their classifier."""
    received = trained.received
    return {}, {HEAD: trained.plugin[-received.head :].copy()} if received.options(MupflOptions).start == FLEET else {}


MUPFL = Method(
    Rule(
        NAME,
        mupfl,
        MupflOptions(),
        needs=("personal-models", "server-state"),
        plan=acmu_plan,
        tunes=acmu_tuning,
        tuning_options=PKCF,
    ),
    before=before,
    after=after,
)
