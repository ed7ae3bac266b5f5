"""From a graph that the pack's checks accepted to the program that the library runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from auricle.checks.graph_check import Followed, check_graph
from auricle.checks.interface_facts import EVALUATED_BATCH
from auricle.checks.onnx_reader import Node
from auricle.checks.operator_call import UnsoundNodeError
from auricle.packs.graph_interface import Graph as PackGraph
from auricle.packs.pack import Pack
from auricle_learning.native.activations import ACTIVATIONS
from auricle_learning.native.depthwise import DEPTHWISE, with_depthwise
from auricle_learning.native.layers import LAYERS, NORMS
from auricle_learning.native.layout import FLOAT, JOINED, TRUTH, VIEWS, WHOLE, Graph, parts_of, require
from auricle_learning.native.operators import BINARY, IN_PLACE, OPERATORS, REDUCTIONS, SAME, TRUTHS, UNARY
from auricle_learning.native.plan import Plan, Slot
from auricle_learning.native.program import UnsupportedError
from auricle_learning.native.recurrent import RECURRENT
from auricle_learning.native.views import View
from auricle_learning.native.writer import Writer

HANDLERS = {**OPERATORS, **ACTIVATIONS, **LAYERS, **NORMS, **RECURRENT}
COMPUTED = {
    **dict.fromkeys((*UNARY, *REDUCTIONS, "Softmax", "LogSoftmax", *ACTIVATIONS, *NORMS), 1),
    **dict.fromkeys([*(name for name in BINARY if name != "Equal"), "Gemm", "MatMul", *DEPTHWISE], None),
}
"""How many inputs of an operator are numbers that it computes with; None: all."""


def plan_graph(pack: Pack, graph: PackGraph, batch: int = EVALUATED_BATCH) -> Plan:
    """Plan a graph of a pack; one for any batch, for that many samples.

    Raises
    ------
    PackError
        The checks refuse the graph.
    UnsupportedError
        It has an operator or a shape that the library has not.
    """
    followed = check_graph(pack, graph, batch)
    writer = Writer()
    held = {tensor.name: tensor.array for tensor in followed.model.initialisers}
    written = Graph(writer, followed.shapes, {**held, **followed.constants})
    inputs = {value.name: writer.keep(followed.shapes[value.name]) for value in followed.model.inputs}
    written.values.update(inputs)
    nodes = with_depthwise(written, _needed(followed, written), [value.name for value in followed.model.outputs])
    written.apart = _never_joined(written, nodes, {value.name for value in followed.model.outputs})
    nodes = [node for node in nodes if node.outputs[0] not in written.apart]
    _choose_places(written, nodes, {value.name for value in followed.model.outputs})
    for node in nodes:
        _write(written, node)
    outputs = {name: _settled(written, name) for name in graph.outputs}
    for name, view in outputs.items():
        if name.removeprefix("new/") in inputs:
            writer.replace(inputs[name.removeprefix("new/")], view)
    outputs = {name: inputs.get(name.removeprefix("new/"), view) for name, view in outputs.items()}
    constants = [view for view, _ in writer.constants]
    weights = [view for name, view in inputs.items() if not graph.trains and name not in ("x", *graph.state)]
    program = writer.program([*inputs.values(), *constants, *outputs.values()], [*constants, *weights])
    return Plan(
        program,
        {name: _slot(view) for name, view in inputs.items()},
        {name: _slot(view) for name, view in outputs.items()},
        tuple((view.store.offset, numbers) for view, numbers in writer.constants),
    )


def _slot(view: View) -> Slot:
    return view.store.offset + view.offset, view.shape


def _needed(followed: Followed, graph: Graph) -> list[Node]:
    """Nodes in order, without those whose values are known before or that nobody wants."""
    wanted, nodes = {value.name for value in followed.model.outputs}, []
    for node in reversed(followed.model.nodes):
        if any(name in wanted and name not in graph.constants for name in node.outputs if name):
            nodes.append(node)
            wanted.update(name for name in node.inputs if name)
    return nodes[::-1]


def _write(graph: Graph, node: Node) -> None:
    """Add one node's instructions."""
    handler = HANDLERS.get(node.operator) or DEPTHWISE.get(node.operator)
    if handler is None:
        raise UnsupportedError(f"its operator {node.operator} is not one that the library has")
    if any(0 in graph.shapes[name] for name in [*node.inputs, *node.outputs] if name and name not in graph.constants):
        raise UnsupportedError(f"its operator {node.operator} has a value without numbers")
    kinds = [graph.kind(name) for name in node.inputs]
    if node.operator in COMPUTED and WHOLE in kinds[: COMPUTED[node.operator]]:
        raise UnsupportedError(f"its operator {node.operator} computes with whole numbers")
    try:
        made = handler(graph, node)
        fits = all(view.shape == graph.shapes[name] for name, view in zip(node.outputs, made, strict=False) if name)
        require(fits and len(made) >= sum(map(bool, node.outputs)), "it gives something else")
    except (UnsupportedError, UnsoundNodeError) as reason:
        raise UnsupportedError(
            f"its operator {node.operator} is of another kind than the library's: {reason}"
        ) from None
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        raise UnsupportedError(f"its operator {node.operator} has inputs that the library does not expect") from error
    for name, view in zip(node.outputs, made, strict=False):
        if not name:
            continue
        graph.values[name] = view
        kept = kinds[1 if node.operator == "Where" else 0] if node.operator in (*SAME, *VIEWS) else FLOAT
        graph.kinds.setdefault(name, TRUTH if node.operator in TRUTHS else kept)


