"""What a round's plan means for a device: which step graph, with which hyper-parameters, from which state."""

from __future__ import annotations

import math
from collections.abc import Mapping

from auricle.packs.graph_interface import Term
from auricle.packs.pack import SLOTS, Pack
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat

FLAT = 1e6
"""An epsilon that swamps the second moment: AdamW with beta1 = 0 then is plain SGD at rate / FLAT, to 1e-5."""


def graph_optimizer(plan: Plan) -> str:
    """Which step graph a plan needs: `mixed` runs on AdamW's, or on SGD's where there is only the plug-in."""
    if plan.optimizer != "mixed":
        return plan.optimizer
    return "adamw" if plan.mode == "mutual" else "sgd"


def graph_kind(plan: Plan) -> str:
    """Which kind of step graph a plan needs."""
    return "alternating" if (plan.mode, plan.order) == ("mutual", "alternating") else plan.mode


def scalars_of(plan: Plan) -> dict[str, float]:
    """A plan's hyper-parameters under the names of a job's scalars."""
    mutual = plan.mode == "mutual"
    rates = {"local": plan.local_rate, "plugin": plan.rate} if mutual else {"model": plan.rate}
    common = {"decay": plan.decay, "clip": plan.clip or math.inf, "momentum": plan.momentum}
    named = {f"{role}.{name}": value for role in rates for name, value in common.items()}
    named.update({f"{role}.rate": rate for role, rate in rates.items()})
    if plan.optimizer == "mixed" and mutual:
        flat = {"beta1": 0.0, "beta2": 0.0, "epsilon": FLAT, "decay": 0.0, "rate": plan.rate * FLAT}
        named.update({f"plugin.{name}": value for name, value in flat.items()})
    if plan.mu:
        named["plugin.mu" if mutual else "model.mu"] = plan.mu
    if mutual:
        named.update({"alpha": plan.alpha, "plugin_ce": plan.plugin_ce, "temperature": plan.temperature})
    return named


def terms_of(plan: Plan) -> tuple[Term, ...]:
    """The optional terms of the gradient that a plan asks for."""
    return ("drift",) if plan.mu else ()


def vectors_of(plan: Plan, received: Flat) -> dict[str, Flat]:
    """The vectors of these terms by `role.name`; a proximal term holds the plug-in to what was received (FedProx).

    Parameters
    ----------
    plan
        The round's.
    received
        Weights (P,) of the plug-in that training starts from.
    """
    role = "plugin" if plan.mode == "mutual" else "model"
    return {f"{role}.anchor": received} if plan.mu else {}


def fitting_slots(pack: Pack, models: Mapping[str, str], plan: Plan, slots: Mapping[str, Flat]) -> dict[str, Flat]:
    """The kept optimizer vectors by `model.slot`; none unless every vector that this plan needs was kept."""
    sizes = {
        f"{role}.{slot}": pack.table(a).size for role, a in models.items() for slot in SLOTS[graph_optimizer(plan)]
    }
    whole = all(name in slots and slots[name].shape == (size,) for name, size in sizes.items())
    return {name: slots[name] for name in sizes} if plan.keep_state and whole else {}
