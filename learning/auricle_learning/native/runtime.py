"""Training and recognising with the C library, graph by graph, and with onnxruntime what it cannot run."""

from __future__ import annotations

import logging
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError, extra_command
from auricle.packs.graph_interface import FRONTENDS
from auricle.packs.pack import Graph, Pack
from auricle.speech.features import FrozenNetwork
from auricle.wire.tensors import Flat
from auricle_learning.native.first_use import refuse_dead, usable
from auricle_learning.native.loaded_program import LoadedProgram
from auricle_learning.native.memory import Ready, put
from auricle_learning.native.network import NativeNetwork
from auricle_learning.native.plan_shelf import PlanShelf
from auricle_learning.native.program import UnsupportedError
from auricle_learning.native.self_test import tested_library
from auricle_learning.native.training import NativeTraining
from auricle_learning.runtimes.feeds import graph_of, has_graph
from auricle_learning.runtimes.interface import Job, Training, named_parts

if TYPE_CHECKING:
    from auricle_learning.runtimes.step import StepRuntime

log = logging.getLogger("auricle.edge")

MOST_AT_ONCE = 8
"""Samples that are evaluated in one run: more take memory, and are no faster."""
MOST_KEPT = 2
"""Samples of a batch whose memory is kept for the next: those that listening asks for, one after the other."""
LARGEST_STEP = 16_000_000
"""Numbers that a training step may hold where onnxruntime is there: steps of 12 million took 0.8 times its time, larger
ones were not measured (`bench/step_nets.py`)."""


def _refuse_large(graph: Graph, arena: int) -> None:
    """Leave a training step larger than any that was measured to onnxruntime, where that is there."""
    if graph.trains and arena > LARGEST_STEP and usable():
        raise UnsupportedError(f"its values take {4 * arena / 1e6:.0f} MB, and steps over 64 MB are onnxruntime's")


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
        self.frugal = False
        """Whether a step's memory and that of many samples are held one after the other, on a small board, which then
        asks the system for them anew each time; otherwise both are kept while models are trained."""
        self._threads, self._level, self._library = threads, level, tested_library()
        self._ready: dict[tuple[str, int], Ready] = {}
        self._steps = frozenset(graph.file for graph in pack.manifest.graphs if graph.trains)
        self._lock, self._planning = threading.Lock(), threading.Lock()
        self._other: StepRuntime | None = None
        self._network: FrozenNetwork | None = None

    def network(self) -> FrozenNetwork:
        """What runs the network of the pack's front-end, which has to have one."""
        if self._network is None:
            ready = [self._prepared(self.pack.network_graph(kind), 1) for kind in FRONTENDS]
            if ready[0] is None or ready[1] is None:
                first = self.pack.network_graph(FRONTENDS[ready[0] is not None])
                self._network = self._fallback(first).network()
            else:
                self._network = NativeNetwork(self.pack, ready[0], ready[1])
        return self._network

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
        from auricle_learning.native.planner import plan_graph  # with all that reads graphs, megabytes

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

    def _fallback(self, graph: Graph) -> StepRuntime:
        if find_spec("onnxruntime") is None:
            raise AuricleError(
                f"The runtime native cannot run {graph.file} ({self.reasons[graph.file]}), and onnxruntime, which "
                f"could, is not installed: {extra_command('edge')}."
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
        own = any(file in self._steps for file, _ in self._ready)
        return own or (self._other is not None and self._other.trains)

    def end_training(self) -> None:
        """Give up what only training needs, until the next job."""
        with self._lock:
            self._ready = {key: ready for key, ready in self._ready.items() if key[0] not in self._steps}
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
        graph, parts, ready = self.pack.graph("evaluate", model), [], None
        if self.frugal and len(features) > MOST_KEPT:
            self._drop_steps()
        for start in range(0, len(features), MOST_AT_ONCE):
            some = features[start : start + MOST_AT_ONCE]
            ready = self._prepared(graph, 1 << (len(some) - 1).bit_length())
            if ready is None:
                other = self._fallback(graph)
                return (other.logits if output == "logits" else other.embeddings)(model, weights, features)
            parts.append(self._evaluate_some(ready, output, model, weights, some))
        self._drop_batches(ready)
        return np.concatenate(parts) if parts else np.zeros((0, width), np.float32)

    def _drop_steps(self, but: Ready | None = None) -> None:
        """Give up the memory of steps, `but` for one graph, where no job is under way."""
        with self._lock:
            for (file, _), ready in self._ready.items():
                if ready is not but and file in self._steps:
                    ready.idle.clear()

    def _drop_batches(self, used: Ready | None) -> None:
        """Give up the memory of many samples at once, megabytes: but, while models are trained, the last one."""
        with self._lock:
            kept = used if self.trains and not self.frugal else None
            for (file, batch), ready in self._ready.items():
                if batch > MOST_KEPT and file not in self._steps and ready is not kept:
                    ready.idle.clear()

    def _evaluate_some(
        self, ready: Ready, output: str, model: str, weights: Flat, features: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """At most as many samples as were planned for; what is left of the batch is silence."""
        memory = ready.borrow()
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
        if ready is None:
            return self._fallback(graph).begin(job)
        self._drop_steps(ready)  # the next job is one of this kind, or it pays for its own memory
        return NativeTraining(ready, graph, self.pack, job)
