"""A pack's `evaluate` graph in PyTorch, run for many models at once: a small interpreter of standard ONNX operators."""

from __future__ import annotations

import importlib
import math
from collections.abc import Collection
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from auricle.checks.graph_check import CheckedModel, InterfaceFacts
from auricle.checks.onnx_reader import Node, read_model
from auricle.checks.operator_shapes import Constant, Shape, constant_of
from auricle.errors import AuricleError
from auricle.packs.manifest import PARTS
from auricle.packs.pack import Graph, Pack
from auricle_cloud.evaluation.torch_operators import Call, Tensor, UnknownOperatorError
from auricle_cloud.evaluation.torch_recurrent import KNOWN

WEIGHTS = tuple(f"model/{part}" for part in PARTS)


def import_torch() -> ModuleType:
    """Import PyTorch; AuricleError, saying how to get it, where it is not installed."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        raise AuricleError('PyTorch is not installed: pip install "auricle[gpu]".') from error


@dataclass(frozen=True)
class _Plan:
    """What to run for one batch size, from shapes and constants that follow from it."""

    steps: list[tuple[Node, list[Shape], list[str]]]
    """Nodes whose outputs are no constants, the shapes of these, and the values that nobody needs afterwards."""
    constants: dict[str, Constant]
    tensors: dict[str, Tensor]
    numbers: int
    """Of all values of one model together."""


class TorchGraph:
    """The graph as a function of features and weights.

    Parameters
    ----------
    pack, graph
        An `evaluate` graph, checked already.
    device
        PyTorch's name of where to compute, such as `cuda` or `cpu`.
    batches
        Sizes of the batches that will come; each is tried here.

    Raises
    ------
    UnknownOperatorError
        It has an operator, or a setting of one, that is not known.
    AuricleError
        PyTorch is not installed.
    """

    def __init__(self, pack: Pack, graph: Graph, device: str, batches: Collection[int]) -> None:
        self.torch: Any = import_torch()
        self.device = device
        self._where = f"The graph {graph.file} of the pack {pack.manifest.name}"
        self._model = read_model(pack.files[graph.file], self._where)
        self._inputs = InterfaceFacts(pack, graph).inputs()
        self._plans: dict[int, _Plan] = {}
        weights = [self._zeros(1, *self._inputs[name]) for name in WEIGHTS]
        for batch in batches:
            self.logits(self._zeros(batch, *self._inputs["x"][1:]), weights)

    def _zeros(self, *shape: Any) -> Tensor:
        return self.torch.zeros(shape, device=self.device)

    def numbers(self, batch: int) -> int:
        """Numbers that one model makes for a batch of so many samples."""
        return self._plan(batch).numbers

    def logits(self, x: Tensor, weights: list[Tensor]) -> Tensor:
        """Logits (M, B, labels) of M models for features (B, T, mels).

        Parameters
        ----------
        x
            On the graph's device.
        weights
            The models' three parts, (M, ...) each, on the device.
        """
        plan = self._plan(len(x))
        with self.torch.inference_mode():
            return self.torch.func.vmap(lambda *parts: self._run(plan, x, parts))(*weights)

    def _plan(self, batch: int) -> _Plan:
        if batch not in self._plans:
            checked = CheckedModel(self._model, self._where)
            shapes: dict[str, Any] = {tensor.name: tensor.array.shape for tensor in self._model.initialisers}
            shapes |= {**self._inputs, "x": (batch, *self._inputs["x"][1:])}
            checked.follow(shapes)
            constants: dict[str, Constant] = {tensor.name: tensor.array for tensor in self._model.initialisers}
            for node in self._model.nodes:
                value = constant_of(node) if node.operator == "Constant" else None
                constants |= {} if value is None else {node.outputs[0]: value}
            self._plans[batch] = self._arrange(shapes, {**constants, **checked.constants})
        return self._plans[batch]

    def _arrange(self, shapes: dict[str, Shape], constants: dict[str, Constant]) -> _Plan:
        """Leave out what is constant or leads not to the logits, and note where a value is used for the last time."""
        nodes: list[Node] = []
        needed = {"logits"}
        for node in reversed(self._model.nodes):
            if any(name in needed and name not in constants for name in node.outputs):
                if node.operator not in KNOWN:
                    raise UnknownOperatorError(f"The operator {node.operator} is not known to Auricle's PyTorch.")
                nodes.insert(0, node)
                needed |= set(filter(None, node.inputs))
        last = {name: place for place, node in enumerate(nodes) for name in node.inputs}
        steps = [
            (
                node,
                [shapes.get(name, ()) for name in node.outputs],
                [name for name in (*node.inputs, *node.outputs) if last.get(name, -1) <= place and name != "logits"],
            )
            for place, node in enumerate(nodes)
        ]
        tensors = {
            name: self.torch.tensor(np.array(constants[name]), device=self.device)
            for node in nodes
            for name in node.inputs
            if name in constants
        }
        return _Plan(steps, constants, tensors, sum(math.prod(shape) for _, made, _ in steps for shape in made))

    def _run(self, plan: _Plan, x: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
        values: dict[str, Tensor] = {"x": x, **dict(zip(WEIGHTS, weights, strict=True))}
        for node, made, done in plan.steps:
            inputs = [values.get(name, plan.tensors.get(name)) if name else None for name in node.inputs]
            numbers = [plan.constants.get(name) for name in node.inputs]
            found = KNOWN[node.operator](Call(self.torch, node, inputs, numbers, made))
            given = found if isinstance(found, tuple) else (found,)
            values.update((name, value) for name, value in zip(node.outputs, given, strict=False) if name)
            for name in done:
                values.pop(name, None)
        return values["logits"]
