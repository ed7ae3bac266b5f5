"""The interface that a graph of each kind has.

The graphs of a pack are ordinary ONNX. A step graph takes a batch, hyper-parameters, weights and optimizer state and
gives losses, new weights and new state; `step_inputs` and `step_outputs` spell the names out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from auricle.errors import PackError
from auricle.wire.gradient_terms import TERMS, Term
from auricle.wire.kinds import Token
from auricle.wire.plan import Plan
from auricle.wire.tensor_specs import Dim, Name

NetworkKind = Literal["frontend", "frontend-step"]
FRONTENDS: tuple[NetworkKind, NetworkKind] = ("frontend", "frontend-step")
"""Kinds of the two graphs of a front-end's network: over a whole window, and over its newest frames with what it has to
remember of those before as state."""
PARTS = ("body", "head.weight", "head.bias")
"""The three tensors that carry a model, or an optimizer's vector, into a graph and out of it."""
SLOTS: dict[str, tuple[str, ...]] = {"sgd": ("momentum",), "adamw": ("first", "second")}
"""Optimizer state of the step graphs: so many vectors of the model's size."""
ROLES: dict[str, tuple[str, ...]] = {
    "supervised": ("model",),
    "fixmatch": ("model",),
    "distill": ("model",),
    "evaluate": ("model",),
    "mutual": ("local", "plugin"),
    "alternating": ("local", "plugin"),
}
"""The models that a graph of each kind takes; a step graph gives them back changed."""
TAKEN: dict[str, tuple[str, ...]] = {
    "supervised": ("x", "target", "weight"),
    "mutual": ("x", "target", "weight", "alpha", "plugin_ce", "temperature"),
    "alternating": ("x", "target", "weight", "alpha", "plugin_ce", "temperature"),
    "fixmatch": (
        "x",
        "target",
        "weight",
        "weak",
        "strong",
        "weight.unlabelled",
        "threshold",
        "lambda",
        "teacher/body",
        "teacher/head.weight",
        "teacher/head.bias",
    ),
    "distill": ("x", "target", "weight", "means", "valid", "beta"),
    "evaluate": ("x",),
}
"""What a graph of each kind takes besides its models, their optimizers' state and hyper-parameters."""
LOSSES: dict[str, tuple[str, ...]] = {
    "supervised": ("loss",),
    "mutual": ("loss.local", "loss.plugin"),
    "alternating": ("loss.local", "loss.plugin"),
    "fixmatch": ("loss", "loss.labelled", "loss.unlabelled", "confident"),
    "distill": ("loss", "loss.means"),
    "evaluate": ("logits", "features"),
}
"""What a graph of each kind gives besides changed models and state: scalars, in `evaluate` (B, labels) and (B, H)."""
SCALARS: dict[str, tuple[str, ...]] = {
    "sgd": ("rate", "momentum", "decay", "clip"),
    "adamw": ("rate", "beta1", "beta2", "epsilon", "step", "decay", "l2", "clip"),
}
"""Hyper-parameters of each optimizer, float32 scalars `role.name`; `decay` is AdamW's, `l2` the one of Adam."""

_PATH = r"^[a-z0-9_][a-z0-9_.-]*(/[a-z0-9_][a-z0-9_.-]*){0,3}\Z"
FilePath = Annotated[str, msgspec.Meta(pattern=_PATH, max_length=100)]


OTHER_WORDS = "custom"
"""Name of a pack with the models of another and words of one's own, unless it is given one."""


