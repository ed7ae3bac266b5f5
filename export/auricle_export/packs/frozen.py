"""A frozen network of somebody else, read from its ONNX file as a chain of layers and held against a contract.

The contract: one input (N, T, mels) or (N, T, mels, 1) of log-mels, one output of D numbers every few frames, a chain
of the operators here, and nothing that depends on where in time a frame is: along time a layer has no padding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from auricle.checks.onnx_reader import Attributes, Model, Node, Tensor, printable, read_model
from auricle.errors import PackError

LARGEST_FILE = 32 << 20
"""Bytes of a network's file."""
LONGEST_FIELD = 180
"""Frames that a vector may be made of: a window of 2 s has room for three such vectors."""
MOST_MELS, MOST_NUMBERS = 128, 1024
"""Mel bands, and numbers of a vector."""
WINDOWED = ("Conv", "MaxPool", "AveragePool")
"""Operators that look at several frames."""
ACTIVATIONS = ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "Elu")
SCALED = ("Max", "Min", "Add", "Sub", "Mul", "Div", "Clip")
"""Operators on a value and numbers that are the same for all of it."""
TURNED = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Flatten")
"""Operators that may stand before the first layer and after the last one."""
NEAR = 1e-4
"""How near what it compiles to has to come to what the file gives, as a share of the largest number."""


