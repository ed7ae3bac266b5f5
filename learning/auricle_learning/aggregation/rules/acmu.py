"""Adaptive clustering of models, ACMU (MuPFL, eq. 7-15), and the features that PKCF lends to devices (eq. 16-21)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import convert

from auricle.errors import SettingsError
from auricle.wire.plan import Bavd, Plan
from auricle.wire.prior_knowledge import MOST_EPOCHS, MOST_FEATURES, Tuning
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.options import check_choice, check_count, check_number, check_switch
from auricle_learning.aggregation.rules.model_groups import clustered

NAME = "acmu"


def check_acmu(
    *,
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
    """Refuse an α outside [0, 1], fewer than two clusters, maps of activations that are not dropped, or too much PKCF.

    Raises
    ------
    SettingsError
        An option is not allowed.
    """
    check_number("alpha", alpha, below=1.0 + 1e-12)
    check_count("max_clusters", max_clusters, least=2, optional=False)
    check_choice("weighting", weighting, ("samples", "uniform"))
    check_switch("bavd", bavd)
    check_switch("maps", maps)
    if maps and not bavd:
        raise SettingsError("maps is true; only with bavd do devices have maps: set that as well.")
    check_switch("pkcf", pkcf)
    for name, value, most in (
        ("pkcf_features", pkcf_features, MOST_FEATURES),
        ("pkcf_epochs", pkcf_epochs, MOST_EPOCHS),
    ):
        check_count(name, value, least=1, optional=False)
        if value > most:
            raise SettingsError(f"{name} is {value}; at most {most} are allowed.")
    check_number("pkcf_rate", pkcf_rate, above=True, below=10.0)


def acmu(
    cohort: Cohort,
    *,
    alpha: float = 0.5,
    max_clusters: int = 6,
    weighting: str = "samples",
    bavd: bool = False,
    maps: bool = False,
    pkcf: bool = False,
    pkcf_features: int = 100,
    pkcf_epochs: int = 50,
    pkcf_rate: float = 0.01,
) -> Aggregate:
    """Group clients by how they moved and what they activate, give each its group's step, and average these models.

    S_ij = α cos(Δ_i, Δ_j) + (1-α) cos(M_i, M_j), distance 1 - S (A23); k-means for 2 to κ_max groups, the number by
    silhouette (eq. 9-13, A24). w̃_i = w_i^{t-1} + mean of Δ in i's group (eq. 14), w = Σ p_i w̃_i (eq. 15). Where all
    start from the same model with equal p, w is FedAvg's (A26): the use is in the personal models w̃_i.

    Parameters
    ----------
    cohort
        K updates with `extras.maps` (K, M), without which α is 1, and `extras.starts` (K, P), w^t without; for PKCF
        with `extras.gradients`, of all groups together.
    alpha
        α, from 0 to 1.
    max_clusters
        κ_max.
    weighting
        p_i: "samples" or "uniform".
    bavd
        Whether clients drop activations while they train (`acmu_plan`); the rule itself does not use it.
    maps
        Whether they send their last maps; the rule uses those that the cohort has.
    pkcf
        Whether the rule keeps features H (`synthesised`), and clients tune their classifiers on them (`acmu_tuning`).
    pkcf_features
        m of each class.
    pkcf_epochs, pkcf_rate
        τ and learning rate of this tuning; the rule itself does not use them.

    Returns
    -------
    Aggregate
        `weights` (P,), the groups and w̃ in `clusters`; `share` of each Δ; `score` (K,) the groups' numbers; with
        PKCF H in `state` and what became of it in `synthesis`.

    Raises
    ------
    SettingsError
        An option is not allowed.
    CohortError
        The models that the clients started from are not of this model's size.

    Examples
    --------
    >>> from auricle_learning import average
    >>> from auricle_learning.aggregation.extras import Extras
    >>> average([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 3.0]], method="acmu", extras=Extras())
    array([1., 1.])
    """
    check_acmu(
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
    return clustered(cohort, NAME, alpha=alpha, max_clusters=max_clusters, weighting=weighting, features=features)


def acmu_tuning(options: Mapping[str, object]) -> Tuning | None:
    """How clients tune their classifiers before they train (eq. 21); None where the option does not ask for it."""
    told = {name: options[f"pkcf_{name}"] for name in ("features", "epochs", "rate")}
    return convert(told, Tuning) if options["pkcf"] else None


def acmu_plan(plan: Plan, options: Mapping[str, object]) -> Plan:
    """Clients train with biased activation value dropout (eq. 6) where the option says so; else as the plan was."""
    return msgspec.structs.replace(plan, bavd=Bavd(maps=bool(options["maps"]))) if options["bavd"] else plan
