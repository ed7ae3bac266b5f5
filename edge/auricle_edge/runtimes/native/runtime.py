"""Training and recognising with the C library: a step goes on in the memory where the last one ended."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle.packs.pack import Graph, Pack
from auricle.wire.tensors import Flat
from auricle_edge.runtimes.first_use import refuse_dead, usable
from auricle_edge.runtimes.native.loaded_program import LoadedProgram
from auricle_edge.runtimes.native.plan import Plan, Slot
from auricle_edge.runtimes.native.plan_shelf import PlanShelf
from auricle_edge.runtimes.native.program import UnsupportedError
from auricle_edge.runtimes.native.self_test import tested_library
from auricle_learning.runtimes.feeds import GraphTraining, first_feeds, graph_of, has_graph, not_given_back
from auricle_learning.runtimes.interface import Array, Job, Runtime, Training, named_parts

if TYPE_CHECKING:
    from auricle_learning.runtimes.step import StepRuntime

log = logging.getLogger("auricle.edge")

MOST_AT_ONCE = 8
"""Samples that are evaluated in one run: more take memory, and are no faster."""
MOST_KEPT = 2
"""Samples of a batch whose memory is kept for the next: those that listening asks for, one after the other."""
LARGEST_STEP = 8_000_000
"""Numbers that a training step may hold where onnxruntime is there: steps of 11 million took 1.7 times its time, those
of 5 million 0.6 times (`bench/step_nets.py`)."""


@dataclass(eq=False)
class Memory:
    """An arena, and in it the values that go in and come out, by name."""

    arena: NDArray[np.float32]
    inputs: Mapping[str, NDArray[np.float32]]
    outputs: Mapping[str, NDArray[np.float32]]
    holds: Flat | None = None
    """Weights that nobody can change and that are in their places already."""


@dataclass
class Ready:
    """A graph that can run: its plan, the library's copy of its program, and memory that nobody uses at present."""

    plan: Plan
    program: LoadedProgram
    idle: list[Memory] = field(default_factory=list)

    def memory(self) -> Memory:
        """New memory, with the constants in their places."""
        arena = self.program.arena()
        for offset, numbers in self.plan.constants:
            arena[offset : offset + numbers.size] = numbers.ravel()
        self.program.settle(arena)

        def parts(slots: Mapping[str, Slot]) -> dict[str, NDArray[np.float32]]:
            return {name: arena[at : at + math.prod(shape)].reshape(shape) for name, (at, shape) in slots.items()}

        return Memory(arena, parts(self.plan.inputs), parts(self.plan.outputs))


def _refuse_large(graph: Graph, arena: int) -> None:
    """Leave a training step that no cache holds to onnxruntime where that is there, since it is faster then."""
    if graph.kind != "evaluate" and arena > LARGEST_STEP and usable():
        raise UnsupportedError(f"its values take {4 * arena / 1e6:.0f} MB, and onnxruntime is faster from 32 MB on")


