"""Layer-wise pruning with inference-loss weights: FedMLAC decides who counts, FedVSA with what weight."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np

from auricle.wire.plan import Plan
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.rules.average import average, unchanged
from auricle_learning.aggregation.rules.fedvsa import NO_LOSS, Clip, Limit, ReportedLoss, limit_losses, softmax_share
from auricle_learning.aggregation.rules.lpa import prune
from auricle_learning.aggregation.rules.pruning import PruningOptions


class LpaFedVsaOptions(PruningOptions, frozen=True):
    """Options of `lpa_fedvsa`: those of both."""

    clip: Clip = 5.0
    limit: Limit = "clamp"
    inference_loss: ReportedLoss = "ce"


def lpa_fedvsa_plan(plan: Plan, options: LpaFedVsaOptions) -> Plan:
    """Devices say the loss of the option `inference_loss`."""
    return msgspec.structs.replace(plan, inference_loss=options.inference_loss)


def lpa_fedvsa(cohort: Cohort, options: LpaFedVsaOptions) -> Aggregate:
    """Prune each layer by deviation, then weigh those who are left by softmax of their limited losses.

    T_l as in `lpa` (FedMLAC eq. 9-12), f as in `fedvsa` (FedVSA eq. 6-7), and for every layer
    w_l = Σ_{T_l} p[k,l] w[k,l], where p[:,l] is the softmax of f renormalised over T_l (in place of FedMLAC eq. 13).

    A client whose loss is NaN takes part in the deviations and in the sizes ⌊v K⌋, and has weight 0. The formulas of
    T_l speak of models alone, and A15 defines K as the clients with finite *uploads*; a loss that is missing says
    nothing about the model. So T_l is that of `lpa` whatever the losses are. The norm of
    `limit="norm"` is likewise that of the whole cohort, taken once.

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P), `losses` (K,), `layers` L groups.

    Returns
    -------
    Aggregate
        `weights` (P,), `kept` (K, L) = T_l. A layer in which no kept client has a usable loss keeps w^t, has an
        all-zero column in `share`, and is named by the flag. Where that is every layer, `kept` is empty too, so that
        the caller sees a round without a usable update.

    Examples
    --------
    >>> from auricle_learning import average
    >>> models = [[1.0], [2.0], [3.0], [4.0], [90.0]]
    >>> losses = [0.0, 0.0, 1.0, 0.0, 0.0]
    >>> average(models, losses=losses, method="lpa+fedvsa", prune_high=0.2, prune_low=0.2).round(3)
    array([2.364])
    """
    if not cohort.ids:
        return unchanged(cohort)
    pruning = prune(cohort, options)
    limited = limit_losses(cohort.losses, clip=options.clip, limit=options.limit)
    counting = pruning.kept & ~np.isnan(limited)[:, None]
    if not counting.any():
        nobody = unchanged(cohort, NO_LOSS)
        return replace(nobody, deviation=pruning.deviation, pruned=pruning.pruned, warnings=pruning.warnings)
    share = np.zeros(counting.shape)
    idle: list[str] = []
    for column, name in enumerate(cohort.names):
        if counting[:, column].any():
            share[:, column] = softmax_share(limited, counting[:, column])
        else:
            idle.append(name)
    return Aggregate(
        weights=average(cohort, share),
        ids=cohort.ids,
        layers=cohort.names,
        kept=pruning.kept,
        share=share,
        deviation=pruning.deviation,
        pruned=pruning.pruned,
        dropped=cohort.dropped,
        flag=f"no usable inference loss among those kept in {', '.join(idle)}: unchanged there" if idle else None,
        warnings=pruning.warnings,
    )
