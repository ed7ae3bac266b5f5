"""onnxruntime-training's artifacts, made of a pack's own evaluation graphs.

An evaluation graph takes the weights as three inputs; here these become trainable parameters of the same names, and a
loss that serves supervised and mutual learning alike is put behind the logits. Recurrent layers are given every
optional input, and one direction each, since onnxruntime-training's gradient kernels know no other. Needs
`onnxruntime-training`, no PyTorch.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from auricle.errors import AuricleError, PackError, extra_command
from auricle.files import read_kept
from auricle.packs.graph_interface import PARTS
from auricle.packs.manifest import FileEntry, OrtTraining
from auricle.packs.pack import Graph, Pack
from auricle_export.compiler.builder import Attribute, make_node
from auricle_export.packs.recurrent_split import one_direction_each

IR_VERSION = 10
"""The newest that onnxruntime-training 1.19.2 reads."""
BATCH = 16
PARAMETERS = tuple(f"model/{part}" for part in PARTS)
TINY = 1e-12
"""Least sum of weights: a batch without weight has loss 0."""
_COUNTED = re.compile(r"::\d+\Z")
Progress = Callable[[str, int, int], None]


def training_packages() -> tuple[ModuleType, ModuleType]:
    """onnxruntime-training's `artifacts` and `onnxblock`, without the two modules of it that import PyTorch.

    Raises
    ------
    AuricleError
        The package is not installed.
    """
    for name in ("optim", "amp"):
        sys.modules.setdefault(f"onnxruntime.training.{name}", ModuleType(name))
    try:
        from onnxruntime.training import artifacts, onnxblock
    except ImportError as error:
        raise AuricleError(
            "onnxruntime-training is not installed here: in an environment of its own with Python 3.10 or 3.11 on "
            f"x86_64, {extra_command('ort-training', elsewhere=True)}."
        ) from error
    return artifacts, onnxblock


def forward_model(pack: Pack, graph: Graph, batch: int = BATCH) -> onnx.ModelProto:
    """Make the model that is differentiated: `x` and the loss's inputs to `loss` and `logits`, weights inside.

    loss = sum_b v_b [ce CE(s_b, y_b) + kl KL(softmax(t_b / T) || softmax(s_b / T))], v = weight / sum weight
    (FedMLAC, eq. 5-8; no factor T squared, A4); the teacher's logits t are an input and take no gradient. `ce`, `kl`
    and T are scalars.
    """
    model = onnx.load_from_string(pack.files[graph.file])
    if any(node.op_type == "BatchNormalization" for node in model.graph.node):
        raise PackError(
            f"The model {graph.model} has batch normalisation, which a pack freezes and which onnxruntime-training "
            "would train with statistics of its own: choose other --models, and the runtime step for this one."
        )
    table, labels = pack.table(graph.model), len(pack.labels)
    body, weight, bias = table.parts(np.zeros(table.size, np.float32))
    x = next((value for value in model.graph.input if value.name == "x"), None)
    if x is None or not {*PARAMETERS, "x"} <= {value.name for value in model.graph.input}:
        raise PackError(f"The graph {graph.file} does not take {', '.join(PARAMETERS)} and x: rebuild the pack.")
    frames = [dim.dim_value for dim in x.type.tensor_type.shape.dim[1:]]
    one_direction_each(model, batch)
    _add_loss(model)
    shapes = {
        "x": [batch, *frames],
        "target": [batch, labels],
        "teacher": [batch, labels],
        "weight": [batch],
        "ce": [],
        "kl": [],
        "temperature": [],
    }
    del model.graph.input[:], model.graph.output[:], model.graph.value_info[:]
    model.graph.input.extend(_value(name, shape) for name, shape in shapes.items())
    model.graph.output.extend([_value("loss", []), _value("logits", [batch, labels])])
    model.graph.initializer.extend(
        numpy_helper.from_array(np.ascontiguousarray(array), name)
        for name, array in zip(PARAMETERS, (body, weight, bias), strict=True)
    )
    for number, node in enumerate(model.graph.node):
        node.name = f"forward_{number}"
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model, full_check=True)
    return model


def _value(name: str, shape: Sequence[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _add_loss(model: onnx.ModelProto) -> None:
    """Append the nodes of the loss behind `logits`."""

    def add(operator: str, inputs: list[str], output: str, **attributes: Attribute) -> None:
        model.graph.node.append(make_node(operator, inputs, [output], **attributes))

    constants: dict[str, np.ndarray[Any, Any]] = {
        "loss/labels_axis": np.array([1], np.int64),
        "loss/tiny": np.array(TINY, np.float32),
    }
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    add("LogSoftmax", ["logits"], "loss/log_student", axis=-1)
    add("Mul", ["target", "loss/log_student"], "loss/picked")
    add("ReduceSum", ["loss/picked", "loss/labels_axis"], "loss/minus_ce", keepdims=0)
    for who, logits in (("student", "logits"), ("teacher", "teacher")):
        add("Div", [logits, "temperature"], f"loss/cool_{who}")
        add("LogSoftmax", [f"loss/cool_{who}"], f"loss/log_cool_{who}", axis=-1)
    add("Exp", ["loss/log_cool_teacher"], "loss/teacher_share")
    add("Sub", ["loss/log_cool_teacher", "loss/log_cool_student"], "loss/log_ratio")
    add("Mul", ["loss/teacher_share", "loss/log_ratio"], "loss/kl_each")
    add("ReduceSum", ["loss/kl_each", "loss/labels_axis"], "loss/kl", keepdims=0)
    add("Mul", ["loss/kl", "kl"], "loss/weighted_kl")
    add("Mul", ["loss/minus_ce", "ce"], "loss/weighted_minus_ce")
    add("Sub", ["loss/weighted_kl", "loss/weighted_minus_ce"], "loss/of_sample")
    add("ReduceSum", ["weight"], "loss/sum_weight", keepdims=0)
    add("Max", ["loss/sum_weight", "loss/tiny"], "loss/all_weight")
    add("Div", ["weight", "loss/all_weight"], "loss/share")
    add("Mul", ["loss/share", "loss/of_sample"], "loss/shared")
    add("ReduceSum", ["loss/shared"], "loss", keepdims=0)


def artifacts_of(pack: Pack, model: str, batch: int = BATCH) -> dict[str, bytes]:
    """A model's artifacts by name: training, evaluation, sgd, adamw, checkpoint.

    Raises
    ------
    AuricleError
        onnxruntime-training is not installed, or cannot differentiate an operator of the model, which is named; or
        the model does in training what its evaluation graph does not.
    """
    for graph in pack.manifest.graphs:
        if graph.model == model and graph.plugin is None and (graph.noise or graph.state):
            raise AuricleError(
                f"{model} has dropout or a layer with state, which an evaluation graph leaves out: train it with the "
                "runtime step."
            )
    artifacts, onnxblock = training_packages()
    forward = forward_model(pack, pack.graph("evaluate", model), batch)
    blocks = onnxblock.optim
    optimizers = {
        "sgd": blocks.SGD(clip_grad=blocks.ClipGradNorm(1.0)),
        "adamw": blocks.AdamW(eps=1e-8, clip_grad=blocks.ClipGradNorm(1.0)),
    }
    made: dict[str, bytes] = {}
    for name, block in optimizers.items():
        with tempfile.TemporaryDirectory() as folder, _quiet():
            try:
                artifacts.generate_artifacts(
                    onnx.load_from_string(forward.SerializeToString()),
                    requires_grad=list(PARAMETERS),
                    optimizer=block,
                    artifact_directory=folder,
                    loss_input_names=["loss"],
                    additional_output_names=["logits"],
                )
            except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
                raise AuricleError(f"onnxruntime-training cannot differentiate {model}: {error}") from error
            made |= {
                "training": _lower_ir_version(folder, "training_model"),
                "evaluation": _lower_ir_version(folder, "eval_model"),
            }
            made |= {name: _lower_ir_version(folder, "optimizer_model")}
            made["checkpoint"] = read_kept(Path(folder) / "checkpoint")
    return made


def _lower_ir_version(folder: str, name: str) -> bytes:
    """A written model at the IR version that the runtime reads: the newer onnx it is made with writes a newer one."""
    model = onnx.load(Path(folder) / f"{name}.onnx")
    model.ir_version = IR_VERSION
    _renumber(model.graph)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _renumber(graph: onnx.GraphProto) -> None:
    """Count the names that onnxblock makes up from 1 in each file: it counts them from the start of the process."""
    known: dict[str, str] = {}

    def counted(name: str) -> str:
        if not _COUNTED.search(name):
            return name
        return known.setdefault(name, _COUNTED.sub(f"::{len(known) + 1}", name))

    for node in graph.node:
        node.name = counted(node.name)
        for names in (node.input, node.output):
            names[:] = [counted(name) for name in names]
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = counted(value.name)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the log lines that onnxruntime-training's C++ writes to standard error, one a pass, off the terminal."""
    sys.stderr.flush()
    try:
        error = sys.stderr.fileno()
    except (AttributeError, io.UnsupportedOperation):
        error = 2
    saved = os.dup(error)
    with tempfile.TemporaryFile() as sink:
        os.dup2(sink.fileno(), error)
        try:
            yield
        finally:
            os.dup2(saved, error)
            os.close(saved)


