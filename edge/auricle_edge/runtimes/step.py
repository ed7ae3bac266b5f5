"""Stock onnxruntime over step graphs: one session per graph, shared by all who use the same pack."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from auricle.checks.graph_check import check_graph
from auricle.errors import PackError
from auricle.packs.graph_interface import LOSSES, SCALARS, SLOTS, TERMS, carried
from auricle.packs.pack import Graph, Pack
from auricle.wire.tensors import Flat
from auricle_edge.runtimes.interface import EVALUATION_BATCH, Job, joined_parts, named_parts

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
        self._sessions: dict[str, Any] = {}
        self._lock = threading.Lock()

    def _session(self, graph: Graph) -> ort.InferenceSession:
        """The session of a graph, made at its first use; only of a file that is what the manifest says."""
        with self._lock:
            if graph.file not in self._sessions:
                check_graph(self.pack, graph)
                options = ort.SessionOptions()
                options.intra_op_num_threads = self._threads
                options.inter_op_num_threads = 1
                options.log_severity_level = 3
                options.add_session_config_entry("session.intra_op.allow_spinning", "0")
                options.enable_cpu_mem_arena = graph.kind != "evaluate"  # it would keep what the largest batch needed
                try:
                    self._sessions[graph.file] = ort.InferenceSession(
                        self.pack.files[graph.file], options, providers=["CPUExecutionProvider"]
                    )
                except Exception as error:
                    raise PackError(f"onnxruntime does not load {graph.file}: {error}") from error
            return self._sessions[graph.file]

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
        return [graph for graph in self.pack.manifest.graphs if graph.kind != "evaluate"]

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

    def begin(self, job: Job) -> StepTraining:
        """Begin a job on the step graph that has its terms, or on one that has more and leaves them neutral.

        Raises
        ------
        PackError
            The pack carries no such graph.
        AuricleError
            The job leaves out what the graph takes.
        """
        graph = self._graph(job)
        return StepTraining(self._session(graph), graph, self.pack, job)

    def _graph(self, job: Job) -> Graph:
        model = next(iter(job.models.values()))
        for graph in sorted(self.pack.manifest.graphs, key=lambda g: len(g.terms)):
            same = (graph.kind, graph.model, graph.optimizer) == (job.kind, model, job.optimizer)
            if same and set(job.terms) <= set(graph.terms):
                return graph
        return self.pack.graph(job.kind, model, job.optimizer, job.terms)


class StepTraining:
    """A job on a step graph: the inputs of the next step, of which each step replaces those that change."""

    def __init__(self, session: ort.InferenceSession, graph: Graph, pack: Pack, job: Job) -> None:
        assert graph.batch is not None
        self.batch: int = graph.batch
        self.steps = job.steps
        self._session, self._graph = session, graph
        self._tables = {role: pack.table(model) for role, model in job.models.items()}
        self._feeds = self._first_feeds(job)
        self._outputs = list(graph.outputs)
        self._losses = LOSSES[graph.kind]
        self._changed = [name.removeprefix("new/") for name in self._outputs[len(self._losses) :]]
        self._counters = [name for name in graph.inputs if name.endswith(".step")]
        self._rng = np.random.default_rng(job.seed)

    def _first_feeds(self, job: Job) -> dict[str, Array]:
        """Every input of the first step but its batch."""
        graph = self._graph
        feeds: dict[str, Array] = dict(job.inputs)
        for role, table in self._tables.items():
            zeros, ones = np.zeros(table.size, np.float32), np.ones(table.size, np.float32)
            for vector in carried(graph, role):
                given = job.weights[role] if vector == role else job.slots.get(vector, zeros)
                feeds.update(named_parts(vector, table, given))
            for name in (f"{role}.{name}" for term in graph.terms for name in TERMS[term][1]):
                neutral = ones if name.endswith(".keep") else zeros
                feeds.update(named_parts(name, table, job.vectors.get(name, neutral)))
        if "teacher" in job.vectors:
            feeds.update(named_parts("teacher", self._tables["model"], job.vectors["teacher"]))
        feeds.update({name: np.zeros(shape, np.float32) for name, shape in graph.state.items()})
        feeds.update({name: np.array(job.scalar(name), np.float32) for name in self._scalars()})
        taken = set(graph.inputs)
        return {name: value for name, value in feeds.items() if name in taken}

    def _scalars(self) -> list[str]:
        """The scalar inputs but the counters of steps."""
        graph = self._graph
        assert graph.optimizer is not None
        names = [*SCALARS[graph.optimizer], *(name for term in graph.terms for name in TERMS[term][0])]
        own = [f"{role}.{name}" for role in self._tables for name in names if name != "step"]
        shared = ("alpha", "plugin_ce", "temperature", "threshold", "lambda", "beta")
        return [*own, *(name for name in shared if name in graph.inputs)]

    def step(self, batch: Mapping[str, Array]) -> dict[str, float]:
        """Run the graph once and keep what it changed for the next time."""
        feeds = self._feeds
        feeds.update(batch)
        self.steps += 1
        for name in self._counters:
            feeds[name] = np.array(self.steps, np.float32)
        for name, shape in sorted(self._graph.noise.items()):
            feeds[name] = self._rng.random(shape, np.float32)
        values = self._session.run(self._outputs, feeds)
        losses = self._losses
        feeds.update(zip(self._changed, values[len(losses) :], strict=True))
        return {name: float(value) for name, value in zip(losses, values, strict=False)}

    def weights(self, role: str) -> Flat:
        """The weights (P,) of a role as they are now."""
        return joined_parts(role, self._tables[role], self._feeds)

    def slots(self) -> dict[str, Flat]:
        """The optimizer vectors (P,) by `role.slot` as they are now."""
        assert self._graph.optimizer is not None
        names = ((role, f"{role}.{slot}") for role in self._tables for slot in SLOTS[self._graph.optimizer])
        return {name: joined_parts(name, self._tables[role], self._feeds) for role, name in names}
