"""What every runtime of step graphs shares: the inputs of a job's graph, and the vectors that it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from auricle.packs.graph_interface import LOSSES, SCALARS, SLOTS, map_names, require_maps, state_names
from auricle.packs.pack import Graph, Pack
from auricle.wire.gradient_terms import TERMS
from auricle.wire.tensors import Flat, TensorTable
from auricle_learning.runtimes.interface import Array, Job, joined_parts, named_parts

SHARED = ("alpha", "plugin_ce", "temperature", "threshold", "lambda", "beta")
"""Scalars that belong to no model."""
SHARED_VECTORS = ("teacher",)
"""Vectors that do not."""


def has_graph(pack: Pack, kind: str, model: str, optimizer: str) -> bool:
    """Whether a pack carries a step graph of a kind for a model and an optimizer."""
    return any((g.kind, g.model, g.optimizer) == (kind, model, optimizer) for g in pack.manifest.graphs)


def graph_of(pack: Pack, job: Job) -> Graph:
    """The step graph that has a job's terms, or one that has more.

    Raises
    ------
    PackError
        The pack carries none, or none with layers that drop activations, for a job that needs them.
    """
    model = next(iter(job.models.values()))
    having = [
        graph
        for graph in pack.manifest.graphs
        if graph.kind == job.kind and graph.model == model and graph.optimizer == job.optimizer
        if set(job.terms) <= set(graph.terms)
    ]
    few = min(having, key=lambda graph: len(graph.terms), default=None)
    graph = few or pack.graph(job.kind, model, job.optimizer, job.terms)
    if job.drops:
        require_maps(pack.manifest.name, pack.manifest.plugin, [graph])
    return graph


def not_given_back(graph: Graph, job: Job) -> list[str]:
    """The states that stay empty in a job without BAVD: a layer with an empty map drops nothing."""
    return [] if job.drops else [name for name in graph.state if ".bavd." in name]


class GraphTraining:
    """A job on a step graph, without the running of it: what it counts, and the vectors that its values are parts of.

    Parameters
    ----------
    graph, pack, job
        What is trained.
    """

    def __init__(self, graph: Graph, pack: Pack, job: Job) -> None:
        assert graph.batch is not None
        self.batch: int = graph.batch
        self.steps = job.steps
        self._graph = graph
        self._tables = {role: pack.table(model) for role, model in job.models.items()}
        self._values: dict[str, Array] = {}
        """By name of the input, as they are now."""
        self._loss_names = LOSSES[graph.kind]
        self._counters = [name for name in graph.inputs if name.endswith(".step")]
        self._seed = job.seed

    @cached_property
    def _rng(self) -> np.random.Generator:
        """What masks of dropout are drawn from."""
        return np.random.default_rng(self._seed)

    def weights(self, role: str) -> Flat:
        """The weights (P,) of a role as they are now."""
        return joined_parts(role, self._tables[role], self._values)

    def slots(self) -> dict[str, Flat]:
        """The optimizer vectors (P,) by `role.slot` as they are now."""
        assert self._graph.optimizer is not None
        names = ((role, f"{role}.{slot}") for role in self._tables for slot in SLOTS[self._graph.optimizer])
        return {name: joined_parts(name, self._tables[role], self._values) for role, name in names}

    def maps(self, role: str) -> Flat:
        """The maps (M,) of a role's layers as they are now, in the order of their names; none where none drops."""
        found = [self._values[name].ravel() for name in map_names(self._graph, role)]
        return np.concatenate([np.zeros(0, np.float32), *found])


def first_feeds(graph: Graph, tables: Mapping[str, TensorTable], job: Job) -> dict[str, Array]:
    """Every input of the first step but its batch; terms that the job does not have are neutral.

    Parameters
    ----------
    graph
        The step graph.
    tables
        Tensor table by role.
    job
        What is trained.

    Raises
    ------
    AuricleError
        The job leaves out a scalar that the graph takes.
    """
    feeds: dict[str, Array] = dict(job.inputs)
    for role, table in tables.items():
        zeros = np.zeros(table.size, np.float32)
        for vector in state_names(graph, role):
            given = job.weights[role] if vector == role else job.slots.get(vector, zeros)
            feeds.update(named_parts(vector, table, given))
        for name, fill in (each for term in graph.terms for each in TERMS[term].vectors.items()):
            known = job.vectors.get(f"{role}.{name}")
            given = known if known is not None else np.ones_like(zeros) if fill == "ones" else zeros
            feeds.update(named_parts(f"{role}.{name}", table, given))
    if "teacher" in job.vectors:
        feeds.update(named_parts("teacher", tables["model"], job.vectors["teacher"]))
    feeds.update({name: np.zeros(shape, np.float32) for name, shape in graph.state.items()})
    feeds.update({name: np.array(job.scalar(name), np.float32) for name in _scalars(graph, tables)})
    taken = set(graph.inputs)
    return {name: value for name, value in feeds.items() if name in taken}


def _scalars(graph: Graph, tables: Mapping[str, TensorTable]) -> list[str]:
    """The scalar inputs but the counters of steps."""
    assert graph.optimizer is not None
    names = [*SCALARS[graph.optimizer], *(name for term in graph.terms for name in TERMS[term].scalars)]
    own = [f"{role}.{name}" for role in tables for name in names if name != "step"]
    return [*own, *(name for name in SHARED if name in graph.inputs)]
