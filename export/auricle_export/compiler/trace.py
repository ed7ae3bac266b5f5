"""One module, run once forward and backward, as a fragment of standard ONNX operators.

The fragment is the module without its classifier: from log-mels and the flat body to features, and from the gradient
of the features to that of the body. Losses, the classifier and the optimizer are put around it by `stepgraph`, so that
one trace serves every kind of step and every number of labels.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import onnx
import torch
from torch import Tensor, nn
from torch._decomp import core_aten_decompositions
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx

from auricle_export.compiler import spatial
from auricle_export.compiler.classifier import features_of, random_like, run_linear
from auricle_export.compiler.contract import (
    BATCH,
    Call,
    Halt,
    Net,
    classifier_of,
    module_name,
    parameters_of,
    refuse_fixed_batch,
    refuse_other_evaluation,
    refuse_other_than_logits,
    run_module,
    unpack,
)
from auricle_export.compiler.intercept import CompileError, Intercept
from auricle_export.compiler.layers import Bavd
from auricle_export.compiler.onnx_export import to_onnx
from auricle_export.compiler.source_line import error_line, user_line


@dataclass
class _Sight:
    """What is seen while the module runs."""

    features: Tensor | None = None
    noise: list[tuple[int, ...]] = field(default_factory=list)
    given: Sequence[Tensor] = ()
    means: dict[str, Tensor] = field(default_factory=dict)


def find_parts(module: nn.Module, labels: int, frames: int = 100, mels: int = 40, batch: int = BATCH) -> Net:
    """Run a module once and find its classifier, its dropout masks and its BAVD layers.

    Parameters
    ----------
    module
        Takes log-mels (B, frames, mels), gives logits (B, labels).
    labels
        How many labels it was made for.

    Raises
    ------
    CompileError
        It fails, gives something else, does not end in an `nn.Linear` or 1x1 convolution with a bias, or calls what
        cannot be compiled.
    """
    module = frozen_statistics(copy.deepcopy(module).train())
    sight = _Sight()
    calls: list[Call] = []
    generator = torch.Generator().manual_seed(0)

    def note(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        result = run_linear(x, weight, bias)
        if weight.dim() > 2:  # whatever follows but a mean makes other numbers of these
            result = random_like(result, generator)
        kept = result.clone() if weight.dim() > 2 else result
        calls.append(Call(weight, kept, len(sight.noise), user_line()))
        return result

    with _bavd(module, sight), torch.no_grad():
        output = run_module(module, torch.rand(batch, frames, mels), Intercept(_fresh_mask(sight), note))
    refuse_other_than_logits(module, output, (batch, labels))
    assert isinstance(output, Tensor)
    head = classifier_of(module, calls, output, len(sight.noise))
    refuse_fixed_batch(module, labels, frames, mels)
    refuse_other_evaluation(module, head, frames, mels)
    width = parameters_of(module, head)[0][0].numel()
    own = [
        (n, tuple(p.shape)) for n, p in module.named_parameters() if p.requires_grad and not n.startswith(f"{head}.")
    ]
    if any(name.startswith("head.") for name, _ in own):
        raise CompileError(f'{module_name(module)} calls another part "head": only its classifier may have that name.')
    maps = tuple((name, tuple(mean.shape)) for name, mean in sorted(sight.means.items()))
    return Net(module, head, width, frames, mels, tuple(sorted(own)), tuple(sight.noise), maps, batch)


def frozen_statistics(module: nn.Module) -> nn.Module:
    """Let batch normalisation use its running statistics, which a step does not change; its affine part is trained."""
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.eval()
    return module


Drop = Callable[[Tensor, float, list[int]], Tensor]
"""What dropout does: x, p and the shape of the mask to the dropped x."""


def _fresh_mask(sight: _Sight) -> Drop:
    def drop(x: Tensor, p: float, shape: list[int]) -> Tensor:
        sight.noise.append(tuple(shape))
        return x.clone()

    return drop


def _dropout_by_mask(sight: _Sight) -> Drop:
    count = iter(range(len(sight.given)))

    def drop(x: Tensor, p: float, shape: list[int]) -> Tensor:
        return x * ((sight.given[next(count)] >= p).to(x.dtype) * (1.0 / (1.0 - p) if p < 1 else 0.0))

    return drop


@contextmanager
def _bavd(
    module: nn.Module, sight: _Sight, seen: Tensor | None = None, heat: dict[str, Tensor] | None = None
) -> Iterator[None]:
    """Let BAVD layers read their maps from inputs and leave their means in `sight`."""
    layers = {name: part for name, part in module.named_modules() if isinstance(part, Bavd)}

    def replace(name: str, layer: Bavd) -> None:
        def traced(h: Tensor) -> Tensor:
            with torch._C.DisableTorchFunction():  # this is not a call of the user's
                sight.means[name] = layer.mean(h)
                return h if heat is None or seen is None else layer.masked(h, heat[name], seen)

        layer.traced = traced

    for name, layer in layers.items():
        replace(name, layer)
    try:
        yield
    finally:
        for layer in layers.values():
            layer.traced = None


def train_inputs(net: Net) -> list[str]:
    """Names of the inputs of a training fragment."""
    state = [*(f"map.{name}" for name, _ in net.maps), *(["seen"] if net.maps else [])]
    return ["x", "body", "d_features", *(f"noise.{i}" for i in range(len(net.noise))), *state]


def train_outputs(net: Net) -> list[str]:
    """Names of its outputs."""
    return ["features", "d_body", *(f"mean.{name}" for name, _ in net.maps)]


def trace_training(net: Net) -> onnx.ModelProto:
    """Export the body's forward and backward pass, for a fixed batch.

    Raises
    ------
    CompileError
        An operator has no place in ONNX's standard set.
    """
    buffers = dict(net.module.named_buffers())
    frozen = {n: p.detach() for n, p in net.module.named_parameters() if not p.requires_grad}
    head = [torch.zeros_like(tensor) for tensor in parameters_of(net.module, net.head)]
    constants = {**buffers, **frozen, f"{net.head}.weight": head[0], f"{net.head}.bias": head[1]}

    def forward(named: dict[str, Tensor], x: Tensor, extras: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        noise, rest = extras[: len(net.noise)], extras[len(net.noise) :]
        sight = _Sight(given=noise)

        def reached(x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
            if weight is head[0]:
                sight.features = features_of(x, weight)
                raise Halt

        heat = {name: value for (name, _), value in zip(net.maps, rest, strict=False)}
        seen = rest[-1] if rest else None
        module = net.module
        with _bavd(module, sight, seen, heat):
            try:
                with Intercept(_dropout_by_mask(sight), reached):
                    functional_call(module, {**constants, **named}, (x,))
            except Halt:
                pass
        assert sight.features is not None
        return sight.features, [sight.means[name] for name, _ in net.maps]

    def run(x: Tensor, body: Tensor, d_features: Tensor, *extras: Tensor) -> tuple[Tensor, ...]:
        pulled: Any = torch.func.vjp(lambda named: forward(named, x, extras), unpack(net, body), has_aux=True)
        features, vjp, means = pulled
        (grads,) = vjp(d_features)
        return features, torch.cat([grads[name].reshape(-1) for name, _ in net.tensors]), *means

    example = [torch.rand(net.batch, net.frames, net.mels), torch.rand(net.body) * 0.1]
    example += [torch.rand(net.batch, net.features), *(torch.rand(shape) for shape in net.noise)]
    example += [*(torch.rand(shape) for _, shape in net.maps), *([torch.ones(1)] if net.maps else [])]
    table = {**core_aten_decompositions(), **DECOMPOSITIONS}
    try:
        graph = make_fx(run, decomposition_table=table)(*example)
    except CompileError:
        raise
    except Exception as error:
        raise CompileError(f"{error_line(error)}{type(net.module).__name__} cannot be traced: {error}") from error
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.view.default):
        node.target = torch.ops.aten.reshape.default  # the exporter may lay a tensor out otherwise than it lay here
    graph.graph.eliminate_dead_code()
    graph.recompile()
    graph.eval()
    return to_onnx(graph, example, train_inputs(net), train_outputs(net))


DECOMPOSITIONS: dict[Any, Any] = {
    torch.ops.aten.slice_backward.default: spatial.slice_backward,
    torch.ops.aten.select_backward.default: spatial.select_backward,
}
