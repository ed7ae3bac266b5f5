"""From a pack's evaluation graph to a `.tflite`, operator by operator, and into the pack."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import UNSET

from auricle.checks.tflite_check import HELD, state_shapes
from auricle.checks.tflite_weights import network_table, with_weights
from auricle.errors import PackError, nearest
from auricle.packs.frontend import network_outputs
from auricle.packs.graph_interface import FRONTENDS
from auricle.packs.manifest import Buffer, FileEntry, Tflite
from auricle.packs.pack import Pack
from auricle.packs.start import start_weights
from auricle.wire.tensors import Flat
from auricle_export.tflite.arithmetic import ARITHMETIC
from auricle_export.tflite.draft import Draft
from auricle_export.tflite.flatbuffer import write
from auricle_export.tflite.layers import LAYERS
from auricle_export.tflite.moves import MOVES
from auricle_export.tflite.recurrent import RECURRENT
from auricle_export.tflite.trace import OUTPUT, describe, trace, trace_network
from auricle_export.tflite.translation import Live, Node, Translation

OPERATORS: dict[str, Callable[[Translation, Node], None]] = {**ARITHMETIC, **MOVES, **LAYERS, **RECURRENT}


def translate(t: Translation) -> None:
    """Write every node of the traced graph.

    Raises
    ------
    PackError
        An operator, or a variant of one, has no translation; the sentence names its node.
    """
    for proto in t.trace.nodes:
        if proto.op_type not in OPERATORS or proto.domain not in ("", "ai.onnx"):
            raise PackError(
                f"The operator {describe(proto)} has no translation to TensorFlow Lite: "
                f"{nearest(proto.op_type, OPERATORS)}"
            )
        OPERATORS[proto.op_type](t, Node(proto))


Precision = Literal["float32", "int8"]
PRECISIONS: tuple[Precision, ...] = ("float32", "int8")


def tflite_model(
    pack: Pack, model: str, precision: Precision = "float32", batch: int = 1
) -> tuple[bytes, tuple[Buffer, ...]]:
    """Translate a model of a pack; its weights are zeros until `with_weights` puts some in.

    Parameters
    ----------
    pack
        With an evaluation graph for the model.
    model
        Its name.
    precision
        `float32`, or `int8` weights that are made float32 again when the model is loaded.
    batch
        Samples at a time.

    Returns
    -------
    tuple
        The file, and where in it each tensor of the model lies.

    Raises
    ------
    PackError
        The pack has no such graph, or the graph has an operator without translation.
    """
    table, task = pack.table(model), pack.manifest.task
    traced = trace(pack, pack.graph("evaluate", model), batch)
    draft = Draft(table, precision)
    shape = (batch, *task.input_shape)
    x = draft.tensor(shape, "x")
    translation = Translation(traced, draft, {"x": Live(x, shape, (0, 1, 2))})
    translate(translation)
    for spec in table.specs:
        draft.weight(spec, spec.shape)
    logits = translation.realise(translation.value(OUTPUT))
    draft.tensors[logits].name = OUTPUT
    return write(draft, [x], [logits])


def network_tflite(pack: Pack) -> tuple[bytes, tuple[Buffer, ...]]:
    """Translate the step of the network of a pack's front-end, with zeros as its weights, as `tflite_model` does.

    It takes the newest log-mels and what it remembers, with channels last, and gives a vector and the same, newer.
    """
    network, graph = pack.manifest.task.frontend.network, pack.network_graph(FRONTENDS[1])
    assert network is not UNSET
    held = state_shapes(pack)
    taken = {"x": (1, network.stride, pack.manifest.task.frontend.mels), **{name: graph.state[name] for name in held}}
    draft = Draft(network_table(network), "float32")
    inputs = {name: draft.tensor(held.get(name, shape), name) for name, shape in taken.items()}
    lives = {name: Live(inputs[name], shape, HELD if name in held else (0, 1, 2)) for name, shape in taken.items()}
    outputs = network_outputs(graph)
    translation = Translation(trace_network(pack, graph, taken), draft, lives, outputs)
    translate(translation)
    for spec in draft.table.specs:
        draft.weight(spec, spec.shape)
    made = [translation.realise(translation.value(name), HELD if name != outputs[0] else None) for name in outputs]
    for name, tensor in zip(outputs, made, strict=True):
        draft.tensors[tensor].name = name
    return write(draft, list(inputs.values()), made)


def with_tflite(
    pack: Pack,
    models: Sequence[str],
    precisions: Sequence[Precision] = PRECISIONS,
    weights: Mapping[str, Flat] | None = None,
    batch: int = 1,
) -> Pack:
    """The pack with a `.tflite` of each model in each precision, in place of those it had.

    Where its front-end has a network it gets one of that, too: with zeros, for a device puts the network's own tensors
    in, which the pack has as float16.

    Parameters
    ----------
    pack
        The pack to add to.
    models
        Names of its models.
    precisions
        Which kinds of file.
    weights
        Weights (P,) to put in, by model; where there are none, what a run of the pack starts from.
    batch
        Samples at a time.

    Raises
    ------
    PackError
        A model cannot be translated, or weights are not its.
    """
    for model in models:
        for precision in precisions:
            content, buffers = tflite_model(pack, model, precision, batch)
            name = f"tflite/{model}.{precision}.tflite"
            entry = Tflite(model=model, precision=precision, file=name, batch=batch, buffers=buffers)
            pack = _with_file(pack, entry, content)
            flat = (weights or {}).get(model)
            filled = with_weights(pack, entry, flat if flat is not None else starting(pack, model))
            pack = _with_file(pack, entry, filled)
    network = pack.manifest.task.frontend.network
    if network is not UNSET and network.name not in pack.tables:
        content, buffers = network_tflite(pack)
        name = f"tflite/{network.name}.float32.tflite"
        pack = _with_file(pack, Tflite(model=network.name, precision="float32", file=name, buffers=buffers), content)
    return pack


def starting(pack: Pack, model: str) -> Flat:
    """The weights (P,) that a run of the pack starts from: its trained ones, or those of seed 0."""
    return start_weights(pack, model) if model in pack.manifest.start else pack.table(model).initial(seed=0)


def _with_file(pack: Pack, entry: Tflite, content: bytes) -> Pack:
    files = {**pack.files, entry.file: content}
    listed = [file for file in pack.manifest.files if file.path != entry.file]
    listed.append(FileEntry(path=entry.file, bytes=len(content), sha256=hashlib.sha256(content).hexdigest()))
    others = [t for t in pack.manifest.tflite if (t.model, t.precision) != (entry.model, entry.precision)]
    if any(t.file == entry.file for t in others):
        raise PackError(f"The pack {pack.manifest.name} has a file {entry.file} for another model.")
    manifest = msgspec.structs.replace(
        pack.manifest,
        files=tuple(sorted(listed, key=lambda file: file.path)),
        tflite=tuple(sorted((*others, entry), key=lambda t: (t.model, t.precision))),
    )
    return Pack(manifest, files)