@dataclass(frozen=True)
class Layer:
    """One operator of the chain."""

    operator: str
    attributes: Attributes
    tensors: tuple[NDArray[np.float32], ...] = ()
    """Kernel (C', C / groups, time, mels) and bias (C',) of a convolution."""
    numbers: tuple[float | None, ...] = ()
    """Of `SCALED`, at the places of its inputs; None: the value itself, or a bound that is not there."""

    @property
    def kernel(self) -> tuple[int, int]:
        """Frames and bands that it looks at."""
        if self.operator not in WINDOWED:
            return 1, 1
        shape = self.tensors[0].shape[2:] if self.tensors else tuple(self.attributes["kernel_shape"])
        return shape[0], shape[1]

    @property
    def strides(self) -> tuple[int, int]:
        """Frames and bands from one place to the next."""
        found = tuple(self.attributes.get("strides", (1, 1))) if self.operator in WINDOWED else (1, 1)
        return found[0], found[1]

    def bands(self, count: int) -> int:
        """Bands that it leaves of so many."""
        pads = self.attributes.get("pads", (0, 0, 0, 0)) if self.operator in WINDOWED else (0, 0, 0, 0)
        return int((count + pads[1] + pads[3] - self.kernel[1]) // self.strides[1] + 1)

    def channels(self, count: int) -> int:
        """Channels that it gives of so many."""
        return self.tensors[0].shape[0] if self.tensors else count


@dataclass(frozen=True)
class Chain:
    """A network as its layers."""

    layers: tuple[Layer, ...]
    mels: int

    @property
    def field(self) -> int:
        """Frames that a vector is made of: L_in = (L_out - 1) stride + kernel, from the last layer to the first."""
        length = 1
        for layer in reversed(self.layers):
            length = (length - 1) * layer.strides[0] + layer.kernel[0]
        return length

    @property
    def stride(self) -> int:
        """Frames from one vector to the next."""
        return math.prod(layer.strides[0] for layer in self.layers)

    def shapes(self) -> list[tuple[int, int]]:
        """Channels and bands before each layer, and those after the last one."""
        shapes = [(1, self.mels)]
        for layer in self.layers:
            channels, bands = shapes[-1]
            shapes.append((layer.channels(channels), layer.bands(bands)))
        return shapes

    @property
    def size(self) -> int:
        """Numbers of a vector."""
        return self.shapes()[-1][0]

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """Every tensor by its name in a pack."""
        named = {}
        for number, layer in enumerate(self.layers):
            for part, tensor in zip(("weight", "bias"), layer.tensors, strict=False):
                named[f"{number:02d}.{part}"] = tensor
        return named


def read_chain(data: bytes, where: str) -> Chain:
    """Read a network's ONNX file.

    Raises
    ------
    PackError
        It is not ONNX, too large, or breaks the contract: the sentence, which begins with `where`, says what.
    """
    if len(data) > LARGEST_FILE:
        raise PackError(f"{where} holds more than {LARGEST_FILE >> 20} MiB: give a smaller network.")
    try:
        model = read_model(data, where)
    except PackError as error:
        reason = str(error).removeprefix(f"{where} is refused: ").removesuffix(".")
        raise PackError(
            f"{where} is not a front-end that can be used: it is no whole ONNX file ({reason}). Name an ONNX file."
        ) from error
    reader = _Reader(model, where)
    chain = reader.chain()
    _refuse_sizes(chain, where)
    return chain


def _refuse(where: str, reason: str) -> NoReturn:
    raise PackError(f"{where} is not a front-end that can be used: {reason}.")


def _refuse_sizes(chain: Chain, where: str) -> None:
    """Refuse what does not fit a window, or makes something else than one vector of a moderate size."""
    channels, bands = chain.shapes()[-1]
    if min(bands for _, bands in chain.shapes()) < 1 or bands != 1:
        _refuse(where, f"its last layer leaves {bands} bands, and has to leave one")
    if chain.field > LONGEST_FIELD:
        _refuse(where, f"it looks at {chain.field} frames for one output, and at most {LONGEST_FIELD} are allowed")
    if channels > MOST_NUMBERS or chain.mels > MOST_MELS:
        most = f"at most {MOST_NUMBERS} and {MOST_MELS} are allowed"
        _refuse(where, f"it makes {channels} numbers of {chain.mels} mel bands, and {most}")
    if not all(np.isfinite(tensor).all() for tensor in chain.tensors().values()):
        _refuse(where, "it has weights that are not finite")


class _Reader:
    """A model while it is read."""

    def __init__(self, model: Model, where: str) -> None:
        self.model, self.where = model, where
        self.constants: dict[str, NDArray[Any]] = {tensor.name: tensor.array for tensor in model.initialisers}
        for node in model.nodes:
            value = node.attributes.get("value")
            if node.operator == "Constant" and isinstance(value, Tensor):
                self.constants[node.outputs[0]] = value.array

    def refuse(self, reason: str) -> NoReturn:
        _refuse(self.where, reason)

    def chain(self) -> Chain:
        """Its layers in order; what turns the value at both ends is left out, and compared by its numbers later."""
        inputs = [value for value in self.model.inputs if value.name not in self.constants]
        if len(inputs) != 1 or len(self.model.outputs) != 1:
            self.refuse(f"it has {len(inputs)} inputs and {len(self.model.outputs)} outputs, and one of each is due")
        dims = inputs[0].dims
        if dims is None or len(dims) not in (3, 4) or not isinstance(dims[2], int) or dims[3:] not in ((), (1,)):
            self.refuse("its input is not log-mels (N, T, mels) or (N, T, mels, 1) with a number of mels")
        layers, now = list[Layer](), inputs[0].name
        turned_back = False
        for node in self.model.nodes:
            if node.operator == "Constant":
                continue
            dynamic = [name for name in node.inputs if name and name not in self.constants]
            if dynamic != [now] or len(node.outputs) != 1:
                self.refuse(
                    f"its operator {printable(node.operator)} does not go on from the one before it, as in a chain"
                )
            if node.operator in TURNED:
                turned_back = turned_back or bool(layers)
            elif turned_back:
                self.refuse(f"its operator {printable(node.operator)} comes after one that turns the value")
            else:
                layers.append(self._layer(node, now))
            now = node.outputs[0]
        if now != self.model.outputs[0].name or not any(layer.operator in WINDOWED for layer in layers):
            self.refuse("its layers do not lead from its input to its output")
        return Chain(tuple(layers), dims[2])

    def _layer(self, node: Node, now: str) -> Layer:
        if node.domain not in ("", "ai.onnx"):
            self.refuse(f"its operator {printable(node.operator)} is not of the ONNX standard")
        if node.operator in WINDOWED:
            return self._windowed_layer(node)
        if node.operator in ACTIVATIONS:
            return Layer(node.operator, {key: node.attributes[key] for key in ("alpha",) if key in node.attributes})
        if node.operator in SCALED:
            return Layer(node.operator, {}, numbers=tuple(self._number(node, name, now) for name in node.inputs))
        return self.refuse(
            f"its operator {printable(node.operator)} is not translated; there are "
            f"{', '.join((*WINDOWED, *ACTIVATIONS, *SCALED))}"
        )

    def _number(self, node: Node, name: str, now: str) -> float | None:
        if name in ("", now):
            return None
        if self.constants[name].size != 1:
            self.refuse(
                f"its operator {printable(node.operator)} takes {self.constants[name].size} numbers, and one is due"
            )
        return float(self.constants[name].ravel()[0])

    def _windowed_layer(self, node: Node) -> Layer:
        attributes, convolution = node.attributes, node.operator == "Conv"
        names: tuple[str, ...] = ("kernel_shape", "strides", "pads", "group")
        kept = {name: attributes[name] for name in names if name in attributes}
        tensors = tuple(self._tensor(node, name) for name in node.inputs[1:] if name)
        kernel = tensors[0].shape[2:] if tensors else tuple(kept.get("kernel_shape", ()))
        pads, strides = kept.get("pads", (0, 0, 0, 0)), kept.get("strides", (1, 1))
        if len(kernel) != 2 or len(pads) != 4 or len(strides) != 2 or convolution != bool(tensors):
            self.refuse(
                f"its operator {printable(node.operator)} is not one over time and mel bands with its own kernel"
            )
        if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID") or pads[0] or pads[2]:
            self.refuse(
                f"its operator {printable(node.operator)} pads time, so that what it gives depends on where a window "
                f"ends"
            )
        other = any(rate != 1 for rate in attributes.get("dilations", ())) or attributes.get("ceil_mode", 0)
        if other or (node.operator == "AveragePool" and any(pads)):
            self.refuse(
                f"its operator {printable(node.operator)} has holes, a ceiling or padding that are not translated"
            )
        if kernel[0] < strides[0]:
            self.refuse(f"its operator {printable(node.operator)} skips frames")
        return Layer(node.operator, kept, tensors)

    def _tensor(self, node: Node, name: str) -> NDArray[np.float32]:
        array = self.constants[name]
        if array.dtype != np.float32:
            self.refuse(f"its operator {printable(node.operator)} has weights that are not float32")
        return array


def refuse_other_numbers(
    data: bytes, chain: Chain, vectors: Sequence[NDArray[np.float32]], mels: NDArray[np.float32], where: str
) -> None:
    """Refuse a file that gives other vectors, window by window, than what it was translated to gave over the whole.

    Parameters
    ----------
    vectors
        (size,) each, that begin at frames 0, stride, 2 stride, ...
    mels
        Log-mels (T, mels) that they were made of.

    Raises
    ------
    PackError
        It gives others, so it depends on more than these frames; or onnxruntime does not run it.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        given = session.get_inputs()[0]
        for number, vector in enumerate(vectors):
            window = mels[None, number * chain.stride : number * chain.stride + chain.field]
            made = session.run(None, {given.name: window if len(given.shape) == 3 else window[..., None]})[0].ravel()
            if made.shape != vector.shape or not np.abs(made - vector).max() <= NEAR * max(1.0, np.abs(made).max()):
                _refuse(where, f"over {chain.field} frames it gives other numbers than its layers over a longer sound")
    except PackError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise PackError(f"{where} is not a front-end that can be used: onnxruntime says {reason}") from error