class NativeRuntime:
    """Runs a pack's graphs with the C library, and those that it cannot plan with onnxruntime. Thread-safe.

    Parameters
    ----------
    pack
        The pack whose graphs to run.
    threads
        Threads inside one operator, for onnxruntime; the library uses one.
    level
        The widest vectors to use, `plain`, `avx2` or `avx512`; without, the best of this processor.

    Raises
    ------
    AuricleError
        The library is not there and cannot be compiled, or computes wrongly here.
    """

    name = "native"

    def __init__(self, pack: Pack, threads: int = 1, level: str | None = None) -> None:
        self.pack = pack
        self.reasons: dict[str, str] = {}
        """Why onnxruntime runs a graph, by its file."""
        self._threads, self._level, self._library = threads, level, tested_library()
        self._ready: dict[tuple[str, int], Ready] = {}
        self._lock, self._planning = threading.Lock(), threading.Lock()
        self._other: StepRuntime | None = None

    def _prepared(self, graph: Graph, batch: int) -> Ready | None:
        """A graph for so many samples, planned at its first use; None where onnxruntime has to run it."""
        if (ready := self._ready.get((graph.file, batch))) is not None:
            return ready  # who listens does not wait while a step is planned
        with self._planning:
            if graph.file in self.reasons:
                return None
            ready = self._ready.get((graph.file, batch))
            if ready is None:
                try:
                    ready = self._planned(graph, batch)
                except UnsupportedError as reason:
                    self.reasons[graph.file] = str(reason)
                    log.warning("The runtime native leaves %s to onnxruntime: %s.", graph.file, reason)
                    return None
                with self._lock:
                    self._ready = {**self._ready, (graph.file, batch): ready}
            return ready

    def _planned(self, graph: Graph, batch: int) -> Ready:
        """A graph by its plan on disk, else by one that is made now and kept there."""
        shelf = PlanShelf(self.pack, graph, batch)
        if (plan := shelf.read()) is not None:
            _refuse_large(graph, plan.program.arena)
            try:
                return Ready(plan, LoadedProgram(self._library, plan.program, self._level))
            except UnsupportedError as reason:
                log.info("The plan %s is not used: %s.", shelf.path, reason)
        from auricle_edge.runtimes.native.planner import plan_graph  # with all that reads graphs, megabytes

        plan = plan_graph(self.pack, graph, batch)
        ready = Ready(plan, LoadedProgram(self._library, plan.program, self._level))
        shelf.write(plan)
        _refuse_large(graph, plan.program.arena)
        return ready

    def left_out(self, model: str) -> dict[str, str]:
        """Why onnxruntime runs a graph of a model, by its file: all of them are planned, a second for some models."""
        for graph in self.pack.manifest.graphs:
            if graph.model == model:
                self._prepared(graph, graph.batch or 1)
        return dict(self.reasons)

    def _fallback(self, graph: Graph) -> Runtime:
        if find_spec("onnxruntime") is None:
            raise AuricleError(
                f"The runtime native cannot run {graph.file} ({self.reasons[graph.file]}), and onnxruntime, which "
                'could, is not installed: pip install "auricle[edge]".'
            )
        refuse_dead("step")
        from auricle_learning.runtimes.step import StepRuntime

        with self._lock:
            if self._other is None:
                self._other = StepRuntime(self.pack, self._threads)
            return self._other

    @property
    def trains(self) -> bool:
        """Whether memory is held for training."""
        steps = {graph.file for graph in self.pack.manifest.graphs if graph.kind != "evaluate"}
        own = any(file in steps for file, _ in self._ready)
        return own or (self._other is not None and self._other.trains)

    def end_training(self) -> None:
        """Give up what only training needs, until the next job."""
        with self._lock:
            steps = {graph.file for graph in self.pack.manifest.graphs if graph.kind != "evaluate"}
            self._ready = {key: ready for key, ready in self._ready.items() if key[0] not in steps}
            for ready in self._ready.values():
                ready.idle.clear()
            if self._other is not None:
                self._other.end_training()

    def logits(self, model: str, weights: Flat, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits (N, labels) of a model with weights (P,) for log-mels (N, T, mels)."""
        return self._evaluate("logits", len(self.pack.labels), model, weights, features)

    def embeddings(self, model: str, weights: Flat, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the classifier sees (N, H), for the same."""
        return self._evaluate("features", self.pack.table(model).specs[-2].shape[1], model, weights, features)

    def _evaluate(
        self, output: str, width: int, model: str, weights: Flat, features: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        graph = self.pack.graph("evaluate", model)
        parts = []
        for start in range(0, len(features), MOST_AT_ONCE):
            some = features[start : start + MOST_AT_ONCE]
            ready = self._prepared(graph, 1 << (len(some) - 1).bit_length())
            if ready is None:
                other = self._fallback(graph)
                return (other.logits if output == "logits" else other.embeddings)(model, weights, features)
            parts.append(self._evaluate_some(ready, output, model, weights, some))
        self._drop_batches(graph)
        return np.concatenate(parts) if parts else np.zeros((0, width), np.float32)

    def _drop_batches(self, graph: Graph) -> None:
        """Give up the memory that only many samples at once needed: they are rare, and take megabytes."""
        with self._lock:
            for (file, batch), ready in self._ready.items():
                if file == graph.file and batch > MOST_KEPT:
                    ready.idle.clear()

    def _evaluate_some(
        self, ready: Ready, output: str, model: str, weights: Flat, features: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """At most as many samples as were planned for; what is left of the batch is silence."""
        with self._lock:
            memory = ready.idle.pop() if ready.idle else None
        memory = memory or ready.memory()
        if memory.holds is not weights:
            for name, value in named_parts("model", self.pack.table(model), weights).items():
                put(name, memory.inputs[name], value)
            ready.program.settle(memory.arena)
            memory.holds = weights if weights.base is None and not weights.flags.writeable else None
        x = memory.inputs["x"]
        put("x", x[: len(features)], features)
        x[len(features) :] = 0
        ready.program.run(memory.arena)
        made: NDArray[np.float32] = memory.outputs[output][: len(features)].copy()
        with self._lock:
            ready.idle.append(memory)
        return made

    def has(self, kind: str, model: str, optimizer: str) -> bool:
        """Whether the pack has a step graph for such jobs; what this library cannot run, onnxruntime does."""
        return has_graph(self.pack, kind, model, optimizer)

    def begin(self, job: Job) -> Training:
        """Begin a job on the step graph that has its terms, or on one that has more and leaves them neutral.

        Raises
        ------
        PackError
            The pack carries no such graph, or none with the layers that the job needs.
        AuricleError
            The job leaves out what the graph takes.
        """
        graph = graph_of(self.pack, job)
        assert graph.batch is not None
        ready = self._prepared(graph, graph.batch)
        return self._fallback(graph).begin(job) if ready is None else NativeTraining(ready, graph, self.pack, job)


class NativeTraining(GraphTraining):
    """A job in memory of its own: weights and optimizer state stay where the library changes them."""

    def __init__(self, ready: Ready, graph: Graph, pack: Pack, job: Job) -> None:
        super().__init__(graph, pack, job)
        self._program, memory = ready.program, ready.memory()
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


def put(name: str, place: NDArray[np.float32], value: Array) -> None:
    """Copy numbers to their place; AuricleError where they are of another shape."""
    if np.shape(value) != place.shape:
        raise AuricleError(f"{name} is of shape {np.shape(value)} where the graph takes {place.shape}.")
    place[...] = value
