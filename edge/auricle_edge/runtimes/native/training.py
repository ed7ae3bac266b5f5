"""A job on the C library: a step goes on in the memory where the last one ended."""

from __future__ import annotations

import weakref
from collections.abc import Mapping

import numpy as np

from auricle.errors import AuricleError
from auricle.packs.pack import Graph, Pack
from auricle_edge.runtimes.native.memory import Ready, put
from auricle_learning.runtimes.feeds import GraphTraining, first_feeds, not_given_back
from auricle_learning.runtimes.interface import Array, Job


class NativeTraining(GraphTraining):
    """A job in memory of its own: weights and optimizer state stay where the library changes them."""

    def __init__(self, ready: Ready, graph: Graph, pack: Pack, job: Job) -> None:
        super().__init__(graph, pack, job)
        self._program, memory = ready.program, ready.borrow()
        weakref.finalize(self, ready.idle.append, memory).atexit = False
        self._arena, self._values = memory.arena, dict(memory.inputs)
        self._losses = {name: memory.outputs[name] for name in self._loss_names}
        self._missing = set(graph.inputs) - set(self._counters) - set(graph.noise)
        self._empty = [self._values[name] for name in not_given_back(graph, job)]
        self._put(first_feeds(graph, self._tables, job))

    def _put(self, feeds: Mapping[str, Array]) -> None:
        for name, value in feeds.items():
            if name not in self._values:
                raise AuricleError(f"The graph {self._graph.file} does not take {name}.")
            put(name, self._values[name], value)
        self._missing.difference_update(feeds)

    def step(self, batch: Mapping[str, Array]) -> dict[str, float]:
        """Run the graph once; what it changes is changed in place."""
        self._put(batch)
        if self._missing:
            raise AuricleError(f"The graph {self._graph.file} takes {min(self._missing)}, which nobody gave.")
        self.steps += 1
        for name in self._counters:
            self._values[name][...] = self.steps
        for name, shape in sorted(self._graph.noise.items()):
            self._values[name][...] = self._rng.random(shape, np.float32)
        self._program.run(self._arena)
        for value in self._empty:
            value[...] = 0
        return {name: float(value) for name, value in self._losses.items()}
