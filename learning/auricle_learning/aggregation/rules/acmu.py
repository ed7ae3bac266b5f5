"""Adaptive clustering of models, ACMU (MuPFL, eq. 7-15), and the features that PKCF lends to devices (eq. 16-21)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from auricle.errors import SettingsError
from auricle.wire.plan import Bavd, Plan
from auricle.wire.prior_knowledge import MOST_EPOCHS, MOST_FEATURES, Tuning
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.rules.model_groups import GroupOptions, clustered
from auricle_learning.aggregation.rules.rule import TuningOptions

NAME = "acmu"
PKCF = TuningOptions(switch="pkcf", features="pkcf_features")
"""Which of its options lend features to devices."""


class PkcfOptions(GroupOptions, frozen=True):
    """Options of `acmu` and MuPFL: how devices are grouped, and how they tune their classifiers (PKCF)."""

    bavd: Annotated[bool, Meta(description="Whether clients drop activations while they train.")] = False
    maps: Annotated[bool, Meta(description="Whether they send their last maps of activations, with `bavd`.")] = False
    pkcf: Annotated[
        bool, Meta(description="Whether features H are kept, on which clients tune their classifiers (eq. 21).")
    ] = False
    pkcf_features: Annotated[int, Meta(ge=1, le=MOST_FEATURES, description="m of each class.")] = 100
    pkcf_epochs: Annotated[int, Meta(ge=1, le=MOST_EPOCHS, description="τ of this tuning.")] = 50
    pkcf_rate: Annotated[float, Meta(gt=0, lt=10, description="Learning rate of this tuning.")] = 0.01


class AcmuOptions(PkcfOptions, frozen=True):
    """Options of `acmu`.

    Raises
    ------
    SettingsError
        Maps are asked for of activations that are not dropped.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.maps and not self.bavd:
            raise SettingsError("maps is true; only with bavd do devices have maps: set that as well.")


def acmu(cohort: Cohort, options: AcmuOptions) -> Aggregate:
    """Group clients by how they moved and what they activate, give each its group's step, and average these models.

    S_ij = α cos(Δ_i, Δ_j) + (1-α) cos(M_i, M_j), distance 1 - S (A23); k-means for 2 to κ_max groups, the number by
    silhouette (eq. 9-13, A24). w̃_i = w_i^{t-1} + mean of Δ in i's group (eq. 14), w = Σ p_i w̃_i (eq. 15). Where all
    start from the same model with equal p, w is FedAvg's (A26): the use is in the personal models w̃_i.

    Parameters
    ----------
    cohort
        K updates with `extras.maps` (K, M), without which α is 1, and `extras.starts` (K, P), w^t without; for PKCF
        with `extras.gradients`, of all groups together.

    Returns
    -------
    Aggregate
        `weights` (P,), the groups and w̃ in `clusters`; `share` of each Δ; `score` (K,) the groups' numbers; with
        PKCF H in `state` and what became of it in `synthesis`.

    Raises
    ------
    CohortError
        The models that the clients started from are not of this model's size.

    Examples
    --------
    >>> from auricle_learning import average
    >>> from auricle_learning.aggregation.extras import Extras
    >>> average([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 3.0]], method="acmu", extras=Extras())
    array([1., 1.])
    """
    return clustered(cohort, NAME, options, features=options.pkcf_features if options.pkcf else None)


def acmu_tuning(options: PkcfOptions) -> Tuning | None:
    """How clients tune their classifiers before they train (eq. 21); None where the option does not ask for it."""
    if not options.pkcf:
        return None
    return Tuning(features=options.pkcf_features, epochs=options.pkcf_epochs, rate=options.pkcf_rate)


def acmu_plan(plan: Plan, options: PkcfOptions) -> Plan:
    """Clients train with biased activation value dropout (eq. 6) where the option says so; else as the plan was."""
    return msgspec.structs.replace(plan, bavd=Bavd(maps=options.maps)) if options.bavd else plan
