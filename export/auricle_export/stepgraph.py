"""A whole training step as one graph of standard ONNX operators: batch, weights and optimiser state in, new ones out.

The graph is label-count free: the classifier's first dimension is symbolic, so one file serves every word list. A model
is three tensors: its *body* (every tensor but the classifier, flattened in the pack's order), `head.weight` and
`head.bias`; its optimiser state has the same three parts. Weights are inputs, so one session serves every device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from auricle.pack import PARTS, SLOTS
from auricle_export.fast import apply, logits
from auricle_export.models import FRAMES, MELS, Crnn, CrnnShape

BATCH = 16
OPSET = 18
IR_VERSION = 10
TRACED_LABELS = 37
"""Label count while tracing; no constant of the graph may depend on it."""

SCALARS = {
    "sgd": ("rate", "momentum", "decay", "clip"),
    "adamw": ("rate", "beta1", "beta2", "epsilon", "step", "decay", "clip"),
}
"""Hyper-parameters that each optimiser reads, as float32 scalars."""

aten = torch.ops.aten
Parts = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Trace:
    """A function over named tensors, ready to be exported."""

    run: Callable[..., tuple[Tensor, ...]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    example: tuple[Tensor, ...]


def _slice_backward(grad: Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Tensor:
    """As padding; the usual decomposition is a ScatterND, twice as slow."""
    start = start + sizes[dim] if start < 0 else start
    after = sizes[dim] - (start + grad.shape[dim])
    return aten.constant_pad_nd(grad, [0, 0] * (len(sizes) - dim - 1) + [start, after], 0.0)  # type: ignore[no-any-return]


def _select_backward(grad: Tensor, sizes: Sequence[int], dim: int, index: int) -> Tensor:
    dim, index = dim % len(sizes), index % sizes[dim]
    pads = [0, 0] * (len(sizes) - dim - 1) + [index, sizes[dim] - index - 1]
    return aten.constant_pad_nd(grad.unsqueeze(dim), pads, 0.0)  # type: ignore[no-any-return]


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.slice_backward.default: _slice_backward,
    aten.select_backward.default: _select_backward,
}


@cache
def body_tensors(shape: CrnnShape) -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes of a model's tensors but the classifier's, in the order in which the body holds them."""
    with torch.device("meta"):
        named = Crnn(shape, 2).named_parameters()
    return sorted((name, tuple(p.shape)) for name, p in named if not name.startswith("head."))


def unpack_parts(shape: CrnnShape, parts: Parts) -> dict[str, Tensor]:
    """Name the tensors inside a model's three parts."""
    tensors = body_tensors(shape)
    pieces = torch.split(parts[0], [torch.Size(dims).numel() for _, dims in tensors])
    named = {name: piece.reshape(dims) for (name, dims), piece in zip(tensors, pieces, strict=True)}
    return {**named, "head.weight": parts[1], "head.bias": parts[2]}


class SoftLoss(torch.autograd.Function):
    """Weighted cross-entropy to labels plus KL to a teacher, with the gradient ALGORITHMS 3.1 writes out.

    L = sum_b v_b [ce * CE(s_b, y_b) + kl * KL(softmax t_b || softmax s_b)], v = weight / sum weight; the gradient to
    the student logits is v [ce (p_s - y) + kl (p_s - p_t)]; the teacher gets none (FedMLAC, eq. 5-8).
    """

    @staticmethod
    def forward(
        student: Tensor, target: Tensor, teacher: Tensor, weight: Tensor, ce: Tensor, kl: Tensor
    ) -> tuple[Tensor, ...]:
        log_s, log_t = (z - torch.logsumexp(z, 1, keepdim=True) for z in (student, teacher))
        p_s, p_t = torch.exp(log_s), torch.exp(log_t)
        share = (weight / weight.sum()).unsqueeze(1)
        each = kl * (p_t * (log_t - log_s)).sum(1, keepdim=True) - ce * (target * log_s).sum(1, keepdim=True)
        grad = share * (ce * (p_s - target) + kl * (p_s - p_t))
        return (share * each).sum(), grad

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        (saved,) = ctx.saved_tensors
        return grads[0] * saved, None, None, None, None, None


def _flatten(shape: CrnnShape, named: dict[str, Tensor]) -> Parts:
    body = torch.cat([named[name].reshape(-1) for name, _ in body_tensors(shape)])
    return body, named["head.weight"], named["head.bias"]