def with_artifacts(
    pack: Pack, models: Sequence[str] | None = None, progress: Progress = lambda *_: None, batch: int = BATCH
) -> Pack:
    """The pack with artifacts of the named models (all of them) under `ort-training/<model>/`.

    Parameters
    ----------
    pack
        A pack with evaluation graphs.
    models
        Which architectures; without, every one.
    progress
        Called after every model with its name, how many are done, of how many.
    batch
        Samples of a training batch.

    Raises
    ------
    AuricleError
        onnxruntime-training is not installed, or cannot differentiate a model.
    """
    names = list(models if models is not None else pack.tables)
    entries = dict(pack.manifest.ort_training)
    old = {path for name in names if name in entries for path in _paths(entries[name])}
    files = {path: content for path, content in pack.files.items() if path not in old}
    for done, model in enumerate(names, 1):
        made = artifacts_of(pack, model, batch)
        folder = f"ort-training/{model}"
        paths = {name: f"{folder}/{name}" + ("" if name == "checkpoint" else ".onnx") for name in made}
        files |= {paths[name]: content for name, content in made.items()}
        entries[model] = OrtTraining(
            training=paths["training"],
            evaluation=paths["evaluation"],
            checkpoint=paths["checkpoint"],
            batch=batch,
            optimizers={"sgd": paths["sgd"], "adamw": paths["adamw"]},
        )
        progress(model, done, len(names))
    listed = [FileEntry.of(path, data) for path, data in sorted(files.items())]
    producers = {**pack.manifest.producers, "onnxruntime-training": _version()}
    manifest = msgspec.structs.replace(
        pack.manifest, files=tuple(listed), ort_training=entries, producers=dict(sorted(producers.items()))
    )
    return Pack(manifest, files)


def _paths(entry: OrtTraining) -> list[str]:
    return [entry.training, entry.evaluation, entry.checkpoint, *entry.optimizers.values()]


def _version() -> str:
    import onnxruntime

    return str(onnxruntime.__version__)
