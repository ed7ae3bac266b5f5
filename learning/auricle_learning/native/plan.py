"""A planned graph: its program, the places of what goes in and comes out, and all of it as the bytes of a file.

A file is the SHA-256 of what follows, then the plan in MessagePack, compressed by zlib. It is read without trust: what
it says is held against its own arena and against what the pack says of the graph, and the library checks every word of
the program (`step_core.c`), as it does for a plan that was made a moment before.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from auricle_learning.native.program import LARGEST_ARENA, Program
from auricle_learning.native.views import Shape

LARGEST_FILE, LARGEST_CONTENT = 1 << 22, 1 << 26
"""Bytes of a file, and of what is in it: hundreds of times what a shipped pack's largest step takes."""
_DIGEST = 32
Sizes = tuple[int | str, ...]
Slot = tuple[int, Shape]
"""Where a value lies in the arena, side by side, and its shape."""


@dataclass(frozen=True)
class Plan:
    """A program with the places of what goes in and comes out.

    An output `new/NAME` lies where the input NAME does: a step goes on from where the last one ended.
    """

    program: Program
    inputs: Mapping[str, Slot]
    outputs: Mapping[str, Slot]
    constants: tuple[tuple[int, NDArray[np.float32]], ...]
    """Offsets in the arena, and the numbers that lie there."""


class UnsoundPlanError(Exception):
    """What is wrong with a stored plan, as the end of a sentence."""


_Place = Annotated[int, Meta(ge=0, lt=LARGEST_ARENA)]
_Size = Annotated[int, Meta(ge=1, le=LARGEST_ARENA)]
_Slot = tuple[_Place, tuple[_Size, ...]]
_Slots = dict[str, _Slot]


class _Content(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """What a file holds: numbers are little-endian, of four bytes."""

    graph: str
    arena: _Size
    words: bytes
    once: bytes
    inputs: _Slots
    outputs: _Slots
    constants: list[tuple[_Place, bytes]]


_decoder = msgspec.msgpack.Decoder(_Content)


def plan_bytes(plan: Plan, graph: str) -> bytes:
    """A plan as the bytes of a file.

    Parameters
    ----------
    plan
        The plan.
    graph
        What it was made of, as `plan_of` will be asked for it.
    """
    content = _Content(
        graph,
        plan.program.arena,
        plan.program.words.astype("<i4").tobytes(),
        plan.program.once.astype("<i4").tobytes(),
        dict(plan.inputs),
        dict(plan.outputs),
        [(offset, numbers.astype("<f4").tobytes()) for offset, numbers in plan.constants],
    )
    return sealed(msgspec.msgpack.encode(content))


def plan_of(data: bytes, graph: str, inputs: Mapping[str, Sizes], outputs: Mapping[str, Sizes]) -> Plan:
    """The plan in the bytes of a file.

    Parameters
    ----------
    data
        The bytes.
    graph
        What it has to be a plan of.
    inputs, outputs
        Sizes of what the graph takes and gives, by name: numbers, or words for those that its file chooses.

    Raises
    ------
    UnsoundPlanError
        It is cut off, damaged, of another graph, or has something outside of its arena.
    """
    try:
        content = _decoder.decode(opened(data))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnsoundPlanError("it is not a plan") from error
    if content.graph != graph:
        raise UnsoundPlanError("it is of another graph")
    if len(content.words) % 4 or len(content.once) % 4 or any(len(numbers) % 4 for _, numbers in content.constants):
        raise UnsoundPlanError("a part of it is cut off")
    words, once = (np.frombuffer(part, "<i4").astype(np.int32) for part in (content.words, content.once))
    constants = tuple((at, np.frombuffer(part, "<f4").astype(np.float32)) for at, part in content.constants)
    plan = Plan(Program(words, content.arena, once), content.inputs, content.outputs, constants)
    refuse_outside(plan)
    if not (_fits(plan.inputs, inputs) and _fits(plan.outputs, outputs)):
        raise UnsoundPlanError("it takes or gives something else than its graph")
    return plan


def _fits(slots: Mapping[str, Slot], due: Mapping[str, Sizes]) -> bool:
    """Whether values are those, and of those sizes."""
    pairs = ((slots[name][1], sizes) for name, sizes in due.items() if name in slots)
    same = (len(a) == len(b) and all(y in (x, str(y)) for x, y in zip(a, b, strict=True)) for a, b in pairs)
    return slots.keys() == due.keys() and all(same)


def refuse_outside(plan: Plan) -> None:
    """Refuse a plan of which a value lies outside of its arena; UnsoundPlanError."""
    ends = [at + math.prod(shape) for slots in (plan.inputs, plan.outputs) for at, shape in slots.values()]
    ends += [at + numbers.size for at, numbers in plan.constants]
    if max(ends, default=0) > plan.program.arena:
        raise UnsoundPlanError("a value lies outside of its arena")


def sealed(content: bytes) -> bytes:
    """The bytes of a file with this content."""
    packed = zlib.compress(content, 6)
    return hashlib.sha256(packed).digest() + packed


def opened(data: bytes) -> bytes:
    """The content of a file; UnsoundPlanError where it is damaged, cut off, or too long."""
    packed = data[_DIGEST:]
    if hashlib.sha256(packed).digest() != data[:_DIGEST]:
        raise UnsoundPlanError("it is damaged")
    unpack = zlib.decompressobj()
    try:
        content = unpack.decompress(packed, LARGEST_CONTENT)
    except zlib.error as error:
        raise UnsoundPlanError("it is not a plan") from error
    if not unpack.eof:
        raise UnsoundPlanError("it is longer than a plan may be, or cut off")
    return content
