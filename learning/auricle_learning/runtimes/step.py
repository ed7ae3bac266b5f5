"""Stock onnxruntime over step graphs: one session per graph, shared by all who use the same pack."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from auricle.checks.graph_check import check_graph
from auricle.checks.onnx_network import OnnxNetwork
from auricle.errors import PackError
from auricle.packs.pack import Graph, Pack
from auricle.speech.features import FrozenNetwork
from auricle.wire.tensors import Flat
from auricle_learning.runtimes.exact_squares import with_exact_squares
from auricle_learning.runtimes.feeds import GraphTraining, first_feeds, graph_of, has_graph, not_given_back
from auricle_learning.runtimes.interface import EVALUATION_BATCH, Job, named_parts

Array = NDArray[Any]


class StepRuntime:
    """Runs a pack's graphs. Thread-safe: weights are inputs, a session holds no state.

    Parameters
    ----------
    pack
        The pack whose graphs to run.
    threads
        Threads inside one operator; 1 where many devices share the machine.
    """

    name = "step"

    def __init__(self, pack: Pack, threads: int = 1) -> None:
        self.pack = pack
        self._threads = threads
        self._sessions: dict[str, ort.InferenceSession] = {}
        self._lock = threading.Lock()
        self._network: OnnxNetwork | None = None

    def _session(self, graph: Graph) -> ort.InferenceSession:
        """The session of a graph, made at its first use; only of a file that is what the manifest says."""
        with self._lock:
            if graph.file not in self._sessions:
                content = self._checked(graph)
                options = ort.SessionOptions()
                options.intra_op_num_threads = self._threads
                options.inter_op_num_threads = 1
                options.log_severity_level = 3
                options.add_session_config_entry("session.intra_op.allow_spinning", "0")
                options.enable_cpu_mem_arena = graph.trains  # it would keep what the largest batch needed
                try:
                    self._sessions[graph.file] = ort.InferenceSession(
                        content, options, providers=["CPUExecutionProvider"]
                    )
                except Exception as error:
                    raise PackError(f"onnxruntime does not load {graph.file}: {error}") from error
            return self._sessions[graph.file]

    def _checked(self, graph: Graph) -> bytes:
        """The file that onnxruntime gets, which is the pack's but for sums of squares that would not be exact."""
        content = self.pack.files[graph.file]
        model, shapes, _ = check_graph(self.pack, graph)
        exact = with_exact_squares(content, model.nodes, shapes)
        if exact is not content:
            check_graph(self.pack, graph, content=exact)
        return exact

    @property
    def trains(self) -> bool:
        """Whether memory is held for training."""
        return any(graph.file in self._sessions for graph in self._step_graphs())

    def end_training(self) -> None:
        """Give up what only training needs, until the next job."""
        with self._lock:
            for graph in self._step_graphs():
                self._sessions.pop(graph.file, None)

    def _step_graphs(self) -> list[Graph]:
        return [graph for graph in self.pack.manifest.graphs if graph.trains]

    def network(self) -> FrozenNetwork:
        """What runs the network of the pack's front-end, which has to have one."""
        with self._lock:
            if self._network is None:
                self._network = OnnxNetwork(self.pack, self._threads)
            return self._network

    def step(self, graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
        """Run one bare training step; the outputs in the order of `graph.outputs`."""
        return self._session(graph).run(list(graph.outputs), dict(feeds))  # type: ignore[no-any-return]

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
        session = self._session(graph)
        feeds: dict[str, Array] = named_parts("model", self.pack.table(model), weights)
        parts = [
            session.run([output], {**feeds, "x": features[i : i + EVALUATION_BATCH]})[0]
            for i in range(0, len(features), EVALUATION_BATCH)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, width), np.float32)

    def has(self, kind: str, model: str, optimizer: str) -> bool:
        """Whether the pack has a step graph for such jobs."""
        return has_graph(self.pack, kind, model, optimizer)

    def begin(self, job: Job) -> StepTraining:
        """Begin a job on the step graph that has its terms, or on one that has more and leaves them neutral.

        Raises
        ------
        PackError
            The pack carries no such graph, or none with the layers that the job needs.
        AuricleError
            The job leaves out what the graph takes.
        """
        graph = graph_of(self.pack, job)
        return StepTraining(self._session(graph), graph, self.pack, job)


class StepTraining(GraphTraining):
    """A job on a step graph whose weights and state lie in two banks of arrays: a step reads one and fills the other.

    onnxruntime is told once where everything lies, so nothing is copied or allocated between two steps. What a step
    makes has a bank of its own, since a graph may read weights after it has made new ones.
    """

    def __init__(self, session: ort.InferenceSession, graph: Graph, pack: Pack, job: Job) -> None:
        super().__init__(graph, pack, job)
        self._session = session
        empty = {f"new/{name}" for name in not_given_back(graph, job)}
        carried = [name for name in graph.inputs if f"new/{name}" in graph.outputs and f"new/{name}" not in empty]
        feeds = first_feeds(graph, self._tables, job)
        self._banks = [{name: np.array(feeds[name], np.float32, order="C") for name in carried}]
        self._banks.append({name: np.empty_like(value) for name, value in self._banks[0].items()})
        self._values = {name: np.require(value, np.float32, "C") for name, value in feeds.items()} | self._banks[0]
        self._values |= {name: np.zeros((), np.float32) for name in self._counters}
        self._values |= {name: np.zeros(shape, np.float32) for name, shape in graph.noise.items()}
        self._losses = {name: np.zeros((), np.float32) for name in self._loss_names}
        self._bindings = [self._bound(bank) for bank in (0, 1)]

    def _bound(self, bank: int) -> ort.IOBinding:
        """Where a step that reads a bank finds everything but its batch, and where it puts what it makes."""
        binding = self._session.io_binding()
        for name, value in (self._values | self._banks[bank]).items():
            binding.bind_cpu_input(name, value)
        made = {f"new/{name}": value for name, value in self._banks[1 - bank].items()}
        for name, value in (self._losses | made).items():
            binding.bind_output(name, "cpu", 0, np.float32, value.shape, value.ctypes.data)
        return binding

    def step(self, batch: Mapping[str, Array]) -> dict[str, float]:
        """Run the graph once and keep what it changed for the next time."""
        for name, value in batch.items():
            self._values[name] = np.require(value, np.float32, "C")
            for binding in self._bindings:
                binding.bind_cpu_input(name, self._values[name])
        self.steps += 1
        for name in self._counters:
            self._values[name][...] = self.steps
        for name in sorted(self._graph.noise):
            self._rng.random(dtype=np.float32, out=self._values[name])
        self._session.run_with_iobinding(self._bindings[0])
        self._bindings.reverse()
        self._banks.reverse()
        self._values |= self._banks[0]
        return {name: float(value) for name, value in self._losses.items()}
