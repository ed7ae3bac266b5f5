"""A whole module in eval mode, for any batch and any number of labels, with its weights as inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode

from auricle_export.compiler.classifier import features_of
from auricle_export.compiler.contract import Net, module_name, parameters_of, unpack
from auricle_export.compiler.intercept import CompileError
from auricle_export.compiler.onnx_export import to_onnx
from auricle_export.compiler.pooling import Wanted, adaptive_mean_pool, output_sizes


class _Evaluation(nn.Module):
    """A module with its weights as inputs."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = net
        self.inner = copy.deepcopy(net.module).eval()

    def forward(self, x: Tensor, body: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        head, found = self.inner.get_submodule(self.net.head), list[Tensor]()
        kernel = list(parameters_of(self.inner, self.net.head)[0].shape[2:])
        own = weight.unflatten(1, [-1, *kernel]) if kernel else weight  # type: ignore[no-untyped-call]
        named = {**unpack(self.net, body), f"{self.net.head}.weight": own, f"{self.net.head}.bias": bias}
        hook = head.register_forward_pre_hook(lambda _, given: found.append(given[0]))
        try:
            with _Means():
                logits = functional_call(self.inner, named, (x,))
        finally:
            hook.remove()
        if not kernel:
            return logits, found[-1]
        features = features_of(found[-1], own)  # the module's own logits may have been reshaped to a number of labels
        return linear(features, weight, bias), features


class _Means(TorchFunctionMode):
    """Adaptive pooling to one place along one axis of two as the mean that it is: the C library has no AveragePool."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the function gives
        if func is functional.adaptive_avg_pool2d and args[0].dim() == 4 and not kwargs and _is_along_one_axis(*args):
            return adaptive_mean_pool(*args)
        return func(*args, **(kwargs or {}))


def _is_along_one_axis(x: Tensor, output_size: Wanted) -> bool:
    """Whether an axis becomes one place and the other stays as it is."""
    return [n for n, size in zip(output_sizes(x, output_size), x.shape[2:], strict=True) if n != size] in ([1], [])


TRACED_LABELS = 37
"""Labels while an evaluation graph is made; the dimension becomes symbolic."""


TRACED_CLIPS = (3, 23)
"""Clips while it is made, tried in turn: the exporter may take a batch for a constant that is as large."""
LABELLED = {"model/head.weight": 0, "model/head.bias": 0, "logits": 1}
"""The axis of each input and output of an evaluation graph that is as long as the word list."""


def trace_evaluation(net: Net) -> onnx.ModelProto:
    """Export the whole module in eval mode, for any batch: (x, body, head.weight, head.bias) to logits and features.

    Raises
    ------
    CompileError
        It cannot be exported for any batch.
    """
    batch = torch.export.Dim("batch", min=1, max=4096)
    names = ["x", *(f"model/{part}" for part in ("body", "head.weight", "head.bias"))]
    for clips in TRACED_CLIPS:
        example = (
            torch.rand(clips, net.frames, net.mels),
            torch.rand(net.body) * 0.1,
            torch.rand(TRACED_LABELS, net.features),
            torch.rand(TRACED_LABELS),
        )
        model = to_onnx(
            _Evaluation(net), example, names, ["logits", "features"], dynamic_shapes=({0: batch}, None, None, None)
        )
        if model.graph.input[0].type.tensor_type.shape.dim[0].dim_param:
            break
    else:
        raise CompileError(
            f"{module_name(net.module)} can be exported for one number of clips only: use x.shape[0] for it."
        )
    for value in [*model.graph.input, *model.graph.output]:
        if value.name in LABELLED:
            value.type.tensor_type.shape.dim[LABELLED[value.name]].dim_param = "labels"
    if len(model.graph.output[0].type.tensor_type.shape.dim) != 2:
        raise CompileError(f"{module_name(net.module)} does not give logits (batch, labels) in eval mode.")
    return model
