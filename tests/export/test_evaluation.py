"""Evaluation graphs: which operators what people write becomes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("onnxscript", reason="compiling needs onnxscript")

from auricle_export.compiler.contract import Net
from auricle_export.compiler.evaluation import trace_evaluation
from auricle_export.compiler.trace import find_parts

FRAMES, MELS = 12, 10


class Pooled(nn.Module):
    """A convolution over an image (4, 12, 10), adaptive pooling, the largest of what is left, and a classifier."""

    def __init__(self, size: Sequence[int | None] | int) -> None:
        super().__init__()
        self.first, self.pool = nn.Conv2d(1, 4, 3, padding=1), nn.AdaptiveAvgPool2d(size)  # type: ignore[arg-type]
        self.out = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(self.pool(self.first(x.unsqueeze(1)).relu()).amax((2, 3)))
        return out


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1, None), [1, None], [None, 1], (1, MELS), [FRAMES, 1]], ids=str)
def test_a_mean_along_one_axis_is_written_as_one(size: Sequence[int | None]) -> None:
    """Also from a list; the C library has no AveragePool."""
    torch.manual_seed(0)
    net = find_parts(Pooled(size), 5, FRAMES, MELS, 4)
    model = trace_evaluation(net)

    assert {node.op_type for node in model.graph.node}.isdisjoint({"AveragePool", "GlobalAveragePool"})
    assert _differs_by(model, net) < 1e-6


def _differs_by(model: onnx.ModelProto, net: Net) -> float:
    """How far its logits are from the module's, in eval mode."""
    weights = {name: weight.detach().numpy() for name, weight in net.module.named_parameters()}
    body = np.concatenate([weights[name].ravel() for name, _ in net.tensors])
    x = np.random.default_rng(0).standard_normal((3, FRAMES, MELS)).astype(np.float32)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = {"model/body": body, "model/head.weight": weights["out.weight"], "model/head.bias": weights["out.bias"]}
    logits = session.run(["logits"], {"x": x, **given})[0]
    return float(np.abs(logits - net.module.eval()(torch.from_numpy(x)).detach().numpy()).max())
