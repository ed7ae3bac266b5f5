"""What each operator of an `evaluate` graph computes, in PyTorch: plain functions that `torch.func.vmap` can batch.

Shapes come from `auricle.checks.graph_check`, which has followed them through the graph, so that an operator which only
moves numbers asks for the shape that is due. PyTorch is imported by nobody here: the module is handed in with every
call.
Source: https://github.com/onnx/onnx/blob/v1.17.0/docs/Operators.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn

from auricle.checks.onnx_reader import Node
from auricle.checks.operator_shapes import Constant, Shape
from auricle.errors import AuricleError

Tensor = Any
"""A `torch.Tensor`; of the inputs of a call also None, where an optional one is not there."""


class UnknownOperatorError(AuricleError):
    """A graph has an operator, or a setting of one, that is not written down here."""


class Call:
    """One node with its inputs, and the shapes of its outputs."""

    def __init__(
        self,
        torch: ModuleType,
        node: Node,
        inputs: Sequence[Tensor],
        constants: Sequence[Constant | None],
        made: Sequence[Shape],
    ) -> None:
        self.torch, self.node, self.inputs, self.constants, self.made = torch, node, inputs, constants, made

    def input(self, index: int) -> Tensor | None:
        """An optional input; None where it is not there."""
        return self.inputs[index] if index < len(self.inputs) else None

    def numbers(self, index: int) -> list[int]:
        """A constant input as a list of whole numbers."""
        value = self.constants[index] if index < len(self.constants) else None
        if value is None:
            self.refuse(f"input {index} that is no constant")
        return [int(number) for number in value.reshape(-1)]

    def has(self, index: int) -> bool:
        """Whether an optional input is there, be it a tensor or a constant."""
        return index < len(self.inputs) and bool(self.node.inputs[index])

    def get(self, name: str, default: Any) -> Any:
        """An attribute."""
        return self.node.attributes.get(name, default)

    def require(self, name: str, *allowed: Any) -> None:
        """Refuse an attribute that has another value than these; the first is its default."""
        if self.get(name, allowed[0]) not in allowed:
            self.refuse(f"{name} = {self.get(name, None)!r}")

    def refuse(self, what: str) -> NoReturn:
        """Raise the UnknownOperatorError that names the operator and what is unknown about it."""
        raise UnknownOperatorError(f"The operator {self.node.operator} with {what} is not known to Auricle's PyTorch.")


Operator = Callable[[Call], Any]
"""Gives a tensor, or a tuple of them where a node has several outputs."""


def _unary(name: str) -> Operator:
    return lambda call: getattr(call.torch, name)(call.inputs[0])


def _function(name: str) -> Operator:
    return lambda call: getattr(call.torch.nn.functional, name)(call.inputs[0])


def _binary(name: str) -> Operator:
    return lambda call: getattr(call.torch, name)(call.inputs[0], call.inputs[1])


def _fold(name: str) -> Operator:
    """An operator of two inputs, over as many as there are."""

    def run(call: Call) -> Tensor:
        result = call.inputs[0]
        for other in call.inputs[1:]:
            result = getattr(call.torch, name)(result, other)
        return result

    return run


def _divide(call: Call) -> Tensor:
    if not call.inputs[0].is_floating_point():
        call.refuse("whole numbers")
    return call.inputs[0] / call.inputs[1]


def _full(call: Call) -> Tensor:
    value = call.get("value", None)
    like: Any = call.inputs[0]
    number = call.torch.tensor(0.0 if value is None else value.array.reshape(-1)[0], device=like.device)
    return number.expand(call.made[0])


def _clip(call: Call) -> Tensor:
    x = call.inputs[0]
    for index, limit in ((1, call.torch.maximum), (2, call.torch.minimum)):
        bound = call.input(index)
        x = x if bound is None else limit(x, bound)
    return x


def _soft(name: str) -> Operator:
    return lambda call: getattr(call.torch, name)(call.inputs[0], dim=call.get("axis", -1))


def _hard_sigmoid(call: Call) -> Tensor:
    return (call.get("alpha", 0.2) * call.inputs[0] + call.get("beta", 0.5)).clamp(0, 1)


def _gelu(call: Call) -> Tensor:
    return call.torch.nn.functional.gelu(call.inputs[0], approximate=call.get("approximate", b"none").decode())


def _cast(call: Call) -> Tensor:
    kinds = {1: "float32", 6: "int32", 7: "int64", 9: "bool"}
    if call.get("to", 0) not in kinds:
        call.refuse(f"to = {call.get('to', 0)}")
    return call.inputs[0].to(getattr(call.torch, kinds[call.get("to", 0)]))


def _reduce(name: str) -> Operator:
    def run(call: Call) -> Tensor:
        x: Any = call.inputs[0]
        axes = call.numbers(1) if call.has(1) else list(call.get("axes", ()))
        if not axes and call.get("noop_with_empty_axes", 0):
            return x
        return getattr(call.torch, name)(x, dim=axes or list(range(x.dim())), keepdim=bool(call.get("keepdims", 1)))

    return run


def _reduce_of(name: str, change: Callable[[Any], Tensor], finish: Callable[[Any], Tensor]) -> Operator:
    def run(call: Call) -> Tensor:
        first = change(call.inputs[0])
        changed = Call(call.torch, call.node, [first, *call.inputs[1:]], call.constants, call.made)
        return finish(_reduce(name)(changed))

    return run


def _reshape(call: Call) -> Tensor:
    return call.inputs[0].reshape(call.made[0])


def _transpose(call: Call) -> Tensor:
    x: Any = call.inputs[0]
    return x.permute(call.get("perm", tuple(range(x.dim()))[::-1]))


def _split(call: Call) -> tuple[Tensor, ...]:
    if not all(call.node.outputs):
        call.refuse("a part that nobody takes")
    axis = call.get("axis", 0)
    parts: tuple[Tensor, ...] = call.torch.split(call.inputs[0], [shape[axis] for shape in call.made], dim=axis)
    return parts


def _slice(call: Call) -> Tensor:
    x: Any = call.inputs[0]
    starts, ends = call.numbers(1), call.numbers(2)
    axes = call.numbers(3) if call.has(3) else list(range(len(starts)))
    steps = call.numbers(4) if call.has(4) else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        rows = range(*slice(start, end, step).indices(x.shape[axis]))
        if step > 0:
            x = x[(slice(None),) * (axis % x.dim()) + (slice(rows.start, rows.stop, step),)]
        else:
            x = x.index_select(axis, call.torch.tensor(list(rows), dtype=call.torch.int64, device=x.device))
    return x


def _gather(call: Call) -> Tensor:
    x: Any = call.inputs[0]
    index: Any = call.inputs[1]
    axis = call.get("axis", 0) % x.dim()
    flat = call.torch.where(index < 0, index + x.shape[axis], index).reshape(-1)
    return x.index_select(axis, flat).reshape(call.made[0])


def _pad(call: Call) -> Tensor:
    x: Any = call.inputs[0]
    call.require("mode", b"constant")
    pads, value = call.numbers(1), call.input(2)
    axes = call.numbers(3) if call.has(3) else list(range(x.dim()))
    both = {axis % x.dim(): (pads[i], pads[i + len(axes)]) for i, axis in enumerate(axes)}
    order = [number for axis in reversed(range(x.dim())) for number in both.get(axis, (0, 0))]
    return call.torch.nn.functional.pad(x, order, value=0.0 if value is None else float(value))


def _gemm(call: Call) -> Tensor:
    a, b, c = call.inputs[0], call.inputs[1], call.input(2)
    a = a.mT if call.get("transA", 0) else a
    b = b.mT if call.get("transB", 0) else b
    product = call.get("alpha", 1.0) * (a @ b)
    return product if c is None else product + call.get("beta", 1.0) * c


def _einsum(call: Call) -> Tensor:
    return call.torch.einsum(call.get("equation", b"").decode(), *call.inputs)


def _padded(call: Call, x: Tensor, fill: float) -> Tensor:
    """The input with a window's padding on both sides: ONNX lists the beginnings of all axes, then the ends."""
    call.require("auto_pad", b"NOTSET")
    pads = list(call.get("pads", ()))
    if not any(pads):
        return x
    rank = len(pads) // 2
    order = [pads[axis + end * rank] for axis in reversed(range(rank)) for end in (0, 1)]
    return call.torch.nn.functional.pad(x, order, value=fill)


