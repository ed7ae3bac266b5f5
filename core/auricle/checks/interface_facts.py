"""What a pack's manifest says of a graph's inputs and outputs: their sizes, which its file has to confirm."""

from __future__ import annotations

from msgspec import UNSET

from auricle.packs.graph_interface import FRONTENDS, PARTS, ROLES, SCALARS, Graph, state_names
from auricle.packs.pack import Pack
from auricle.wire.gradient_terms import TERMS

EVALUATED_BATCH = 64
"""Batch with which the sizes of a graph for any batch are judged."""


class InterfaceFacts:
    """Sizes that a manifest gives to the inputs and outputs of one of its graphs.

    A dimension is a number, or a word for a number that the file chooses and must choose the same everywhere. A graph
    for any batch is followed with the one that is given.
    """

    def __init__(self, pack: Pack, graph: Graph, batch: int = EVALUATED_BATCH) -> None:
        task = pack.manifest.task
        self.labels = len(task.labels)
        self.batch = graph.batch or batch
        self.any_batch = graph.batch is None
        self.clip = task.input_shape
        self.task, self.graph = task, graph
        self.models = dict(zip(ROLES.get(graph.kind, ()), (graph.model, pack.manifest.plugin), strict=False))
        self.parts = {
            role: (
                (pack.table(model).offsets["head.weight"].start,),
                pack.table(model).specs[-2].shape,
                pack.table(model).specs[-1].shape,
            )
            for role, model in self.models.items()
        }

    def inputs(self) -> dict[str, tuple[int | str, ...]]:
        """Shape of every input that a graph of this kind takes, by name."""
        graph, batch = self.graph, self.batch
        if graph.kind in FRONTENDS:
            return self._network()[0]
        width = self.parts[ROLES[graph.kind][0]][1][1]
        shapes: dict[str, tuple[int | str, ...]] = {
            "x": (batch, *self.clip),
            "target": (batch, self.labels),
            "weight": (batch,),
            "weak": ("unlabelled", *self.clip),
            "strong": ("unlabelled", *self.clip),
            "weight.unlabelled": ("unlabelled",),
            "means": (self.labels, width),
            "valid": (self.labels,),
        }
        for role, sizes in self.parts.items():
            if graph.optimizer is not None:
                shapes |= {f"{role}.{scalar}": () for scalar in SCALARS[graph.optimizer]}
            shapes |= {f"{role}.{scalar}": () for term in graph.terms for scalar in TERMS[term].scalars}
            vectors = [f"{role}.{vector}" for term in graph.terms for vector in TERMS[term].vectors]
            for vector in [*state_names(graph, role), *vectors]:
                shapes |= {f"{vector}/{part}": size for part, size in zip(PARTS, sizes, strict=True)}
        first = self.parts[ROLES[graph.kind][0]]
        shapes |= {f"teacher/{part}": size for part, size in zip(PARTS, first, strict=True)}
        shapes |= {**graph.noise, **graph.state}
        return {name: shapes.get(name, ()) for name in graph.inputs}

    def outputs(self) -> dict[str, tuple[int | str, ...]]:
        """Shape of every output, by name: changed inputs keep theirs, losses are single numbers."""
        given = self.inputs()
        if self.graph.kind in FRONTENDS:
            return self._network()[1]
        width = self.parts[ROLES[self.graph.kind][0]][1][1]
        special = {"logits": (self.batch, self.labels), "features": (self.batch, width)}
        return {name: given.get(name.removeprefix("new/"), special.get(name, ())) for name in self.graph.outputs}

    def _network(self) -> tuple[dict[str, tuple[int | str, ...]], dict[str, tuple[int | str, ...]]]:
        """Inputs and outputs of a graph of the front-end's network."""
        frontend = self.task.frontend
        network = frontend.network
        assert network is not UNSET
        whole = self.graph.kind == FRONTENDS[0]
        frames, vectors = (self.task.frames, self.clip[0]) if whole else (network.stride, 1)
        tensors = {f"network/{name}": shape for name, shape in network.shapes.items()}
        taken = {"x": (1, frames, frontend.mels), **tensors, **self.graph.state}
        state = {f"new/{name}": shape for name, shape in self.graph.state.items()}
        return {**taken}, {"vectors": (1, vectors, network.size), **state}
