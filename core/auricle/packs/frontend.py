"""What a pack's manifest says of its front-end: log-mels, and a frozen network over them where there is one."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from auricle.packs.graph_interface import FRONTENDS, FilePath, Graph
from auricle.wire.kinds import Token
from auricle.wire.tensor_specs import Dim, Name

Samples = Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]
Bands = Annotated[int, msgspec.Meta(ge=1, le=1 << 10)]
Sentence = Annotated[str, msgspec.Meta(min_length=1, max_length=400)]


class NetworkTensor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tensor of a network."""

    name: Name
    shape: Annotated[tuple[Dim, ...], msgspec.Meta(max_length=8)]


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A frozen network: from a field of log-mels to one vector, the same whenever it is, every few frames.

    It is run by the two graphs of the kinds `FRONTENDS`, which take its tensors as inputs `network/NAME`.
    """

    name: Token
    file: FilePath
    """safetensors, float16 or float32, its tensors by name."""
    tensors: Annotated[tuple[NetworkTensor, ...], msgspec.Meta(min_length=1, max_length=500)]
    field: Bands
    """Frames of log-mels that a vector is made of."""
    stride: Bands
    """Frames from one vector to the next."""
    size: Bands
    """Numbers of a vector."""
    shift: float
    """Added to the logarithm times the front-end's `scale`, in place of centring it: a vector does not depend on what
    else is in the window."""
    attribution: Sentence
    """Whose it is, and under which licence."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of its tensors, by name."""
        return {tensor.name: tensor.shape for tensor in self.tensors}


class Frontend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the log-mel front-end; `auricle.speech.features` computes exactly this."""

    window: Samples = 400
    """Samples of a Hann window."""
    hop: Samples = 160
    """Samples between windows."""
    fft: Samples = 512
    mels: Bands = 40
    low_hz: Annotated[float, msgspec.Meta(ge=0)] = 20.0
    high_hz: Annotated[float, msgspec.Meta(gt=0)] = 7600.0
    floor: Annotated[float, msgspec.Meta(gt=0)] = 1e-6
    """Added to the mel energies before the logarithm."""
    scale: Annotated[float, msgspec.Meta(gt=0)] = 0.25
    """Log-mels are centred on their own clip's mean and multiplied by this."""
    filters: Literal["slaney"] | UnsetType = UNSET
    """The mel scale of Slaney's Auditory Toolbox, with filters of equal area; without, 2595 log10(1 + f/700), with
    filters of equal height."""
    network: Network | UnsetType = UNSET
    """What the log-mels go through before a pack's models see them."""


def network_inputs(network: Network, graph: Graph) -> list[str]:
    """Names of the inputs of a network's graph, in order."""
    return ["x", *(f"network/{tensor.name}" for tensor in network.tensors), *sorted(graph.state)]


def network_outputs(graph: Graph) -> list[str]:
    """Names of its outputs, in order."""
    return ["vectors", *(f"new/{name}" for name in sorted(graph.state))]


def is_sound(network: Network, graph: Graph) -> bool:
    """Whether a graph has the interface of a network's: one sample, and state only where it goes on frame by frame."""
    alone = graph.batch == 1 and graph.optimizer is None and graph.plugin is None and not graph.terms
    sound = alone and graph.model == network.name and not graph.noise and len(set(graph.inputs)) == len(graph.inputs)
    sound = sound and not (graph.kind == FRONTENDS[0] and graph.state)
    return sound and (list(graph.inputs), list(graph.outputs)) == (
        network_inputs(network, graph),
        network_outputs(graph),
    )