class Graph(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One ONNX file and its interface."""

    kind: Literal["supervised", "mutual", "alternating", "fixmatch", "distill", "evaluate", "frontend", "frontend-step"]
    model: Token
    """The architecture that is trained or run, in a mutual step the local one; of `FRONTENDS`, the network's name."""
    plugin: Token | None = None
    optimizer: Literal["sgd", "adamw"] | None = msgspec.field(default=None, name="optimiser")
    terms: tuple[Term, ...] = ()
    """Optional terms it computes, see `TERMS`."""
    loss: Literal["mse"] | msgspec.UnsetType = msgspec.UNSET
    """Of a supervised step without cross-entropy: "mse", Σ_c (p_c - y_c)² of posteriors p and target y."""
    file: FilePath
    batch: Dim | None = None
    """Fixed batch; None: any."""
    inputs: tuple[Name, ...]
    outputs: tuple[Name, ...]
    noise: dict[Name, tuple[Dim, ...]] = {}
    """Inputs to fill with uniform numbers in [0, 1) at every step: the masks of dropout."""
    state: dict[Name, tuple[Dim, ...]] = {}
    """Inputs that carry state from step to step, zeros at the start of a round; output `new/NAME` is the next one."""

    @property
    def trains(self) -> bool:
        """Whether it is a training step."""
        return self.kind not in ("evaluate", *FRONTENDS)


def has_maps(graph: Graph, role: str) -> bool:
    """Whether a step of this graph can drop activations of that role's model: MuPFL's BAVD."""
    return f"{role}.bavd.seen" in graph.state


def map_size(plugin: str, graphs: Iterable[Graph]) -> int:
    """How many numbers the maps of a pack's plug-in have, all layers together; 0 where no layer drops activations.

    Parameters
    ----------
    plugin, graphs
        Of its manifest.
    """
    for graph in graphs:
        for role in ("model",) * (graph.model == plugin) + ("plugin",):
            if has_maps(graph, role):
                return sum(math.prod(graph.state[name]) for name in map_names(graph, role))
    return 0


def maps_sent(plan: Plan, plugin: str, graphs: Iterable[Graph]) -> int:
    """How many numbers of maps an update brings after its weights; 0 unless the plan asks for them."""
    return map_size(plugin, graphs) if plan.bavd and plan.bavd.maps else 0


def map_names(graph: Graph, role: str) -> list[str]:
    """The states that are maps of a role's layers, in the order of the layers' names."""
    within = f"{role}.bavd."
    other = {f"{within}seen", f"{within}loss"}
    return sorted(name for name in graph.state if name.startswith(within) and name not in other)


def require_maps(pack: str, plugin: str, graphs: Iterable[Graph]) -> None:
    """Refuse a pack whose plug-in has no layer that drops activations, for rounds whose plan asks for it (BAVD).

    Parameters
    ----------
    pack
        Its name, for the sentence.
    plugin, graphs
        Of its manifest.

    Raises
    ------
    PackError
        No step graph that trains the plug-in takes its maps.
    """
    if not map_size(plugin, graphs):
        built = "NAME" if pack == OTHER_WORDS else pack
        raise PackError(
            f"The models of the pack {pack} have no layers that drop activations: say --method-option bavd=false, or "
            f"build it again, auricle export build {built} --bavd --weights shipped --out packs, for --pack."
        )


def step_inputs(graph: Graph) -> list[str]:
    """Names of a graph's inputs, in order; those of a step graph begin with its batch."""
    names = list(TAKEN[graph.kind])
    for role in ROLES[graph.kind]:
        if graph.optimizer is not None:
            names += [f"{role}.{scalar}" for scalar in SCALARS[graph.optimizer]]
            names += [f"{role}.{scalar}" for term in graph.terms for scalar in TERMS[term].scalars]
        names += [f"{vector}/{part}" for vector in state_names(graph, role) for part in PARTS]
        names += [f"{role}.{vector}/{part}" for term in graph.terms for vector in TERMS[term].vectors for part in PARTS]
    return [*names, *sorted(graph.noise), *sorted(graph.state)]


def step_outputs(graph: Graph) -> list[str]:
    """Names of a graph's outputs, in order: losses first."""
    names = list(LOSSES[graph.kind])
    if graph.trains:
        names += [f"new/{v}/{part}" for role in ROLES[graph.kind] for v in state_names(graph, role) for part in PARTS]
    return [*names, *(f"new/{name}" for name in sorted(graph.state))]


def state_names(graph: Graph, role: str) -> list[str]:
    """The vectors of one of a graph's models that a step changes: its weights and its optimizer's state."""
    return [role, *(f"{role}.{slot}" for slot in (SLOTS[graph.optimizer] if graph.optimizer else ()))]