def _clipped(grads: Parts, clip: Tensor) -> Parts:
    """Scale gradients so that their common norm is at most `clip` (infinity: as they are)."""
    norm = torch.sqrt(sum((g * g).sum() for g in grads))  # type: ignore[arg-type]
    scale = torch.clamp(clip / (norm + 1e-12), max=1.0)
    return grads[0] * scale, grads[1] * scale, grads[2] * scale


def _sgd(parts: Parts, grads: Parts, state: list[Parts], hyper: dict[str, Tensor]) -> tuple[Parts, list[Parts]]:
    moved = [hyper["momentum"] * m + g + hyper["decay"] * w for m, g, w in zip(state[0], grads, parts, strict=True)]
    new = [w - hyper["rate"] * m for w, m in zip(parts, moved, strict=True)]
    return (new[0], new[1], new[2]), [(moved[0], moved[1], moved[2])]


def _adamw(parts: Parts, grads: Parts, state: list[Parts], hyper: dict[str, Tensor]) -> tuple[Parts, list[Parts]]:
    b1, b2 = hyper["beta1"], hyper["beta2"]
    first = [b1 * m + (1 - b1) * g for m, g in zip(state[0], grads, strict=True)]
    second = [b2 * v + (1 - b2) * (g * g) for v, g in zip(state[1], grads, strict=True)]
    size = hyper["rate"] / (1 - torch.pow(b1, hyper["step"]))
    root = 1 / torch.sqrt(1 - torch.pow(b2, hyper["step"]))
    keep = 1 - hyper["rate"] * hyper["decay"]
    new = [
        keep * w - size * m / (torch.sqrt(v) * root + hyper["epsilon"])
        for w, m, v in zip(parts, first, second, strict=True)
    ]
    return (new[0], new[1], new[2]), [(first[0], first[1], first[2]), (second[0], second[1], second[2])]


OPTIMISERS = {"sgd": _sgd, "adamw": _adamw}


def _model_names(model: str, optimiser: str) -> list[str]:
    groups = [model, *(f"{model}.{slot}" for slot in SLOTS[optimiser])]
    return [f"{group}/{part}" for group in groups for part in PARTS]


def _model_example(shape: CrnnShape, optimiser: str) -> list[Tensor]:
    body = sum(torch.Size(dims).numel() for _, dims in body_tensors(shape))
    width = shape.hidden * (2 if shape.bidirectional else 1)
    sizes = [(body,), (TRACED_LABELS, width), (TRACED_LABELS,)]
    return [torch.rand(size) * 0.1 for _ in range(1 + len(SLOTS[optimiser])) for size in sizes]


def _triples(values: Sequence[Tensor]) -> list[Parts]:
    return [(values[i], values[i + 1], values[i + 2]) for i in range(0, len(values), 3)]


def _hyper_names(model: str, optimiser: str) -> list[str]:
    return [f"{model}.{name}" for name in SCALARS[optimiser]]


def _batch_example() -> tuple[Tensor, ...]:
    return (torch.rand(BATCH, FRAMES, MELS), torch.rand(BATCH, TRACED_LABELS), torch.ones(BATCH))


def _update(optimiser: str, model: str, values: dict[str, Tensor], grads: Parts) -> list[Tensor]:
    """One optimiser step of one model: its new parts and its new state."""
    weights, *state = _triples([values[n] for n in _model_names(model, optimiser)])
    hyper = {n.rsplit(".", 1)[1]: values[n] for n in _hyper_names(model, optimiser)}
    new, slots = OPTIMISERS[optimiser](weights, _clipped(grads, hyper["clip"]), state, hyper)
    return [*new, *(t for slot in slots for t in slot)]


def _named(shape: CrnnShape, model: str, values: dict[str, Tensor]) -> dict[str, Tensor]:
    body, weight, bias = (values[f"{model}/{part}"] for part in PARTS)
    return unpack_parts(shape, (body, weight, bias))


