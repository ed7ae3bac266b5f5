"""The bytes of a `.tflite`: a flatbuffer by TensorFlow Lite's schema, and where in it each pack tensor lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import flatbuffers
import numpy as np
import tflite

from auricle.packs.manifest import Buffer
from auricle_export.tflite.draft import Draft, DraftOperator, DraftTensor

SCHEMA_VERSION = 3
ALIGNMENT_BYTES = 16
"""Bytes; TensorFlow Lite's kernels read constants in whole vectors."""
VERSIONS = {"BROADCAST_TO": 2, "DEQUANTIZE": 5}
"""Operator versions above 1; dequantising is one per channel."""
_TYPES = {"float32": "FLOAT32", "int32": "INT32", "int8": "INT8", "bool": "BOOL"}


def write(draft: Draft, inputs: Sequence[int], outputs: Sequence[int]) -> tuple[bytes, tuple[Buffer, ...]]:
    """A model with those inputs and outputs, and the map of its weights in the order of the pack's table.

    The bytes depend on the draft alone.
    """
    operators = draft.pruned(outputs)
    scaled = {place for place, tensor in enumerate(draft.tensors) if tensor.channels}
    joined = {t for op in operators for t in (*op.inputs, *op.outputs) if t >= 0}
    used = sorted(joined | scaled | {*inputs, *outputs})
    stored = set(draft.stored.values())
    kept = sorted({0} | stored | {draft.tensors[t].buffer for t in used})
    content = _Writer(draft, operators, used, kept).model(inputs, outputs)
    return content, _locate(content, draft, kept)


class _Writer:
    """Writes tables from the leaves up, as flatbuffers must be; equal leaves are written once."""

    def __init__(self, draft: Draft, operators: list[DraftOperator], used: list[int], kept: list[int]) -> None:
        self.draft, self.operators, self.used = draft, operators, used
        self.builder = flatbuffers.Builder(1 << 16)
        self.index = {-1: -1} | {tensor: i for i, tensor in enumerate(used)}
        self.kept = kept
        self.buffer_index = {buffer: i for i, buffer in enumerate(kept)}
        self.codes = sorted({operator.code for operator in operators})
        self._leaves: dict[Any, int] = {}

    def model(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        buffers = self._tables([self._buffer(self.draft.constants[i]) for i in self.kept])
        subgraph = self._tables([self._subgraph(inputs, outputs)])
        codes = self._tables([self._code(code) for code in self.codes])
        description = self.builder.CreateString("auricle")
        root = self._table(
            "Model",
            Version=SCHEMA_VERSION,
            OperatorCodes=codes,
            Subgraphs=subgraph,
            Description=description,
            Buffers=buffers,
        )
        self.builder.Finish(root, b"TFL3")
        return bytes(self.builder.Output())

    def _subgraph(self, inputs: Sequence[int], outputs: Sequence[int]) -> int:
        tensors = self._tables([self._tensor(self.draft.tensors[t]) for t in self.used])
        operators = self._tables([self._operator(operator) for operator in self.operators])
        return self._table(
            "SubGraph",
            Tensors=tensors,
            Inputs=self._numbers([self.index[t] for t in inputs]),
            Outputs=self._numbers([self.index[t] for t in outputs]),
            Operators=operators,
        )

    def _tensor(self, tensor: DraftTensor) -> int:
        fields: dict[str, int] = {"Shape": self._numbers(tensor.shape)}
        if tensor.name:
            fields["Name"] = self.builder.CreateString(tensor.name)
        if tensor.channels:
            scale = self.builder.CreateNumpyVector(np.ones(tensor.channels, np.float32))
            zero = self.builder.CreateNumpyVector(np.zeros(tensor.channels, np.int64))
            fields["Quantization"] = self._table(
                "QuantizationParameters", Scale=scale, ZeroPoint=zero, QuantizedDimension=tensor.channel_axis
            )
        kind = getattr(tflite.TensorType, _TYPES[tensor.dtype])
        return self._table("Tensor", Type=kind, Buffer=self.buffer_index[tensor.buffer], **fields)

    def _operator(self, operator: DraftOperator) -> int:
        fields: dict[str, int] = {
            "OpcodeIndex": self.codes.index(operator.code),
            "Inputs": self._numbers([self.index[t] for t in operator.inputs]),
            "Outputs": self._numbers([self.index[t] for t in operator.outputs]),
        }
        if operator.options is not None:
            name, values = operator.options
            fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, name)
            fields["BuiltinOptions"] = self._options(name, values)
        return self._table("Operator", **fields)

    def _options(self, name: str, values: dict[str, object]) -> int:
        key = (name, *sorted(values.items()))
        if key not in self._leaves:
            scalars = {k: self._numbers(v) if isinstance(v, tuple) else v for k, v in values.items()}
            self._leaves[key] = self._table(name, **scalars)
        return self._leaves[key]

    def _code(self, code: str) -> int:
        builtin = getattr(tflite.BuiltinOperator, code)
        return self._table(
            "OperatorCode",
            DeprecatedBuiltinCode=min(builtin, 127),
            BuiltinCode=builtin,
            Version=VERSIONS.get(code, 1),
        )

    def _buffer(self, content: bytes) -> int:
        if not content:
            return self._table("Buffer")
        builder = self.builder
        builder.StartVector(1, len(content), ALIGNMENT_BYTES)
        builder.head = builder.Head() - len(content)
        builder.Bytes[builder.Head() : builder.Head() + len(content)] = content
        return self._table("Buffer", Data=builder.EndVector())

    def _numbers(self, values: Sequence[int]) -> int:
        key = ("numbers", *values)
        if key not in self._leaves:
            array = np.array(values, np.int32)
            self._leaves[key] = self.builder.CreateNumpyVector(array)
        return self._leaves[key]

    def _tables(self, offsets: Sequence[int]) -> int:
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def _table(self, name: str, **fields: object) -> int:
        getattr(tflite, f"{name}Start")(self.builder)
        for field, value in fields.items():
            getattr(tflite, f"{name}Add{field}")(self.builder, value)
        return int(getattr(tflite, f"{name}End")(self.builder))


def _locate(content: bytes, draft: Draft, kept: list[int]) -> tuple[Buffer, ...]:
    """Read back where the writer put each pack tensor and its scales."""
    model = tflite.Model.GetRootAs(content, 0)
    graph = model.Subgraphs(0)
    scales: dict[int, int] = {}
    for i in range(graph.TensorsLength()):
        tensor = graph.Tensors(i)
        quantisation = tensor.Quantization()
        if quantisation is not None and not quantisation.ScaleIsNone():
            scales[tensor.Buffer()] = _vector(quantisation, field=8)
    found = []
    for spec in draft.table.specs:
        if spec.name in draft.stored:
            place = kept.index(draft.stored[spec.name])
            found.append(
                Buffer(
                    tensor=spec.name,
                    offset=_vector(model.Buffers(place), field=4),
                    scale=scales.get(place),
                    axes=draft.axes.get(spec.name, ()),
                )
            )
    return tuple(found)


class _Table(Protocol):
    """A table of a flatbuffer, as `tflite` reads it."""

    _tab: Any


def _vector(table: _Table, field: int) -> int:
    """Byte at which a vector's numbers begin."""
    inner = table._tab
    return int(inner.Vector(inner.Offset(field)))
