"""What a round's plan, and its method, mean for the training of a device."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from auricle.packs.pack import SLOTS, Pack
from auricle.wire.gradient_terms import TERMS, Term
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_learning.methods.method import NO_CHANGES, JobChanges
from auricle_learning.training.speech_data import Clips

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


def scalars_of(plan: Plan, changes: JobChanges = NO_CHANGES) -> dict[str, float]:
    """A plan's hyper-parameters under the names of a job's scalars, as the round's method changes them."""
    mutual = plan.mode == "mutual"
    rates = {"local": plan.local_rate, "plugin": plan.rate} if mutual else {"model": plan.rate}
    common = {"decay": plan.decay, "clip": plan.clip or math.inf, "momentum": plan.momentum}
    named = {f"{role}.{name}": value for role in rates for name, value in common.items()}
    named.update({f"{role}.rate": rate for role, rate in rates.items()})
    if plan.optimizer == "mixed" and mutual:
        flat = {"beta1": 0.0, "beta2": 0.0, "epsilon": FLAT, "decay": 0.0, "rate": plan.rate * FLAT}
        named.update({f"plugin.{name}": value for name, value in flat.items()})
    for term in terms_of(plan):
        named.update({f"{_role(plan)}.{name}": getattr(plan, field) for name, field in TERMS[term].scalars.items()})
    if mutual:
        named.update({"alpha": plan.alpha, "plugin_ce": plan.plugin_ce, "temperature": plan.temperature})
    return {**named, **{f"{_role(plan)}.{name}": value for name, value in changes.scalars.items()}}


def terms_of(plan: Plan, changes: JobChanges = NO_CHANGES) -> tuple[Term, ...]:
    """The optional terms of the gradient that a plan asks for, and those of the round's method."""
    asked = (name for name, term in TERMS.items() if any(getattr(plan, field) for field in term.scalars.values()))
    return tuple(dict.fromkeys((*asked, *changes.terms)))


def vectors_of(plan: Plan, received: Flat, changes: JobChanges) -> dict[str, Flat]:
    """The vectors of the gradient's terms by `role.name`; a proximal term holds the plug-in to what was received.

    Parameters
    ----------
    plan
        The round's.
    received
        Weights (P,) of the plug-in that training starts from.
    changes
        Of the round's method.
    """
    filled = [name for term in terms_of(plan) for name, fill in TERMS[term].vectors.items() if fill == "received"]
    return {
        f"{_role(plan)}.{name}": vector
        for name, vector in {**dict.fromkeys(filled, received), **changes.vectors}.items()
    }


def adjusted(plugin: Flat, clips: Clips, strength: float, pack: Pack) -> Flat:
    """A plug-in (P,) with the clips' log label frequencies added to its biases: logit adjustment.

    That is Menon et al. 2021, eq. 10. Training with them and taking them off again keeps a device that lacks some words
    from unlearning these. Frequencies are those of the clips' weights, smoothed by half a clip a label and centred;
    strength 0: nothing.
    """
    if not strength:
        return plugin
    labels = len(pack.labels)
    counts = np.bincount(clips.targets, clips.weights, minlength=labels) + 0.5
    prior = np.log(counts / counts.sum())
    moved: Flat = plugin.copy()
    moved[-labels:] += (strength * (prior - prior.mean())).astype(np.float32)
    return moved


def _role(plan: Plan) -> str:
    """What a plan's terms are for: the plug-in."""
    return "plugin" if plan.mode == "mutual" else "model"


def fitting_slots(pack: Pack, models: Mapping[str, str], plan: Plan, slots: Mapping[str, Flat]) -> dict[str, Flat]:
    """The kept optimizer vectors by `model.slot`; none unless every vector that this plan needs was kept."""
    sizes = {
        f"{role}.{slot}": pack.table(a).size for role, a in models.items() for slot in SLOTS[graph_optimizer(plan)]
    }
    whole = all(name in slots and slots[name].shape == (size,) for name, size in sizes.items())
    return {name: slots[name] for name in sizes} if plan.keep_state and whole else {}
