"""What a pack's graphs must be before a runtime may see them: standard operators, sound wiring, bounded sizes.

A graph comes from the maker of the pack. Everything is judged from the file's bytes, without the `onnx` package and
before any runtime allocates for it: shapes are followed through the whole graph with the pack's own numbers, so that
a tensor too large for a board is refused wherever it would arise.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, NoReturn

from auricle.checks.interface_facts import EVALUATED_BATCH, InterfaceFacts
from auricle.checks.layout_shapes import RULES, SMALL, fold_constant
from auricle.checks.onnx_fields import FLOAT
from auricle.checks.onnx_reader import LARGEST_TENSOR, Model, Node, Value, printable, read_model
from auricle.checks.operator_call import Call, Constant, Shape, UnsoundNodeError, check_size
from auricle.errors import PackError
from auricle.packs.graph_interface import Graph
from auricle.packs.pack import Pack

LOWEST_OPSET, HIGHEST_OPSET = 13, 21
LOWEST_IR, HIGHEST_IR = 7, 10
STANDARD = ("", "ai.onnx")
LARGEST_TOTAL = 1 << 30
"""Most numbers of all tensors of a graph together."""


class Followed(NamedTuple):
    """A graph that was found sound."""

    model: Model
    shapes: Mapping[str, Shape]
    constants: Mapping[str, Constant]
    """Values that are small and the same in every run."""


def check_graph(pack: Pack, graph: Graph, batch: int = EVALUATED_BATCH, content: bytes | None = None) -> Followed:
    """Judge one graph of a pack by its file; call it before the file is given to a runtime. Takes 10 to 50 ms.

    Parameters
    ----------
    pack
        The pack.
    graph
        One of its graphs.
    batch
        Samples with which a graph for any batch is followed.
    content
        What a runtime made of the graph's file, to be judged in its place.

    Returns
    -------
    Followed
        What was read, with the shape of every value.

    Raises
    ------
    PackError
        It names the file and the first thing that is wrong: see `docs/pack-format.md` for the list.
    """
    where = f"The graph {graph.file} of the pack {pack.manifest.name}"
    checked = CheckedModel(read_model(pack.files[graph.file] if content is None else content, where), where)
    checked.refuse_unsound(STANDARD)
    facts = InterfaceFacts(pack, graph, batch)
    named: dict[str, int] = {}
    shapes = checked.take(facts.inputs(), named, any_batch=facts.any_batch)
    checked.follow(shapes)
    checked.give(facts.outputs(), shapes, named)
    return Followed(checked.model, shapes, checked.constants)


def check_foreign_graph(data: bytes, where: str, domains: Collection[str]) -> None:
    """Judge an ONNX file of another runtime: its wiring and constants, not its operators' names, shapes or interface.

    Parameters
    ----------
    data
        The file.
    where
        What it is, for the sentence of a refusal.
    domains
        Operator domains that this runtime brings along.

    Raises
    ------
    PackError
        It is not sound.
    """
    CheckedModel(read_model(data, where), where).refuse_unsound((*STANDARD, *domains))


class CheckedModel:
    """A model while it is judged."""

    def __init__(self, model: Model, where: str) -> None:
        self.model = model
        self.where = where
        self.constants: dict[str, Constant] = {
            tensor.name: tensor.array for tensor in model.initialisers if tensor.array.size <= SMALL
        }

    def refuse(self, reason: str) -> NoReturn:
        """Raise the PackError that names the file and the reason."""
        raise PackError(f"{self.where} is refused: {reason}.")

    def refuse_unsound(self, domains: Sequence[str]) -> None:
        """Versions, domains, and wiring: every name made once and before it is used."""
        model = self.model
        if not LOWEST_IR <= model.ir <= HIGHEST_IR:
            self.refuse(f"it has IR version {model.ir}; {LOWEST_IR} to {HIGHEST_IR} are allowed")
        opset = model.opsets.get("", model.opsets.get("ai.onnx", 0))
        if not LOWEST_OPSET <= opset <= HIGHEST_OPSET:
            self.refuse(f"it uses opset {opset}; {LOWEST_OPSET} to {HIGHEST_OPSET} are allowed")
        for node in model.nodes:
            if node.domain not in domains:
                self.refuse(
                    f"its operator {printable(node.operator)} is of the domain {printable(node.domain)}; only "
                    f"operators of the ONNX standard are allowed"
                )
        self._refuse_wiring()

    def _refuse_wiring(self) -> None:
        known: set[str] = set()
        makes = {name for node in self.model.nodes for name in node.outputs if name}
        for name in [value.name for value in self.model.inputs] + [tensor.name for tensor in self.model.initialisers]:
            self._define(known, name)
        for node in self.model.nodes:
            for name in node.inputs:
                if name and name not in known:
                    self._refuse_undefined(node, name, name in makes)
            if not any(node.outputs):
                self.refuse(f"its operator {printable(node.operator)} gives nothing")
            for name in filter(None, node.outputs):
                self._define(known, name)
        for value in self.model.outputs:
            if value.name not in known:
                self.refuse(f"nothing makes its output {printable(value.name)}")

    def _define(self, known: set[str], name: str) -> None:
        if not name or name in known:
            self.refuse(
                f"it defines {printable(name)} twice" if name else "it has an input or a constant without a name"
            )
        known.add(name)

    def _refuse_undefined(self, node: Node, name: str, later: bool) -> NoReturn:
        if not later:
            self.refuse(f"its operator {printable(node.operator)} takes {printable(name)}, which nothing makes")
        if self._cyclic():
            self.refuse(f"it is cyclic: {printable(name)} depends on itself or on what does")
        self.refuse(f"its operator {printable(node.operator)} takes {printable(name)} before it is made")

    def _cyclic(self) -> bool:
        """Whether some node waits for itself: what remains when those that can run have run."""
        maker = {name: i for i, node in enumerate(self.model.nodes) for name in node.outputs if name}
        waits = [{maker[name] for name in node.inputs if name in maker} for node in self.model.nodes]
        users: dict[int, list[int]] = {}
        for i, others in enumerate(waits):
            for other in others:
                users.setdefault(other, []).append(i)
        open_inputs = [len(others) for others in waits]
        ready = [i for i, count in enumerate(open_inputs) if count == 0]
        done = 0
        while ready:
            done += 1
            for user in users.get(ready.pop(), []):
                open_inputs[user] -= 1
                if open_inputs[user] == 0:
                    ready.append(user)
        return done < len(waits)

    def take(
        self, expected: dict[str, tuple[int | str, ...]], named: dict[str, int], *, any_batch: bool
    ) -> dict[str, Shape]:
        """Compare the file's inputs with those expected; returns the shapes that the graph starts from."""
        found = {value.name: value for value in self.model.inputs}
        other = sorted(set(found) ^ set(expected))
        if other:
            self.refuse(f"it does not take what the manifest says, {printable(other[0])} for one")
        symbols: dict[str, int] = {}
        shapes: dict[str, Shape] = {tensor.name: tensor.array.shape for tensor in self.model.initialisers}
        for name, dims in expected.items():
            value = found[name]
            self._refuse_value(value, dims, named, symbols)
            shapes[name] = tuple(
                dim if isinstance(dim, int) else named.setdefault(dim, EVALUATED_BATCH) for dim in dims
            )
            if math.prod(shapes[name]) > LARGEST_TENSOR:
                self.refuse(f"its input {printable(name)} claims {math.prod(shapes[name])} numbers")
        if any_batch and "x" in found and isinstance((found["x"].dims or (None,))[0], int):
            self.refuse("it has a fixed batch where the manifest says any")
        return shapes

    def _refuse_value(
        self, value: Value, dims: tuple[int | str, ...], named: dict[str, int], symbols: dict[str, int]
    ) -> None:
        if value.element != FLOAT or value.dims is None or len(value.dims) != len(dims):
            self.refuse(f"its input {printable(value.name)} is not a float32 tensor of {len(dims)} dimensions")
        for there, due in zip(value.dims, dims, strict=True):
            if isinstance(due, str):
                due = named.setdefault(due, there if isinstance(there, int) else EVALUATED_BATCH)
            if there is None or there == due:
                continue
            if isinstance(there, int) or symbols.setdefault(there, due) != due:
                claimed = tuple("?" if dim is None else dim for dim in value.dims)
                self.refuse(f"its input {printable(value.name)} is {claimed}, which the pack's tables do not say")

    def follow(self, shapes: dict[str, Shape]) -> None:
        """Follow shapes through all nodes into `shapes`; refuse what is too large or cannot be told."""
        total = sum(math.prod(shape) for shape in shapes.values())
        for node in self.model.nodes:
            rule = RULES.get(node.operator)
            if rule is None:
                self.refuse(f"its operator {printable(node.operator)} is not one that a pack's graph may use")
            call = Call(
                node,
                [shapes[name] if name else None for name in node.inputs],
                [self.constants.get(name) for name in node.inputs],
            )
            try:
                made = [check_size(shape) for shape in rule(call)]
            except UnsoundNodeError as error:
                label = node.outputs[0] or node.name
                self.refuse(
                    f"its operator {printable(node.operator)} that makes {printable(label)} is unsound: {error}"
                )
            if len(made) < len(node.outputs):
                self.refuse(f"its operator {printable(node.operator)} has more outputs than such a one has")
            for name, shape in zip(node.outputs, made, strict=False):
                if name:
                    shapes[name] = shape
                    total += math.prod(shape)
            if total > LARGEST_TOTAL:
                self.refuse(f"its tensors have more than {LARGEST_TOTAL} numbers together")
            value = fold_constant(call, made[0])
            if value is not None:
                self.constants[node.outputs[0]] = value

    def give(self, expected: dict[str, tuple[int | str, ...]], shapes: dict[str, Shape], named: dict[str, int]) -> None:
        """Compare the outputs, as they were followed, with those expected."""
        if sorted(value.name for value in self.model.outputs) != sorted(expected):
            self.refuse("it does not give the outputs that the manifest says")
        for value in self.model.outputs:
            due = tuple(dim if isinstance(dim, int) else named[dim] for dim in expected[value.name])
            if value.element != FLOAT or shapes[value.name] != due:
                self.refuse(f"its output {printable(value.name)} is {shapes[value.name]} and not float32 of {due}")
