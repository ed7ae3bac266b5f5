"""The vectors inside an onnxruntime-training checkpoint: its API gives weights, but not the optimizer's state.

A checkpoint is a flatbuffer whose schema onnxruntime ships in Python; tensors in it are views that can be written to.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from auricle.packs.pack import PARTS
from auricle.wire.tensors import Flat, TensorTable

MOMENTS = {"momentum0": "first", "momentum1": "second"}
"""AdamW's vectors as the checkpoint calls them, and as the pack does."""
_STEP_FIELD = 6
"""Offset of `step` in the table of an optimizer group."""


class Checkpoint:
    """A checkpoint in memory, its tensors by `vector/part`: `model/body`, `model.first/head.bias`.

    Parameters
    ----------
    content
        Bytes of the file.
    """

    def __init__(self, content: bytes) -> None:
        from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.Checkpoint import Checkpoint as Root

        self._bytes = bytearray(content)
        self._root = Root.GetRootAs(self._bytes, 0)
        self._tensors = dict(self._by_name())

    def _by_name(self) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
        module = self._root.ModuleState()
        for i in range(module.RequiresGradParamsLength()):
            tensor = module.RequiresGradParams(i)
            yield tensor.Name().decode(), tensor.RawDataAsNumpy().view("<f4")
        for group in self._groups():
            for i in range(group.OptimizerStatesLength()):
                state = group.OptimizerStates(i)
                role, part = state.ParamName().decode().split("/", 1)
                for k in range(state.MomentumsLength()):
                    moment = state.Momentums(k)
                    slot = MOMENTS[moment.Name().decode()]
                    yield f"{role}.{slot}/{part}", moment.RawDataAsNumpy().view("<f4")

    def _groups(self) -> list[Any]:
        return [self._root.OptimizerGroups(i) for i in range(self._root.OptimizerGroupsLength())]

    @property
    def content(self) -> bytes:
        """The file's bytes."""
        return bytes(self._bytes)

    @property
    def sizes(self) -> dict[str, int]:
        """How many numbers each tensor has."""
        return {name: tensor.size for name, tensor in self._tensors.items()}

    def vector(self, name: str, table: TensorTable) -> Flat:
        """The flat vector (P,) of a name: `model`, `model.first`, `model.second`."""
        body, weight, bias = (self._tensors[f"{name}/{part}"] for part in PARTS)
        return table.join(body, weight, bias)

    def replace(self, vectors: Mapping[str, Flat], table: TensorTable, steps: int) -> bytes:
        """Put in other vectors and another count of steps; returns the file's bytes.

        The count can be written only where it stands in the file, which leaves out a count of 0.
        """
        for name, vector in vectors.items():
            for part, values in zip(PARTS, table.parts(vector), strict=True):
                self._tensors[f"{name}/{part}"][:] = values.ravel()
        for group in self._groups():
            offset = group._tab.Offset(_STEP_FIELD)
            if offset:
                struct.pack_into("<q", self._bytes, group._tab.Pos + offset, steps)
        return self.content
