"""Floating-point operations of a training step, counted from the architecture.

Forward, for a batch B, by layer (one multiplication and one addition are two operations):

    convolution over T frames     2 B T k in out
    GRU over T steps, hidden H    2 B T D 3H (in + H)       D directions, three gates, input and recurrent product
    linear                        2 B in out

Backward is twice that: a product for the gradient of a layer's weights and one for that of its input; the first layer
needs no gradient of its input. So a step costs 3 F - F(first layer). Gates, activations, pooling, softmax, loss and
optimizer are not counted, and every product is counted at full length, also the first step of a GRU, whose state is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from auricle.wire.tensors import TensorTable

BATCH, FRAMES = 16, 100


@dataclass(frozen=True)
class Cost:
    """Operations by layer, in the order of the forward pass."""

    layers: tuple[tuple[str, int], ...]

    @property
    def forward(self) -> int:
        """Operations of a forward pass."""
        return sum(count for _, count in self.layers)

    @property
    def step(self) -> int:
        """Operations of forward and backward."""
        return 3 * self.forward - self.layers[0][1]


def convolution(batch: int, frames: int, kernel: int, inputs: int, outputs: int) -> int:
    """Operations of a Conv1d that keeps the number of frames."""
    return 2 * batch * frames * kernel * inputs * outputs


def gru(batch: int, steps: int, inputs: int, hidden: int, directions: int = 1) -> int:
    """Operations of one layer of a GRU."""
    return 2 * batch * steps * directions * 3 * hidden * (inputs + hidden)


def crnn_cost(table: TensorTable, batch: int = BATCH, frames: int = FRAMES) -> Cost:
    """Cost of a CRNN of this project, from its tensor table: convolutions, each with pooling by two, and a GRU."""
    shapes: Mapping[str, tuple[int, ...]] = {spec.name: spec.shape for spec in table.specs}
    layers: list[tuple[str, int]] = []
    blocks = sum(name.startswith("conv.") and name.endswith(".weight") for name in shapes)
    for i in range(blocks):
        outputs, inputs, kernel = shapes[f"conv.{i}.weight"]
        layers.append((f"conv.{i}", convolution(batch, frames, kernel, inputs, outputs)))
        frames //= 2
    directions = 2 if "gru.weight_ih_l0_reverse" in shapes else 1
    depth = sum(name.startswith("gru.weight_ih_l") and "reverse" not in name for name in shapes)
    for i in range(depth):
        rows, inputs = shapes[f"gru.weight_ih_l{i}"]
        layers.append((f"gru.{i}", gru(batch, frames, inputs, rows // 3, directions)))
    outputs, inputs = shapes["head.weight"]
    return Cost((*layers, ("head", 2 * batch * inputs * outputs)))
