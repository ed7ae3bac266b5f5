"""Ditto: a personal model beside the fleet's (Li et al. 2021, https://arxiv.org/abs/2012.04221), Algorithm 1.

A client trains w as FedAvg has it, and by as many steps v ← v - η (∇F_k(v) + λ (v - w^t)), w^t the model it received.
v stays on the device and begins with the first w^t; the server averages the w_k.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from auricle.wire.plan import Plan
from auricle_learning.aggregation.cohort import Aggregate, Cohort
from auricle_learning.aggregation.rules.fedavg import FedAvgOptions, fedavg
from auricle_learning.aggregation.rules.rule import Rule
from auricle_learning.methods.method import JobChanges, Kept, Method, Received, Sent, Trained

NAME = "ditto"
PERSONAL = "personal"


class DittoOptions(FedAvgOptions, frozen=True):
    """Options of `ditto`."""

    lam: Annotated[
        float, Meta(ge=0, le=100, description="λ, from 0 (each for itself) to 100; the average does not use it.")
    ] = 1.0


def ditto(cohort: Cohort, options: DittoOptions) -> Aggregate:
    """Average the clients' models: w = Σ p_k w_k; their personal models follow by ∇F_k(v) + λ (v - w^t).

    Parameters
    ----------
    cohort
        K updates: `weights` (K, P), `samples` (K,).

    Returns
    -------
    Aggregate
        As of `fedavg`.
    """
    return fedavg(cohort, options)


def ditto_plan(plan: Plan, options: DittoOptions) -> Plan:
    """Clients train the plug-in itself."""
    return msgspec.structs.replace(plan, mode="supervised")


def before(received: Received, kept: Kept) -> JobChanges:
    """Clients train v after w, from where it was, with λ (v - w^t) added to the gradient."""
    own = kept.get(PERSONAL)
    begin = received.plugin if own is None or own.shape != received.plugin.shape else own
    personal = JobChanges(
        terms=("drift",),
        vectors={"anchor": received.plugin},
        scalars={"mu": received.options(DittoOptions).lam},
        trains="personal",
        begin=begin,
    )
    return JobChanges(then=(personal,))


def after(trained: Trained, kept: Kept) -> tuple[Sent, Kept]:
    """Clients keep v."""
    return {}, {} if trained.personal is None else {PERSONAL: trained.personal}


DITTO = Method(Rule(NAME, ditto, DittoOptions(), mean=True, plan=ditto_plan, composes=True), before=before, after=after)
