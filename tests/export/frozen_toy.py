"""A small frozen network as an ONNX file, of the same form as Google's speech embedding, and a pack that has it."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from auricle.packs.manifest import Task
from auricle.packs.pack import Pack
from auricle_export.packs.build import Recipe, assemble, trace_model
from auricle_export.packs.models import HEAD, make_module
from auricle_export.packs.network import Frozen, frozen_network

MELS, SIZE, FIELD, STRIDE = 8, 6, 14, 4
LABELS = ("computer", "_unknown_", "_silence_")
Tensor = NDArray[np.float32]
Node = tuple[str, dict[str, Any], tuple[Tensor, ...]]


def layers(*, pads: tuple[int, ...] = (0, 1, 0, 1), seed: int = 0) -> list[Node]:
    """3x3, down to half of both axes, 3x1, down again, 3x1 and all mels: a field of 14 frames, one vector every 4."""
    rng = np.random.default_rng(seed)

    def kernel(*shape: int) -> Tensor:
        return rng.normal(0, shape[1] ** -0.5 / 2, shape).astype(np.float32)

    def bias(size: int) -> Tensor:
        return rng.normal(0, 0.1, size).astype(np.float32)

    least = np.array([[[[-0.4]]]], np.float32)
    return [
        ("Conv", {"pads": list(pads)}, (kernel(4, 1, 3, 3), bias(4))),
        ("LeakyRelu", {"alpha": 0.2}, ()),
        ("Max", {}, (least,)),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}, ()),
        ("Conv", {}, (kernel(5, 4, 3, 1), bias(5))),
        ("Relu", {}, ()),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}, ()),
        ("Conv", {}, (kernel(SIZE, 5, 2, 2),)),
    ]


def onnx_file(nodes: list[Node], *, frames: int | str = "T", mels: int = MELS) -> bytes:
    """A chain as ONNX, from (N, T, mels, 1) to (N, T', 1, size)."""
    made = [helper.make_node("Transpose", ["x"], ["h0"], perm=[0, 3, 1, 2])]
    constants = []
    for number, (operator, attributes, tensors) in enumerate(nodes):
        names = [f"c{number}_{place}" for place in range(len(tensors))]
        constants += [numpy_helper.from_array(tensor, name) for tensor, name in zip(tensors, names, strict=True)]
        made.append(helper.make_node(operator, [f"h{number}", *names], [f"h{number + 1}"], **attributes))
    made.append(helper.make_node("Transpose", [f"h{len(nodes)}"], ["y"], perm=[0, 2, 3, 1]))
    taken = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", frames, mels, 1])
    given = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(made, "toy", [taken], [given], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    content: bytes = model.SerializeToString()
    return content


@cache
def toy_network() -> Frozen:
    """The network of `layers`."""
    return frozen_network(onnx_file(layers()), "toy", "Nobody, CC0", "The file toy.onnx")


@cache
def toy_network_pack() -> Pack:
    """A pack whose front-end has it, for windows of 0.5 s: 10 vectors of 50 frames."""
    task = Task(LABELS, clip_samples=8_000, frames=50, frontend=toy_network().frontend)
    frames, size = task.input_shape
    model = trace_model(partial(make_module, HEAD, mels=size, frames=frames), len(LABELS), task)
    recipes = [Recipe("supervised", "sgd")]
    return assemble("toy", LABELS, {HEAD: model}, HEAD, recipes, task, toy_network())