def _never_joined(graph: Graph, nodes: list[Node], outputs: set[str]) -> dict[str, Node]:
    """What a Concat joins along the last axis for products alone, by each of its names; a product does it in parts."""
    users: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        for name in node.inputs:
            users[name].append(node)
    apart: dict[str, Node] = {}
    for node in nodes:
        shape = graph.shapes[node.outputs[0]]
        if node.operator != "Concat" or graph.call(node).number("axis", 0) % len(shape) != len(shape) - 1:
            continue
        names, good = [node.outputs[0]], len(shape) >= 2
        for user in users[node.outputs[0]] if len(shape) > 2 else ():
            made = user.outputs[0]
            good &= user.operator == "Reshape" and graph.shapes[made] == (math.prod(shape[:-1]), shape[-1])
            names.append(made)
        good = good and not outputs & set(names)
        for name in names[1:] or names:
            good = good and all(_takes_blocks(graph, user, name) for user in users[name])
        if good:
            apart.update(dict.fromkeys(names, node))
    return apart


def _takes_blocks(graph: Graph, user: Node, name: str) -> bool:
    """Whether a node is a product of two matrices that can take one of them as blocks of columns."""
    if user.operator not in ("Gemm", "MatMul") or user.inputs.count(name) != 1 or name in user.inputs[2:]:
        return False
    turned = any(user.attributes.get(each, 0) for each in ("transA", "transB"))
    return not turned and all(len(graph.shapes[each]) == 2 for each in user.inputs[:2])


def _choose_places(graph: Graph, nodes: list[Node], outputs: set[str]) -> None:
    """Let what is joined or padded be made where it will lie, wherever its maker can do that.

    From the last node to the first, so that a place in a place is known before it is asked for.
    """
    makers = {name: node for node in nodes for name in node.outputs}
    for node in reversed(nodes):
        if node.operator not in JOINED:
            continue
        name = node.outputs[0]
        whole = graph.places.setdefault(name, graph.writer.new(graph.shapes[name]))
        try:
            parts = parts_of(graph, node, whole)
        except UnsupportedError:
            continue  # the graph is left out when this node is written
        for source, part in parts:
            source, place = _origin(graph, makers, source, part)
            free = source in makers and source not in graph.places and source not in outputs
            fits = place is not None and place.shape == graph.shapes[source]
            if place is not None and fits and free and makers[source].operator in (*IN_PLACE, *ACTIVATIONS):
                graph.places[source] = place


def _origin(graph: Graph, makers: Mapping[str, Node], name: str, place: View) -> tuple[str, View | None]:
    """What a value is only another shape of, and the place as that; None where the place cannot have that shape."""
    found: View | None = place
    while found is not None and name in makers and makers[name].operator in ("Reshape", "Squeeze", "Unsqueeze"):
        name = makers[name].inputs[0]
        found = found.reshaped(graph.shapes[name]) if found.size == math.prod(graph.shapes[name]) else None
    return name, found


def _settled(graph: Graph, name: str) -> View:
    """An output where nothing will change it: side by side, and not in the memory of an input or a constant."""
    view = graph.view(name)
    if view.store.kept:
        return graph.writer.elementwise("copy", [view], graph.writer.new(view.shape))
    return graph.writer.dense(view)
