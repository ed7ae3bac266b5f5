"""A frozen network as the part of a pack: the manifest's entry, its file of tensors and its two graphs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnxruntime as ort
from msgspec import structs

from auricle.errors import PackError
from auricle.packs.frontend import Frontend, Network, NetworkTensor, network_inputs, network_outputs
from auricle.packs.graph_interface import FRONTENDS, Graph
from auricle.packs.manifest import Task
from auricle.packs.start import tensors_file
from auricle_export.compiler.builder import GraphBuilder
from auricle_export.packs.frozen import SCALED, Chain, read_chain, refuse_other_numbers

FOLDER = "frontend"
"""Of its files in a pack."""
LOG_MELS = Frontend(mels=32, low_hz=60.0, high_hz=3800.0, floor=5e-9, scale=float(1 / np.log(10)), filters="slaney")
"""What such networks look at: log10 of the power in Slaney's mel bands between 60 and 3,800 Hz. The floor is that of
noise at -90 dBFS."""
SHIFT = 2 + 2 * float(np.log10(1 << 15))
"""They look at samples as whole numbers of 16 bits, and at a tenth of decibels plus 2."""
CHECKED_VECTORS = 4
"""Vectors that are compared with those of the file."""


@dataclass(frozen=True)
class Frozen:
    """A network that packs can have."""

    name: str
    chain: Chain
    attribution: str

    @property
    def frontend(self) -> Frontend:
        """The front-end of a pack that has it."""
        tensors = tuple(NetworkTensor(name, tensor.shape) for name, tensor in self.chain.tensors().items())
        network = Network(
            name=self.name,
            file=f"{FOLDER}/{self.name}.safetensors",
            tensors=tensors,
            field=self.chain.field,
            stride=self.chain.stride,
            size=self.chain.size,
            shift=SHIFT,
            attribution=self.attribution,
        )
        return structs.replace(LOG_MELS, mels=self.chain.mels, network=network)

    def parts(self, task: Task) -> tuple[tuple[Graph, ...], dict[str, bytes]]:
        """Its two graphs for a task with this front-end, and every file that it has in a pack."""
        network = self.frontend.network
        assert isinstance(network, Network)
        graphs, files = [], {network.file: tensors_file(self.chain.tensors())}
        for kind, frames in zip(FRONTENDS, (task.frames, network.stride), strict=True):
            b, state = run_through(self.chain, frames, remembers=kind == FRONTENDS[1])
            file = f"graphs/{self.name}.{kind}.onnx"
            bare = Graph(kind=kind, model=self.name, file=file, batch=1, inputs=(), outputs=(), state=state)
            inputs, outputs = tuple(network_inputs(network, bare)), tuple(network_outputs(bare))
            graphs.append(structs.replace(bare, inputs=inputs, outputs=outputs))
            files[file] = b.build(inputs, outputs, "frontend").SerializeToString(deterministic=True)
        return tuple(graphs), files


def frozen_network(data: bytes, name: str, attribution: str, where: str) -> Frozen:
    """The network in an ONNX file.

    Raises
    ------
    PackError
        It breaks the contract (`frozen`), or its weights do not fit float16.
    """
    chain = read_chain(data, where)
    mels = np.random.default_rng(0).normal(5, 2, (chain.field + (CHECKED_VECTORS - 1) * chain.stride, chain.mels))
    sound = mels.astype(np.float32)
    b, _ = run_through(chain, len(sound), remembers=False)
    names = {f"network/{part}": tensor for part, tensor in chain.tensors().items()}
    model = b.build(["x", *names], ["vectors"], "frontend")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    vectors = session.run(None, {"x": sound[None], **names})[0][0]
    refuse_other_numbers(data, chain, list(vectors), sound, where)
    try:
        tensors_file(chain.tensors())
    except PackError as error:
        raise PackError(f"{where} has weights that do not fit a float16: scale them down.") from error
    return Frozen(name, chain, attribution)


def run_through(chain: Chain, frames: int, *, remembers: bool) -> tuple[GraphBuilder, dict[str, tuple[int, ...]]]:
    """A chain over so many frames as a graph, from `x` (1, frames, mels) to `vectors` (1, T', size).

    Parameters
    ----------
    remembers
        Whether each layer that looks at several frames begins with the last ones of those before, which are state.

    Returns
    -------
    tuple
        The graph in the making, and the shapes of its state.
    """
    b, state = GraphBuilder(), dict[str, tuple[int, ...]]()
    value = b("Reshape", b.input("x", (1, frames, chain.mels)), b.constant([1, 1, frames, chain.mels]))
    count = frames
    for number, (layer, (channels, bands)) in enumerate(zip(chain.layers, chain.shapes()[:-1], strict=True)):
        before = layer.kernel[0] - layer.strides[0]
        if remembers and before:
            name = f"last.{number:02d}"
            state[name] = (1, channels, before, bands)
            value = b("Concat", b.input(name, state[name]), value, axis=2)
            newest = b("Slice", value, b.constant([count]), b.constant([count + before]), b.constant([2]))
            b.output(f"new/{name}", newest, state[name])
            count += before
        tensors = [
            b.input(f"network/{number:02d}.{part}", tensor.shape)
            for part, tensor in zip(("weight", "bias"), layer.tensors, strict=False)
        ]
        if layer.operator in SCALED:
            place = layer.numbers.index(None)
            inputs = [value if i == place else "" if each is None else each for i, each in enumerate(layer.numbers)]
            value = b(layer.operator, *inputs)
        else:
            value = b(layer.operator, value, *tensors, **layer.attributes)
        count = (count - layer.kernel[0]) // layer.strides[0] + 1
    value = b("Reshape", value, b.constant([1, chain.size, count]))
    b.output("vectors", b("Transpose", value, perm=[0, 2, 1]), (1, count, chain.size))
    return b, state
