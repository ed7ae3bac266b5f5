"""FedMLAC: mutual learning on devices and layer-wise pruning aggregation at the coordinator, or either of them alone.

A device trains its own model ω_k, of whatever architecture, and the plug-in θ, which alone travels, on the same batches
(eq. 5-8; A4-A7): L_k = α CE(F_k, y) + (1 - α) KL(F_g ‖ F_k), L_g = KL(F_k ‖ F_g). The coordinator prunes and averages
the plug-ins layer by layer (eq. 9-13, `lpa`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from auricle.wire.plan import Plan
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.options import check_number, check_switch
from auricle_learning.aggregation.rules.fedavg import fedavg
from auricle_learning.aggregation.rules.lpa import check_pruning
from auricle_learning.aggregation.rules.lpa import lpa as pruned
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.methods.method import Method

NAME = "fedmlac"


def check_fedmlac(*, alpha: float, prune_low: float, prune_high: float, mutual: bool, lpa: bool) -> None:
    """Refuse an α outside [0, 1], fractions that `lpa` refuses, and switches that are neither true nor false.

    Raises
    ------
    SettingsError
        An option is not allowed.
    """
    check_number("alpha", alpha, below=1.0 + 1e-12)
    check_pruning(prune_low=prune_low, prune_high=prune_high)
    check_switch("mutual", mutual)
    check_switch("lpa", lpa)


def fedmlac(
    cohort: Cohort,
    *,
    alpha: float = 0.5,
    prune_low: float = 0.1,
    prune_high: float = 0.1,
    mutual: bool = True,
    lpa: bool = True,
) -> Aggregate:
    """Average the plug-ins layer by layer without those that deviate least and most (Algorithm 2, eq. 9-13).

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P), `samples` (K,), `layers` L groups.
    alpha
        α of the devices, the weight of labels in their own models' loss (A4); the average does not use it.
    prune_low, prune_high
        v_l and v_h, as in `lpa` (A14).
    mutual
        Whether devices learn mutually (`fedmlac_plan`); the average does not use it.
    lpa
        Whether the coordinator prunes; without, it averages as `fedavg` does by samples (A9).

    Returns
    -------
    Aggregate
        As of `lpa`, or of `fedavg`.

    Raises
    ------
    SettingsError
        An option is not allowed.
    """
    check_fedmlac(alpha=alpha, prune_low=prune_low, prune_high=prune_high, mutual=mutual, lpa=lpa)
    return pruned(cohort, prune_low=prune_low, prune_high=prune_high) if lpa else fedavg(cohort)


def fedmlac_plan(plan: Plan, options: Mapping[str, object]) -> Plan:
    """Devices learn mutually with this α (eq. 5-8), or train the plug-in alone by cross-entropy (A9)."""
    if not options["mutual"]:
        return msgspec.structs.replace(plan, mode="supervised")
    return msgspec.structs.replace(plan, mode="mutual", alpha=float(str(options["alpha"])))


FEDMLAC = Method(Rule(NAME, fedmlac, check_fedmlac, mean=True, plan=fedmlac_plan))
