"""FedMLAC: mutual learning on devices and layer-wise pruning aggregation at the coordinator, or either of them alone.

A device trains its own model ω_k, of whatever architecture, and the plug-in θ, which alone travels, on the same batches
(eq. 5-8; A4-A7): L_k = α CE(F_k, y) + (1 - α) KL(F_g ‖ F_k), L_g = KL(F_k ‖ F_g). The coordinator prunes and averages
the plug-ins layer by layer (eq. 9-13, `lpa`).
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from auricle.wire.plan import Plan
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.rules.fedavg import FedAvgOptions, fedavg
from auricle_learning.aggregation.rules.lpa import LpaOptions
from auricle_learning.aggregation.rules.lpa import lpa as pruned
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.methods.method import Method

NAME = "fedmlac"


class FedMlacOptions(LpaOptions, frozen=True):
    """Options of `fedmlac`; v_l and v_h are those of `lpa` (A14)."""

    alpha: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="α of the devices, the weight of labels in their own models' loss (A4); the average does not "
            "use it.",
        ),
    ] = 0.5
    mutual: Annotated[bool, Meta(description="Whether devices learn mutually; the average does not use it.")] = True
    lpa: Annotated[
        bool, Meta(description="Whether the coordinator prunes; without, it averages as `fedavg` does by samples (A9).")
    ] = True

    @property
    def farthest(self) -> float:
        """v_h where the coordinator prunes, else 0."""
        return self.prune_high if self.lpa else 0.0


def fedmlac(cohort: Cohort, options: FedMlacOptions) -> Aggregate:
    """Average the plug-ins layer by layer without those that deviate least and most (Algorithm 2, eq. 9-13).

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P), `samples` (K,), `layers` L groups.

    Returns
    -------
    Aggregate
        As of `lpa`, or of `fedavg`.
    """
    return pruned(cohort, options) if options.lpa else fedavg(cohort, FedAvgOptions())


def fedmlac_plan(plan: Plan, options: FedMlacOptions) -> Plan:
    """Devices learn mutually with this α (eq. 5-8), or train the plug-in alone by cross-entropy (A9)."""
    if not options.mutual:
        return msgspec.structs.replace(plan, mode="supervised")
    return msgspec.structs.replace(plan, mode="mutual", alpha=options.alpha)


FEDMLAC = Method(Rule(NAME, fedmlac, FedMlacOptions(), mean=True, plan=fedmlac_plan, composes=True))
