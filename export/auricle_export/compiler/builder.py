"""A graph in the making: nodes are made and added by name, fragments are put in with their names made different."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 18
IR_VERSION = 10
Attribute = int | float | str | Sequence[int] | Sequence[float] | Sequence[bytes]
"""What a node's attribute may be."""


def make_node(operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Attribute) -> onnx.NodeProto:
    """A node with its attributes."""
    given: dict[str, Any] = {**attributes}
    return helper.make_node(operator, inputs, outputs, **given)


Shape = Sequence[int | str]


class GraphBuilder:
    """Collects inputs, constants, nodes and outputs; every call returns the name of the value it makes."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._inputs: dict[str, Shape] = {}
        self._outputs: dict[str, Shape] = {}
        self._values: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        self._fragments = 0

    @property
    def inputs(self) -> dict[str, Shape]:
        """Names and shapes of what was declared as input."""
        return dict(self._inputs)

    def input(self, name: str, shape: Shape = ()) -> str:
        """Declare a float32 input, once."""
        self._inputs.setdefault(name, tuple(shape))
        return name

    def output(self, name: str, value: str, shape: Shape = ()) -> None:
        """Declare a value as a float32 output."""
        self.alias(name, value)
        self._outputs[name], self._values[name] = tuple(shape), value

    def value(self, output: str) -> str:
        """The value behind an output."""
        return self._values[output]

    def alias(self, name: str, value: str) -> None:
        """Let a name that nodes use already, or an output, stand for a value."""
        self._aliases[name] = value

    def constant(self, value: float | Sequence[int]) -> str:
        """A float32 scalar, or a vector of int64."""
        if isinstance(value, float):
            array, name = np.array(value, np.float32), f"c_{value!r}"
        else:
            array, name = np.array(value, np.int64), "c_" + "_".join(str(v) for v in value)
        self._constants[name] = numpy_helper.from_array(array, name)
        return name

    def constant_floats(self, values: Sequence[float]) -> str:
        """A vector of float32."""
        name = "v_" + "_".join(repr(value) for value in values)
        self._constants[name] = numpy_helper.from_array(np.array(values, np.float32), name)
        return name

    def many(self, operator: str, inputs: Sequence[str], outputs: int, **attributes: Attribute) -> list[str]:
        """Add a node with several outputs."""
        made = [f"{operator.lower()}_{len(self._nodes)}" + (f"_{i}" if i else "") for i in range(outputs)]
        self._nodes.append(make_node(operator, inputs, made, **attributes))
        return made

    def __call__(self, operator: str, *inputs: str | float, **attributes: Attribute) -> str:
        """Add a node with one output; numbers among its inputs become constants."""
        names = [self.constant(value) if isinstance(value, float) else value for value in inputs]
        return self.many(operator, names, 1, **attributes)[0]

    def total(self, values: Sequence[str]) -> str:
        """The sum of several values."""
        return values[0] if len(values) == 1 else self("Sum", *values)

    def include(self, fragment: onnx.ModelProto, given: Mapping[str, str], wanted: Sequence[str]) -> list[str]:
        """Put a fragment in, its inputs bound to values of this graph; only what `wanted` needs is taken."""
        self._fragments += 1
        graph, prefix = fragment.graph, f"f{self._fragments}/"
        needed, kept = {*wanted}, []
        for node in reversed(graph.node):
            if needed & set(node.output):
                needed.update(node.input)
                kept.append(node)
        names = {"": "", **given}
        for tensor in graph.initializer:
            if tensor.name in needed:
                copied = onnx.TensorProto()
                copied.CopyFrom(tensor)
                copied.name = names[tensor.name] = prefix + tensor.name
                self._constants[copied.name] = copied
        for node in reversed(kept):
            copied_node = onnx.NodeProto()
            copied_node.CopyFrom(node)
            copied_node.name = ""
            copied_node.input[:] = [names[name] for name in node.input]
            for name in node.output:
                names.setdefault(name, prefix + name if name else "")
            copied_node.output[:] = [names[name] for name in node.output]
            self._nodes.append(copied_node)
        return [names[name] for name in wanted]

    def _resolve_aliases(self, outputs: Sequence[str]) -> list[onnx.NodeProto]:
        """The nodes with every alias resolved, and the values of outputs made under the outputs' names."""
        new = {name: value for name, value in self._aliases.items() if name not in outputs}
        taken: dict[str, str] = {}
        copies = []
        for name in outputs:
            value = self._aliases[name]
            if value in taken or value in self._inputs or value in self._constants:
                copies.append(helper.make_node("Identity", [taken.get(value, value)], [name]))
            else:
                taken[value] = name
        new = {**{name: taken.get(value, value) for name, value in new.items()}, **taken}
        nodes = []
        for node in self._nodes:
            renamed = onnx.NodeProto()
            renamed.CopyFrom(node)
            renamed.input[:], renamed.output[:] = _rename(node.input, new), _rename(node.output, new)
            nodes.append(renamed)
        return [*nodes, *copies]

    def build(self, inputs: Sequence[str], outputs: Sequence[str], name: str = "step") -> onnx.ModelProto:
        """The checked model with its inputs and outputs in this order, its nodes in an order that can be run."""
        for known in inputs:
            if known not in self._inputs:
                raise KeyError(f"no input {known} was declared")

        nodes = self._resolve_aliases(outputs)

        def info(name: str, shape: Shape) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))

        ordered = _sort(nodes, {*self._inputs, *self._constants}, outputs)
        used = {value for node in ordered for value in node.input}
        constants = {key: tensor for key, tensor in self._constants.items() if key in used}
        short = _short_names(ordered, constants, {"", *inputs, *outputs})
        for number, node in enumerate(ordered):
            node.input[:], node.output[:] = _rename(node.input, short), _rename(node.output, short)
            # onnxruntime 1.19 and 1.20 name a node that they fuse after one of these, and refuse two of one name
            node.name = str(number) if node.op_type in ("Slice", "Gather") else ""
        for key, tensor in constants.items():
            tensor.name = short[key]
        graph = helper.make_graph(
            ordered,
            name,
            [info(n, self._inputs[n]) for n in inputs],
            [info(n, self._outputs[n]) for n in outputs],
            initializer=list(constants.values()),
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="auricle")
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model)
        return model


def _rename(names: Sequence[str], new: Mapping[str, str]) -> list[str]:
    return [new.get(name, name) for name in names]


def _short_names(nodes: Sequence[onnx.NodeProto], constants: Iterable[str], kept: set[str]) -> dict[str, str]:
    """Short names for all values but the interface: names are a third of what a graph takes on disk."""
    values = [*constants, *(value for node in nodes for value in node.output)]
    inner = [value for value in dict.fromkeys(values) if value not in kept]
    return {value: f"v{number}" for number, value in enumerate(inner)}


def _sort(nodes: Sequence[onnx.NodeProto], known: set[str], outputs: Sequence[str]) -> list[onnx.NodeProto]:
    """The nodes that the outputs need, each after what it needs; fragments may use values made later."""
    maker = {name: node for node in nodes for name in node.output if name}
    ordered: list[onnx.NodeProto] = []
    done, stack = {*known, ""}, [(name, False) for name in reversed(outputs)]
    while stack:
        name, expanded = stack.pop()
        if name in done:
            continue
        node = maker[name]
        if expanded:
            ordered.append(node)
            done.update(node.output)
        else:
            stack.append((name, True))
            stack.extend((need, False) for need in reversed(node.input) if need not in done)
    return ordered