def _conv(call: Call) -> Tensor:
    x: Any = call.inputs[0]
    rank = x.dim() - 2
    if rank not in (1, 2):
        call.refuse(f"{rank} axes")
    run = call.torch.conv1d if rank == 1 else call.torch.conv2d
    settings = {
        "stride": call.get("strides", (1,) * rank),
        "dilation": call.get("dilations", (1,) * rank),
        "groups": call.get("group", 1),
    }
    return run(_padded(call, x, 0.0), call.inputs[1], call.input(2), **settings)


def _windows(call: Call, x: Tensor) -> tuple[Tensor, list[int]]:
    """Views of the padded input (..., *positions, *kernel), and the axes of the kernel."""
    kernel = call.get("kernel_shape", ())
    strides = call.get("strides", (1,) * len(kernel))
    call.require("ceil_mode", 0)
    call.require("dilations", (1,) * len(kernel))
    for axis, (size, stride) in enumerate(zip(kernel, strides, strict=True)):
        x = x.unfold(2 + axis, size, stride)
    return x, list(range(-len(kernel), 0))


def _max_pool(call: Call) -> Tensor:
    if sum(map(bool, call.node.outputs)) > 1:
        call.refuse("places")
    x, kernel = _windows(call, _padded(call, call.inputs[0], float("-inf")))
    return x.amax(dim=kernel)


def _average_pool(call: Call) -> Tensor:
    if any(call.get("pads", ())):
        call.require("count_include_pad", 0, 1)
    x, kernel = _windows(call, _padded(call, call.inputs[0], 0.0))
    if call.get("count_include_pad", 0) or not any(call.get("pads", ())):
        return x.mean(dim=kernel)
    ones, _ = _windows(call, _padded(call, call.torch.ones_like(call.inputs[0]), 0.0))
    return x.sum(dim=kernel) / ones.sum(dim=kernel)