def supervised_step(shape: CrnnShape, optimiser: str) -> Trace:
    """One step of one model on weighted cross-entropy. Loss: mean over the batch by sample weight."""
    names = ["x", "target", "weight", *_hyper_names("model", optimiser), *_model_names("model", optimiser)]

    def run(*args: Tensor) -> tuple[Tensor, ...]:
        values = dict(zip(names, args, strict=True))
        one, zero = torch.ones(()), torch.zeros(())

        def objective(named: dict[str, Tensor]) -> Tensor:
            z = logits(shape, named, values["x"])
            return apply(SoftLoss, z, values["target"], z.detach(), values["weight"], one, zero)[0]

        grads, loss = torch.func.grad_and_value(objective)(_named(shape, "model", values))
        return (loss, *_update(optimiser, "model", values, _flatten(shape, grads)))

    scalars = [torch.tensor(0.5) for _ in SCALARS[optimiser]]
    example = (*_batch_example(), *scalars, *_model_example(shape, optimiser))
    return Trace(run, tuple(names), ("loss", *(f"new/{n}" for n in _model_names("model", optimiser))), example)


def mutual_step(local: CrnnShape, plugin: CrnnShape, optimiser: str) -> Trace:
    """One simultaneous mutual-learning step of a local model and the plug-in (FedMLAC, eq. 5-8, A6).

    local: alpha CE + (1 - alpha) KL(plug-in || local); plug-in: KL(local || plug-in) + plugin_ce CE. Both from one
    forward of each model; the teacher's logits take no gradient.
    """
    names = ["x", "target", "weight", "alpha", "plugin_ce"]
    for model in ("local", "plugin"):
        names += [*_hyper_names(model, optimiser), *_model_names(model, optimiser)]

    def run(*args: Tensor) -> tuple[Tensor, ...]:
        values = dict(zip(names, args, strict=True))
        one, alpha = torch.ones(()), values["alpha"]
        target, weight = values["target"], values["weight"]

        def objective(named: tuple[dict[str, Tensor], ...]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            a, b = logits(local, named[0], values["x"]), logits(plugin, named[1], values["x"])
            loss_a = apply(SoftLoss, a, target, b.detach(), weight, alpha, 1 - alpha)[0]
            loss_b = apply(SoftLoss, b, target, a.detach(), weight, values["plugin_ce"], one)[0]
            return loss_a + loss_b, (loss_a, loss_b)

        models = (_named(local, "local", values), _named(plugin, "plugin", values))
        grads, (_, losses) = torch.func.grad_and_value(objective, has_aux=True)(models)
        new = _update(optimiser, "local", values, _flatten(local, grads[0]))
        new += _update(optimiser, "plugin", values, _flatten(plugin, grads[1]))
        return (*losses, *new)

    example = [*_batch_example(), torch.tensor(0.5), torch.tensor(0.5)]
    for shape in (local, plugin):
        example += [*(torch.tensor(0.5) for _ in SCALARS[optimiser]), *_model_example(shape, optimiser)]
    states = [f"new/{n}" for m in ("local", "plugin") for n in _model_names(m, optimiser)]
    return Trace(run, tuple(names), ("loss.local", "loss.plugin", *states), tuple(example))


def export(trace: Trace) -> onnx.ModelProto:
    """Compile a traced step to ONNX: opset 18, IR 10, symbolic label count, no names or paths of the machine."""
    graph = make_fx(trace.run, decomposition_table=DECOMPOSITIONS)(*trace.example)
    graph.graph.eliminate_dead_code()
    graph.eval()
    program = torch.onnx.export(
        graph, trace.example, dynamo=True, opset_version=OPSET, verbose=False,
        input_names=list(trace.inputs), output_names=list(trace.outputs),
    )  # fmt: skip
    assert program is not None
    program.optimize()
    return _anonymous(program.model_proto)


def _anonymous(model: onnx.ModelProto) -> onnx.ModelProto:
    """Keep operators, constants and the interface; make the label dimension symbolic."""
    for value in [*model.graph.input, *model.graph.output]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value == TRACED_LABELS:
                dim.dim_param = "labels"
    del model.graph.value_info[:]
    del model.metadata_props[:]
    for node in model.graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    for entry in [*model.graph.initializer, *model.graph.input, *model.graph.output]:
        entry.ClearField("metadata_props")
        entry.ClearField("doc_string")
    model.graph.ClearField("metadata_props")
    model.graph.name = "step"
    model.ir_version = IR_VERSION
    model.producer_name, model.producer_version = "auricle", ""
    onnx.checker.check_model(model)
    return model
