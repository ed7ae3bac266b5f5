"""Local training alone: each device's own model learns from its own clips, and nothing is aggregated.

That is the baseline of personalised learning ([MLAC], "Local"): what federation has to beat on a device's own clips.
"""

from __future__ import annotations

import msgspec

from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.options import Options
from auricle_learning.aggregation.rules.average import unchanged
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.aggregation.rules.weighting import WeightedOptions, client_share, of_clients
from auricle_learning.methods.method import JobChanges, Kept, Method, Received, Trained

NAME = "local"


def local(cohort: Cohort) -> Aggregate:
    """Keep w^t, whatever is sent; `share` says how many clips each client trained on.

    Parameters
    ----------
    cohort
        K updates: `samples` (K,).

    Returns
    -------
    Aggregate
        `weights` (P,), those of w^t.
    """
    if not cohort.ids:
        return unchanged(cohort)
    return of_clients(cohort, cohort.start, client_share(cohort, WeightedOptions()))


def local_plan(plan: Plan, options: Options) -> Plan:
    """Clients train one model alone."""
    return msgspec.structs.replace(plan, mode="supervised")


def before(received: Received, kept: Kept) -> JobChanges:
    """Clients train their own model on labels."""
    return JobChanges(trains="local")


def travels(trained: Trained) -> Flat:
    """(P,) what was received: nothing that was learnt leaves."""
    return trained.received.plugin


LOCAL = Method(Rule(NAME, local, plan=local_plan, step=True), before=before, travels=travels, own_model=True)
