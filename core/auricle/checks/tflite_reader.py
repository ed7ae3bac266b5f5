"""Reading a `.tflite` without trusting it: the tables of its flatbuffer that say how large it is and what it runs.

Layout: https://flatbuffers.dev/internals; fields: TensorFlow Lite's schema.fbs, version 3. Only what a check needs is
read, every position is checked against the file, and nothing is allocated by what the file claims.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from auricle.errors import PackError

MAGIC = b"TFL3"
MOST_ENTRIES = 1 << 16
"""Most tensors, operators or buffers."""


@dataclass(frozen=True)
class Vector:
    """Where a vector's numbers begin in the file, and how many there are."""

    start: int
    length: int


@dataclass(frozen=True)
class FileTensor:
    """What a `.tflite` says of a tensor."""

    shape: tuple[int, ...]
    kind: int
    """TensorType of the schema."""
    scales: Vector | None
    buffer: int
    strange: bool
    """Whether it is sparse, a variable or of unknown rank."""


@dataclass(frozen=True)
class FileModel:
    """What a `.tflite` holds."""

    subgraphs: int
    operators: frozenset[int]
    """Numbers of BuiltinOperator; -1 for an operator with a name of its own."""
    tensors: tuple[FileTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    buffers: tuple[Vector | None, ...]
    """Contents inside the file, None without one."""
    outside: bool
    """Whether a buffer lies behind the flatbuffer."""


def read_tflite(content: bytes, where: str) -> FileModel:
    """Read a `.tflite`.

    Raises
    ------
    PackError
        It is not a TFLite model, or a position in it leads outside; the sentence begins with `where`.
    """
    try:
        if content[4:8] != MAGIC:
            raise ValueError("it does not begin as one")
        return _model(_Table(content, _word(content, 0)))
    except (struct.error, ValueError) as error:
        raise PackError(f"{where} is not a .tflite model: {error}.") from error


def _word(content: bytes, position: int) -> int:
    return int(struct.unpack_from("<I", content, position)[0])


class _Table:
    """A table of a flatbuffer."""

    def __init__(self, content: bytes, position: int) -> None:
        self.content, self.position = content, position
        self._fields = position - int(struct.unpack_from("<i", content, position)[0])
        if not 0 <= self._fields < len(content):
            raise ValueError("a table leads outside the file")
        self._size = int(struct.unpack_from("<H", content, self._fields)[0])

    def field(self, number: int) -> int | None:
        """Position of a field, None when the table leaves it at its default."""
        slot = 4 + 2 * number
        if slot + 2 > self._size:
            return None
        ahead = int(struct.unpack_from("<H", self.content, self._fields + slot)[0])
        return self.position + ahead if ahead else None

    def number(self, field: int, form: str) -> int:
        """A number, 0 by default."""
        position = self.field(field)
        return 0 if position is None else int(struct.unpack_from(form, self.content, position)[0])

    def table(self, field: int) -> _Table | None:
        """A table that the field refers to."""
        position = self.field(field)
        return None if position is None else _Table(self.content, position + _word(self.content, position))

    def vector(self, field: int, width: int) -> Vector | None:
        """A vector of numbers of that many bytes each, wholly inside the file."""
        position = self.field(field)
        if position is None:
            return None
        start = position + _word(self.content, position)
        vector = Vector(start + 4, _word(self.content, start))
        if vector.start + vector.length * width > len(self.content):
            raise ValueError("a vector leads outside the file")
        return vector

    def integers(self, field: int) -> tuple[int, ...]:
        """A short vector of int32."""
        vector = self.vector(field, 4)
        if vector is None:
            return ()
        if vector.length > MOST_ENTRIES:
            raise ValueError(f"it has a list of more than {MOST_ENTRIES}")
        return struct.unpack_from(f"<{vector.length}i", self.content, vector.start)

    def tables(self, field: int) -> Iterator[_Table]:
        """The tables of a vector of tables."""
        vector = self.vector(field, 4)
        if vector is None:
            return
        if vector.length > MOST_ENTRIES:
            raise ValueError(f"it has a list of more than {MOST_ENTRIES}")
        for position in range(vector.start, vector.start + 4 * vector.length, 4):
            yield _Table(self.content, position + _word(self.content, position))


def _model(model: _Table) -> FileModel:
    graphs = list(model.tables(2))
    if not graphs:
        raise ValueError("it has no graph")
    buffers = list(model.tables(4))
    return FileModel(
        subgraphs=len(graphs),
        operators=frozenset(_operator(code) for code in model.tables(1)),
        tensors=tuple(_tensor(tensor) for tensor in graphs[0].tables(0)),
        inputs=graphs[0].integers(1),
        outputs=graphs[0].integers(2),
        buffers=tuple(buffer.vector(0, 1) for buffer in buffers),
        outside=any(buffer.field(1) is not None or buffer.field(2) is not None for buffer in buffers),
    )


def _operator(code: _Table) -> int:
    if code.field(1) is not None:
        return -1
    return max(code.number(0, "<b"), code.number(3, "<i"))


def _tensor(tensor: _Table) -> FileTensor:
    quantisation = tensor.table(4)
    return FileTensor(
        shape=tensor.integers(0),
        kind=tensor.number(1, "<b"),
        scales=None if quantisation is None else quantisation.vector(2, 4),
        buffer=tensor.number(2, "<I"),
        strange=any(tensor.field(number) is not None for number in (5, 6, 7, 9)),
    )
