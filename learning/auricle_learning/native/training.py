"""A job on the C library: a step goes on in the memory where the last one ended."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle.packs.pack import Graph, Pack
from auricle_learning.native.memory import Ready, put
from auricle_learning.runtimes.feeds import GraphTraining, first_feeds, not_given_back
from auricle_learning.runtimes.interface import Array, Job


class NativeTraining(GraphTraining):
    """A job in memory of its own: weights and optimizer state stay where the library changes them."""

    def __init__(self, ready: Ready, graph: Graph, pack: Pack, job: Job) -> None:
        super().__init__(graph, pack, job)
        self._program, self._plan, memory = ready.program, ready.plan, ready.borrow()
        weakref.finalize(self, ready.idle.append, memory).atexit = False
        self._arena, self._values = memory.arena, dict(memory.inputs)
        self._losses = {name: memory.outputs[name] for name in self._loss_names}
        self._missing = set(graph.inputs) - set(self._counters) - set(graph.noise)
        self._empty = not_given_back(graph, job)
        self._put(first_feeds(graph, self._tables, job))

    def _put(self, feeds: Mapping[str, Array]) -> None:
        for name, value in feeds.items():
            if name not in self._values:
                raise AuricleError(f"The graph {self._graph.file} has no input {name}: leave it out.")
            put(name, self._values[name], value)
        self._missing.difference_update(feeds)

    def _clear(self) -> None:
        for name in self._empty:
            self._values[name][...] = 0

    def step_through(
        self, batches: Sequence[Mapping[str, Array]], stop: NDArray[np.int32] | None = None
    ) -> list[dict[str, float]]:
        """Take a step on each batch, in one call of the library: the bits of `step` for one after the other.

        Parameters
        ----------
        batches
            As of `step`, all of the same names.
        stop
            One number (1,): when another thread sets it, no further step is begun.

        Returns
        -------
        list
            The losses of each step that was made.
        """
        names = list(batches[0]) if batches else []
        self._put(batches[0] if batches else {})
        if self._missing:
            raise AuricleError(f"The graph {self._graph.file} needs the input {min(self._missing)}: give it.")
        noise = sorted(self._graph.noise.items())
        slots = [self._plan.inputs[name] for name in (*names, *self._counters, *(n for n, _ in noise), *self._empty)]
        places = np.array([(at, math.prod(shape)) for at, shape in slots], np.int64).reshape(-1, 2)
        numbers, ends = np.zeros((len(batches), int(places[:, 1].sum())), np.float32), places[:, 1].cumsum()
        states: list[Mapping[str, object]] = []
        for i, batch in enumerate(batches):
            if batch.keys() != batches[0].keys():
                raise AuricleError(f"The batches for {self._graph.file} have different inputs: give each the same.")
            counters = [np.float32(self.steps + i + 1)] * len(self._counters)
            if noise:
                states.append(self._rng.bit_generator.state)
            drawn = [self._rng.random(shape, np.float32) for _, shape in noise]
            values = [*(batch[name] for name in names), *counters, *drawn]
            for (_, shape), end, value in zip(slots, ends, values, strict=False):
                put("A value of a batch", numbers[i, end - math.prod(shape) : end].reshape(shape), value)
        results = np.array([self._plan.outputs[name][0] for name in self._losses], np.int64)
        found = self._program.run_batches(self._arena, numbers, places, results, stop)
        if noise and len(found) < len(batches):
            self._rng.bit_generator.state = states[len(found)]  # what was not used is drawn again
        self.steps += len(found)
        self._clear()
        return [dict(zip(self._losses, map(float, losses), strict=True)) for losses in found]

    def step(self, batch: Mapping[str, Array]) -> dict[str, float]:
        """Run the graph once; what it changes is changed in place."""
        self._put(batch)
        if self._missing:
            raise AuricleError(f"The graph {self._graph.file} needs the input {min(self._missing)}: give it.")
        self.steps += 1
        for name in self._counters:
            self._values[name][...] = self.steps
        for name, shape in sorted(self._graph.noise.items()):
            self._values[name][...] = self._rng.random(shape, np.float32)
        self._program.run(self._arena)
        self._clear()
        return {name: float(value) for name, value in self._losses.items()}
