"""A traced module as an ONNX file of standard operators, without names or paths of the machine that made it."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import torch
from torch import Tensor, nn

from auricle_export.compiler.builder import IR_VERSION, OPSET
from auricle_export.compiler.intercept import CompileError
from auricle_export.compiler.sequence import translations
from auricle_export.compiler.simplify import simplify
from auricle_export.compiler.source_line import error_line

STANDARD = frozenset({"", "ai.onnx"})


def to_onnx(
    module: nn.Module,
    example: Sequence[Tensor],
    inputs: Sequence[str],
    outputs: Sequence[str],
    dynamic_shapes: tuple[Any, ...] | None = None,
) -> onnx.ModelProto:
    """`torch.onnx.export` to standard operators only, without names or paths of this machine.

    Raises
    ------
    CompileError
        An operator has no translation, or one outside the standard set.
    """
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of torchvision, which nothing here uses
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch's exporter, about PyTorch's own code
            program = torch.onnx.export(
                module,
                tuple(example),
                dynamo=True,
                opset_version=OPSET,
                verbose=False,
                input_names=list(inputs),
                output_names=list(outputs),
                custom_translation_table=translations(),
                dynamic_shapes=dynamic_shapes,
                optimize=False,
            )
            assert program is not None
            simplify(program.model)
    except torch.onnx.errors.OnnxExporterError as error:
        where = error_line(error)
        raise CompileError(f"{where}An operator of this module cannot be exported: {_reason(error)}") from error
    return anonymous(program.model_proto)


def _reason(error: BaseException) -> str:
    """The last cause that says something."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().splitlines()[0]


def _make_finite(model: onnx.ModelProto) -> None:
    """Masks of -infinity become the lowest number: a device refuses constants that are not finite."""
    constants = [a.t for node in model.graph.node for a in node.attribute if a.HasField("t")]
    for tensor in [*model.graph.initializer, *constants]:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            values = onnx.numpy_helper.to_array(tensor)
            if np.isinf(values).any():
                largest = np.finfo(np.float32).max
                tensor.CopyFrom(onnx.numpy_helper.from_array(np.clip(values, -largest, largest), tensor.name))


def anonymous(model: onnx.ModelProto, name: str = "fragment") -> onnx.ModelProto:
    """Keep operators, constants and the interface."""
    foreign = sorted({node.domain for node in model.graph.node} - STANDARD)
    if foreign or model.functions:
        raise CompileError(f"This module needs operators outside ONNX's standard set: {', '.join(foreign)}.")
    del model.graph.value_info[:]
    del model.metadata_props[:]
    for entry in [*model.graph.node, *model.graph.initializer, *model.graph.input, *model.graph.output]:
        entry.ClearField("metadata_props")
        entry.ClearField("doc_string")
    model.graph.ClearField("metadata_props")
    _make_finite(model)
    model.graph.name = name
    model.ir_version = IR_VERSION
    model.producer_name, model.producer_version = "auricle", ""
    return model
