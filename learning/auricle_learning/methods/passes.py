"""The passes of a device's round: which step graph each needs, whether a pack has it, and how many steps they take."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from auricle.errors import PackError
from auricle.wire.gradient_terms import TERMS, Term
from auricle.wire.plan import Plan
from auricle_learning.aggregation.extras import PlannedSteps
from auricle_learning.methods.method import NO_CHANGES, JobChanges, Method, Received
from auricle_learning.methods.vectors import method_of

if TYPE_CHECKING:
    from auricle.packs.pack import Pack


def plan_of_pass(plan: Plan, changes: JobChanges) -> Plan:
    """The plan as one pass takes it.

    A personal model is trained as the plug-in is where that alone is trained, the device's own one as mutual learning
    trains it: at its own rate, `mixed` by AdamW. Neither is adjusted by the device's label frequencies, nor are its
    activations dropped.
    """
    epochs = plan.epochs if changes.epochs is None else changes.epochs
    if changes.trains == "plugin":
        return plan if epochs == plan.epochs else msgspec.structs.replace(plan, epochs=epochs)
    own = changes.trains == "local"
    adamw = own and plan.optimizer == "mixed"
    return msgspec.structs.replace(
        plan,
        mode="supervised",
        epochs=epochs,
        optimizer="adamw" if adamw else plan.optimizer,
        rate=plan.local_rate if own else plan.rate,
        mu=0.0,
        prior=0.0,
        keep_state=False,
        fixmatch=msgspec.UNSET,
        bavd=msgspec.UNSET,
    )


def graph_optimizer(plan: Plan) -> str:
    """Which step graph a plan needs: `mixed` runs on AdamW's, or on SGD's where there is only the plug-in."""
    if plan.optimizer != "mixed":
        return plan.optimizer
    return "adamw" if plan.mode == "mutual" else "sgd"


def graph_kind(plan: Plan, changes: JobChanges = NO_CHANGES) -> str:
    """Which kind of step graph a plan, and a pass of its method, needs."""
    if changes.kind is not None:
        return changes.kind
    return "alternating" if (plan.mode, plan.order) == ("mutual", "alternating") else plan.mode


def terms_of(plan: Plan, changes: JobChanges = NO_CHANGES) -> tuple[Term, ...]:
    """The optional terms of the gradient that a plan asks for, and those of the round's method."""
    asked = (name for name, term in TERMS.items() if any(getattr(plan, field) for field in term.scalars.values()))
    return tuple(dict.fromkeys((*asked, *changes.terms)))


def planned_steps(pack: Pack, plan: Plan) -> PlannedSteps:
    """How many steps a round of this plan takes on a device, whatever the device's own settings are.

    Raises
    ------
    SettingsError
        This version does not have the plan's method, or an option of it is not allowed.
    """
    method, graphs, manifest = method_of(plan), pack.manifest.graphs, pack.manifest
    passes = (NO_CHANGES,) if method is None else first_passes(pack, plan, method)
    epochs = [(changes.trains == "plugin", plan_of_pass(plan, changes).epochs) for changes in passes]
    counted = [count for plugin, count in epochs if plugin] or [count for _, count in epochs]
    batches = [graph.batch for graph in graphs if graph.batch] + [made.batch for made in manifest.ort_training.values()]
    batch = None if plan.fixmatch else max(batches, default=None)  # of clips without labels few may be sure
    return PlannedSteps(sum(counted), sum(count for _, count in epochs), batch)


def first_passes(pack: Pack, plan: Plan, method: Method) -> tuple[JobChanges, ...]:
    """The passes of a method's first round on a device."""
    table = pack.plugin_table
    vectors = {each.name: np.zeros(each.numbers(pack, plan), np.float32) for each in method.needs.down}
    width = table.specs[-2].shape[1]
    received = Received(plan, np.zeros(table.size, np.float32), vectors, head=head_size(pack), width=width)
    return method.before(received, {}).passes


def require_graphs(pack: Pack, plan: Plan, method: Method, architectures: Collection[str]) -> None:
    """Refuse a pack that lacks a step graph which a method's rounds need.

    Parameters
    ----------
    plan
        Of these rounds, with the method's options.
    architectures
        Of the devices' own models.

    Raises
    ------
    PackError
        It lacks one.
    """
    plugin = pack.manifest.plugin
    for changes in first_passes(pack, plan, method):
        told = plan_of_pass(plan, changes)
        own = changes.trains == "local" or told.mode == "mutual"
        for model in sorted(architectures) if own else (plugin,):
            asked = graph_kind(told, changes), model, graph_optimizer(told)
            terms = set(terms_of(told, changes))
            if not any((g.kind, g.model, g.optimizer) == asked and terms <= set(g.terms) for g in pack.manifest.graphs):
                with_terms = f" with {' and '.join(sorted(terms))}" if terms else ""
                raise PackError(
                    f"The pack {pack.manifest.name} has no {asked[0]} step graph of {model} for {asked[2]}{with_terms}:"
                    f" the method {method.name} needs one, which auricle export build compiles."
                )


def head_size(pack: Pack) -> int:
    """How many of the plug-in's weights are its classifier, C (d + 1)."""
    labels, width = pack.plugin_table.specs[-2].shape
    return labels * (width + 1)
