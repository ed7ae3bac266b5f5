"""What a round's plan, and its method, mean for the training of a device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auricle.packs.pack import SLOTS, Pack
from auricle.wire.gradient_terms import TERMS
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_learning.methods.method import NO_CHANGES, JobChanges
from auricle_learning.methods.passes import graph_kind, graph_optimizer, terms_of
from auricle_learning.runtimes import Job
from auricle_learning.runtimes.feeds import SHARED, SHARED_VECTORS

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
        named.update({f"{role_of(plan)}.{name}": getattr(plan, field) for name, field in TERMS[term].scalars.items()})
    if mutual:
        named.update({"alpha": plan.alpha, "plugin_ce": plan.plugin_ce, "temperature": plan.temperature})
    own = {n if n in SHARED else f"{role_of(plan)}.{n}": value for n, value in changes.scalars.items()}
    return {**named, **own}


def vectors_of(plan: Plan, received: Flat, changes: JobChanges) -> dict[str, Flat]:
    """The vectors of the gradient's terms by `role.name`; a proximal term holds the plug-in to what was received.

    Vectors that stand for weights, an anchor, get the pass's offset as the trained weights do: their distance is what
    it would be without.

    Parameters
    ----------
    plan
        The round's.
    received
        Weights (P,) of the plug-in as it was received.
    changes
        Of the round's method.
    """
    filled = dict.fromkeys((name for term in terms_of(plan) for name in TERMS[term].weights), received)
    weights = {name for term in TERMS.values() for name in term.weights}
    return {
        name if name in SHARED_VECTORS else f"{role_of(plan)}.{name}": with_offset(
            vector, changes.offset if name in weights else None
        )
        for name, vector in {**filled, **changes.vectors}.items()
    }


def with_offset(weights: Flat, offset: Flat | None, sign: int = 1) -> Flat:
    """Weights (P,) with an offset (n,) added to the last n of them, or with `sign` -1 taken off; itself without one."""
    if offset is None:
        return weights
    moved: Flat = weights.copy()
    moved[-offset.size :] += sign * offset
    return moved


def job_of(
    plan: Plan,
    changes: JobChanges,
    models: Mapping[str, str],
    weights: Mapping[str, Flat],
    received: Flat,
    draw: Sequence[int],
    kept: tuple[Mapping[str, Flat], int],
) -> Job:
    """What a pass of a round means for a device.

    Parameters
    ----------
    plan, changes
        As the pass takes it.
    models, weights
        Architecture and first weights by role.
    received
        (P,) w^t.
    draw
        Of what its masks are drawn.
    kept
        Optimizer vectors that the pass goes on from, and the steps that they have seen.
    """
    role, (slots, steps) = role_of(plan), kept
    return Job(
        kind=graph_kind(plan, changes),
        models=models,
        optimizer=graph_optimizer(plan),
        weights={**weights, role: with_offset(weights[role], changes.offset)},
        terms=terms_of(plan, changes),
        vectors=vectors_of(plan, received, changes),
        scalars=scalars_of(plan, changes),
        slots=slots,
        inputs=changes.inputs,
        drops=changes.drops,
        steps=steps if slots else 0,
        seed=int(np.random.SeedSequence(draw).generate_state(1)[0]),
    )


def roles_of(plan: Plan, changes: JobChanges, own: str, plugin: str) -> dict[str, str]:
    """Architectures of the models that a pass trains, by role.

    Parameters
    ----------
    own, plugin
        Of the device's own model, and of the plug-in.
    """
    if plan.mode == "mutual":
        return {"local": own, "plugin": plugin}
    return {"model": own if changes.trains == "local" else plugin}


def role_of(plan: Plan) -> str:
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