def _global_pool(name: str) -> Operator:
    def run(call: Call) -> Tensor:
        x: Any = call.inputs[0]
        return getattr(call.torch, name)(x, dim=list(range(2, x.dim())), keepdim=True)

    return run


def _channels(x: Any, vector: Any) -> Tensor:
    """A vector (C,) beside an input (B, C, ...)."""
    return vector.reshape(-1, *(1 for _ in range(x.dim() - 2)))


def _batch_norm(call: Call) -> Tensor:
    call.require("training_mode", 0)
    x: Any = call.inputs[0]
    scale, bias, mean, variance = (_channels(x, vector) for vector in call.inputs[1:5])
    return (x - mean) * (scale / call.torch.sqrt(variance + call.get("epsilon", 1e-5))) + bias


def _standardised(call: Call, x: Any, axes: list[int]) -> Tensor:
    centred = x - x.mean(dim=axes, keepdim=True)
    return centred * call.torch.rsqrt((centred * centred).mean(dim=axes, keepdim=True) + call.get("epsilon", 1e-5))


def _instance_norm(call: Call) -> Tensor:
    x: Any = call.inputs[0]
    whole = _standardised(call, x, list(range(2, x.dim())))
    return whole * _channels(x, call.inputs[1]) + _channels(x, call.inputs[2])


def _layer_norm(call: Call) -> Tensor:
    if sum(map(bool, call.node.outputs)) > 1:
        call.refuse("its mean as an output")
    x: Any = call.inputs[0]
    axis, bias = call.get("axis", -1) % x.dim(), call.input(2)
    whole = _standardised(call, x, list(range(axis, x.dim()))) * call.inputs[1]
    return whole if bias is None else whole + bias


OPERATORS: dict[str, Operator] = {
    **{
        name: _unary(name.lower())
        for name in (
            "Abs",
            "Ceil",
            "Cos",
            "Erf",
            "Exp",
            "Floor",
            "Log",
            "Neg",
            "Reciprocal",
            "Relu",
            "Round",
            "Sigmoid",
            "Sign",
            "Sin",
            "Sqrt",
            "Tanh",
        )
    },
    **{name: _function(name.lower()) for name in ("HardSwish", "Mish", "Selu", "Softplus", "Softsign")},
    "IsNaN": _unary("isnan"),
    "Not": _unary("logical_not"),
    "Elu": lambda call: call.torch.nn.functional.elu(call.inputs[0], call.get("alpha", 1.0)),
    "Celu": lambda call: call.torch.nn.functional.celu(call.inputs[0], call.get("alpha", 1.0)),
    "LeakyRelu": lambda call: call.torch.nn.functional.leaky_relu(call.inputs[0], call.get("alpha", 0.01)),
    "HardSigmoid": _hard_sigmoid,
    "Gelu": _gelu,
    "Clip": _clip,
    "Cast": _cast,
    "Identity": lambda call: call.inputs[0],
    "Softmax": _soft("softmax"),
    "LogSoftmax": _soft("log_softmax"),
    "Add": _binary("add"),
    "Sub": _binary("sub"),
    "Mul": _binary("mul"),
    "Div": _divide,
    "Pow": _binary("pow"),
    "Max": _fold("maximum"),
    "Min": _fold("minimum"),
    "Sum": _fold("add"),
    "Equal": _binary("eq"),
    "Greater": _binary("gt"),
    "GreaterOrEqual": _binary("ge"),
    "Less": _binary("lt"),
    "LessOrEqual": _binary("le"),
    "And": _binary("logical_and"),
    "Or": _binary("logical_or"),
    "PRelu": lambda call: call.torch.where(call.inputs[0] < 0, call.inputs[0] * call.inputs[1], call.inputs[0]),
    "Where": lambda call: call.torch.where(*call.inputs[:3]),
    "ReduceMax": _reduce("amax"),
    "ReduceMean": _reduce("mean"),
    "ReduceMin": _reduce("amin"),
    "ReduceSum": _reduce("sum"),
    "ReduceL1": _reduce_of("sum", lambda x: x.abs(), lambda x: x),
    "ReduceL2": _reduce_of("sum", lambda x: x * x, lambda x: x.sqrt()),
    "ReduceSumSquare": _reduce_of("sum", lambda x: x * x, lambda x: x),
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _reshape),
    "Concat": lambda call: call.torch.cat(list(call.inputs), dim=call.get("axis", 0)),
    "Expand": lambda call: call.inputs[0].expand(call.made[0]),
    "Gather": _gather,
    "Pad": _pad,
    "Slice": _slice,
    "Split": _split,
    "Transpose": _transpose,
    "ConstantOfShape": _full,
    "Tile": lambda call: call.inputs[0].repeat(call.numbers(1)),
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _binary("matmul"),
    "Conv": _conv,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global_pool("mean"),
    "GlobalMaxPool": _global_pool("amax"),
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
}
"""Operators by name; the recurrent ones are in `auricle_cloud.evaluation.torch_recurrent`."""
