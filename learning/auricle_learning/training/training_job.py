"""What a round's plan, and its method, mean for the training of a device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from auricle.packs.pack import SLOTS, Pack
from auricle.wire.gradient_terms import TERMS
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_learning.methods.method import NO_CHANGES, JobChanges
from auricle_learning.methods.passes import graph_optimizer, terms_of
from auricle_learning.runtimes.feeds import SHARED
from auricle_learning.training.speech_data import Clips

FLAT = 1e6
"""An epsilon that swamps the second moment: AdamW with beta1 = 0 then is plain SGD at rate / FLAT, to 1e-5."""


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
    own = {n if n in SHARED else f"{_role(plan)}.{n}": value for n, value in changes.scalars.items()}
    return {**named, **own}


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


@dataclass(frozen=True)
class Models:
    """The weights of a device's models between two passes of a round."""

    plugin: Flat
    """(P,) the plug-in."""
    local: Flat
    """(Q,) the device's own model."""
    personal: Flat | None = None
    """(P,) the one that never leaves; None before the first pass that trains it."""
    own: bool = False
    """Whether a pass trained the device's own model."""

    def begin(self, changes: JobChanges) -> Flat:
        """What a pass begins with."""
        if changes.begin is not None:
            return changes.begin
        if changes.trains == "personal" and self.personal is not None:
            return self.personal
        return self.local if changes.trains == "local" else self.plugin

    def after(self, changes: JobChanges, final: Mapping[str, Flat]) -> Models:
        """The models after a pass that gave these weights by role."""
        if changes.trains == "personal":
            return replace(self, personal=final["model"])
        if changes.trains == "local":
            return replace(self, local=final["model"], own=True)
        if "local" in final:
            return replace(self, plugin=final["plugin"], local=final["local"], own=True)
        return replace(self, plugin=final["model"])

    def judged(self, own: str, plugin: str) -> tuple[str, Flat]:
        """The model that the device would use, with its architecture: its own where that was trained.

        Parameters
        ----------
        own, plugin
            The architectures of the device's own model and of the plug-in.
        """
        if self.own:
            return own, self.local
        return plugin, self.plugin if self.personal is None else self.personal
