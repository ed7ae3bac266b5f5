"""MuPFL: personalised learning of devices whose clips differ, in three parts.

While they train, devices drop activations (BAVD, eq. 6). The coordinator groups them by how they moved and what they
activate, and averages the groups' models (ACMU, eq. 7-15). From the gradients of their classifiers by class it makes
features that stand for the clips of all, on which each device tunes its own classifier at the start of the next round
(PKCF, eq. 16-21). Broadcast (w, H) -> tune -> train with BAVD -> send w_i, maps and gradients -> ACMU -> (15) -> PKCF.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.options import check_choice
from auricle_learning.aggregation.rules.acmu import acmu_plan, acmu_tuning, check_acmu
from auricle_learning.aggregation.rules.model_groups import clustered
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.methods.method import NO_CHANGES, JobChanges, Kept, Method, Received, Sent, Trained

NAME, HEAD = "mupfl", "head"
FLEET, CLUSTER = "fleet", "cluster"


def check_mupfl(
    *,
    start: str,
    alpha: float,
    max_clusters: int,
    weighting: str,
    bavd: bool,
    maps: bool,
    pkcf: bool,
    pkcf_features: int,
    pkcf_epochs: int,
    pkcf_rate: float,
) -> None:
    """Refuse a start that does not exist, and what `acmu` refuses; maps without `bavd` are none.

    Raises
    ------
    SettingsError
        An option is not allowed.
    """
    check_choice("start", start, (FLEET, CLUSTER))
    check_acmu(
        alpha=alpha,
        max_clusters=max_clusters,
        weighting=weighting,
        bavd=bavd,
        maps=False if maps is True and bavd is False else maps,
        pkcf=pkcf,
        pkcf_features=pkcf_features,
        pkcf_epochs=pkcf_epochs,
        pkcf_rate=pkcf_rate,
    )


def mupfl(
    cohort: Cohort,
    *,
    start: str = FLEET,
    alpha: float = 0.5,
    max_clusters: int = 6,
    weighting: str = "samples",
    bavd: bool = True,
    maps: bool = True,
    pkcf: bool = True,
    pkcf_features: int = 100,
    pkcf_epochs: int = 50,
    pkcf_rate: float = 0.01,
) -> Aggregate:
    """Group clients, average their groups' models, w = Σ p_i w̃_i (eq. 15), and move PKCF's features, as `acmu` does.

    Parameters
    ----------
    cohort
        As of `acmu`.
    start
        With what a device's next round begins (A27): "fleet", the body of w with its own classifier, which it tunes
        first; "cluster", w̃_i (eq. 14). With "fleet" Δ_i is w_i - w^t, the device's own classifier included.
    bavd, maps, pkcf
        The parts, see `acmu`; `maps` counts with `bavd` alone.
    alpha, max_clusters, weighting, pkcf_features, pkcf_epochs, pkcf_rate
        As of `acmu`.

    Returns
    -------
    Aggregate
        As of `acmu`, with `start="fleet"` without models in `clusters`.

    Raises
    ------
    SettingsError
        An option is not allowed.
    CohortError
        The models that the clients started from are not of this model's size.
    """
    check_mupfl(
        start=start,
        alpha=alpha,
        max_clusters=max_clusters,
        weighting=weighting,
        bavd=bavd,
        maps=maps,
        pkcf=pkcf,
        pkcf_features=pkcf_features,
        pkcf_epochs=pkcf_epochs,
        pkcf_rate=pkcf_rate,
    )
    features = pkcf_features if pkcf else None
    made = clustered(cohort, NAME, alpha=alpha, max_clusters=max_clusters, weighting=weighting, features=features)
    if made.clusters is None or start == CLUSTER:
        return made
    return replace(made, clusters=replace(made.clusters, models=None))


def before(received: Received, kept: Kept) -> JobChanges:
    """Clients put their own classifier on the fleet's body, which is then tuned on H (A27, A31) and trained."""
    own = kept.get(HEAD)
    if received.options["start"] != FLEET or own is None or own.shape != (received.head,):
        return NO_CHANGES
    return JobChanges(begin=np.concatenate([received.plugin[: -received.head], own]))


def after(trained: Trained, kept: Kept) -> tuple[Sent, Kept]:
    """Clients keep their classifier."""
    received = trained.received
    return {}, {HEAD: trained.plugin[-received.head :].copy()} if received.options["start"] == FLEET else {}


MUPFL = Method(
    Rule(
        NAME,
        mupfl,
        check_mupfl,
        needs=("personal-models", "server-state"),
        plan=acmu_plan,
        tunes=acmu_tuning,
    ),
    before=before,
    after=after,
)
