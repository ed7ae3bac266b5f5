"""The tensor table of a model and the raw block that travels: little-endian, in the table's order, nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.errors import WireError
from auricle.wire.float16 import from_float16, to_float16
from auricle.wire.tensor_specs import TensorSpec

Flat = NDArray[np.float32]

CODECS: dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "float16": np.dtype("<f2")}
LARGEST_MODEL = 1 << 26
"""Most weights a table may claim; checked before anything is allocated."""


class Tensors:
    """Tensors in their order in a flat vector.

    Parameters
    ----------
    specs
        The tensors. Names must differ.

    Raises
    ------
    WireError
        A name twice, or more than `LARGEST_MODEL` weights.
    """

    def __init__(self, specs: Sequence[TensorSpec]) -> None:
        self.specs = tuple(specs)
        if len({s.name for s in self.specs}) != len(self.specs):
            raise WireError("A tensor table names the same tensor twice.")
        self.size = sum(s.size for s in self.specs)
        if self.size > LARGEST_MODEL:
            raise WireError(f"A tensor table claims {self.size} weights; at most {LARGEST_MODEL} are allowed.")

    @cached_property
    def offsets(self) -> dict[str, slice]:
        """Where each tensor lies in the flat vector."""
        spans, start = {}, 0
        for spec in self.specs:
            spans[spec.name] = slice(start, start + spec.size)
            start += spec.size
        return spans

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of each tensor."""
        return {spec.name: spec.shape for spec in self.specs}

    def tensor(self, flat: Flat, name: str) -> Flat:
        """View of one tensor inside a flat vector (P,)."""
        return flat[self.offsets[name]].reshape(self.shapes[name])


class TensorTable(Tensors):
    """All tensors of a model in their order on the wire; the last two are `head.weight` and `head.bias`.

    Raises
    ------
    WireError
        As `Tensors`, or no classifier (C, H) with its (C,) at the end.
    """

    def __init__(self, specs: Sequence[TensorSpec]) -> None:
        super().__init__(specs)
        if [s.name for s in self.specs[-2:]] != ["head.weight", "head.bias"]:
            raise WireError("A tensor table must end with head.weight and head.bias.")
        weight, bias = self.specs[-2:]
        if len(weight.shape) != 2 or bias.shape != weight.shape[:1]:
            raise WireError("A tensor table's head.weight must be (labels, width) and its head.bias (labels,).")

    def parts(self, flat: Flat) -> tuple[Flat, Flat, Flat]:
        """Views of the three parts a step graph takes: body, classifier weight (C, H), classifier bias (C,)."""
        body = flat[: self.offsets["head.weight"].start]
        return body, self.tensor(flat, "head.weight"), self.tensor(flat, "head.bias")

    def join(self, body: Flat, weight: Flat, bias: Flat) -> Flat:
        """Make the flat vector (P,) of a model's three parts."""
        return np.concatenate([body.ravel(), weight.ravel(), bias.ravel()])

    def initial(self, seed: int) -> Flat:
        """Draw the initial weights (P,) float32, the same for the same seed on every machine."""
        generator = np.random.Generator(np.random.PCG64(seed))
        flat = np.empty(self.size, np.float32)
        for spec in self.specs:
            draw = generator.random(spec.size, dtype=np.float32)
            flat[self.offsets[spec.name]] = np.float32(spec.centre) + (2 * draw - 1) * np.float32(spec.bound)
        return flat


def encode(flat: Flat, codec: str = "float32") -> bytes:
    """Make the block that travels from a flat vector (P,): raw little-endian numbers.

    Raises
    ------
    WireError
        The codec is unknown, or a weight is too large for it.
    """
    if codec not in CODECS:
        raise WireError(f'No tensor codec "{codec}"; there is: {", ".join(sorted(CODECS))}.')
    if codec == "float16" and flat.dtype == np.float32:
        block = to_float16(np.ascontiguousarray(flat))
    else:
        with np.errstate(over="ignore"):
            numbers: NDArray[Any] = flat.astype(CODECS[codec], copy=False)
        block = numbers.tobytes() if np.isfinite(numbers).all() else None
    if block is None:
        raise WireError(f"A weight is not finite or does not fit {codec}.")
    return block


def decode(block: bytes, size: int, codec: str = "float32", out: Flat | None = None) -> Flat:
    """Read a block of exactly `size` numbers into a flat vector (size,) float32: `out`, if that is given.

    Raises
    ------
    WireError
        The codec is unknown, the length is not that of `size` numbers, or a number is not finite.
    """
    if codec not in CODECS:
        raise WireError(f'No tensor codec "{codec}".')
    expected = size * CODECS[codec].itemsize
    if len(block) != expected:
        raise WireError(f"A tensor block has {len(block)} bytes where {expected} are due.")
    if codec == "float16":
        flat = from_float16(block, out)
    else:
        numbers = np.empty(size, np.float32) if out is None else out
        numbers[:] = np.frombuffer(block, CODECS[codec])
        flat = numbers if np.isfinite(numbers).all() else None
    if flat is None:
        raise WireError("A tensor block holds numbers that are not finite.")
    return flat


def digest(block: bytes) -> str:
    """SHA-256 of a block, in hex: its identity on the wire and on disk."""
    return hashlib.sha256(block).hexdigest()
