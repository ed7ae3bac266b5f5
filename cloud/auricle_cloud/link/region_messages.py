"""What a region and the place where regions meet say to each other: MessagePack in the body of a POST.

A region begins with `JoinRound`, asks again with `Wait` or `Reply`, and may `Leave`; the answer is `Later`, `Again`, a
`MatrixQuestion` or the `Joint` model. Numbers travel as raw little-endian float64, and of the model as float32.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from auricle.errors import WireError
from auricle.wire.kinds import UNDECODABLE, Count, DeviceId, Sha256, Short, Token
from auricle_learning.aggregation.bounded import BoundedRule
from auricle_learning.aggregation.compute.pieces import Spans

MOST_DEVICES = 20_000
"""Of one region in a round."""
PATH = "/v1/regions"
CONTENT_TYPE = "application/vnd.msgpack"

Ask = Literal["sum", "distances"]
Finite = Annotated[float, Meta(ge=0, le=1e300)]
Place = Annotated[int, Meta(ge=0, le=1 << 40)]
Span = tuple[Place, Place]


class UpdateSummary(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is said of one update; the update stays in its region."""

    device: DeviceId
    samples: Finite
    loss: Annotated[float, Meta(ge=-1e300, le=1e300)] | None = None
    registered: Finite | None = None
    """Clips that the device registered; None: not known."""
    steps: Finite | None = None
    labelled: Annotated[float, Meta(ge=0, le=1)] | None = None
    """1 for a device that trained on labels."""


class JoinRound(Struct, frozen=True, tag="join", forbid_unknown_fields=True):
    """A region's round has closed, and wants to be counted with the others'."""

    join: Token
    """Made up by the region, for this round of it."""
    base: Sha256
    """Of the model that the updates were trained from."""
    pack: Sha256
    method: Annotated[str, Meta(max_length=2000)]
    """As of `method_text`."""
    rows: Annotated[tuple[UpdateSummary, ...], Meta(max_length=MOST_DEVICES)]
    """Of the updates that count, in the order of the devices' names."""
    dropped: Annotated[tuple[DeviceId, ...], Meta(max_length=MOST_DEVICES)] = ()
    """Whose update was not finite."""


class Wait(Struct, frozen=True, tag="wait", forbid_unknown_fields=True):
    """Nothing new."""

    join: Token
    busy: bool = False
    """Whether the region works on its answer: it is answered `Later` at once."""


class Leave(Struct, frozen=True, tag="leave", forbid_unknown_fields=True):
    """The region's round was aborted."""

    join: Token


class Reply(Struct, frozen=True, tag="reply", forbid_unknown_fields=True):
    """The answer to a question."""

    join: Token
    question: Count
    numbers: bytes
    """(P,) of a sum; (K_r, L) of distances."""


FromRegion = JoinRound | Wait | Leave | Reply


class Later(Struct, frozen=True, tag="later", forbid_unknown_fields=True):
    """Ask again: not all are here."""

    here: Count
    wanted: Count


class Again(Struct, frozen=True, tag="again", forbid_unknown_fields=True):
    """This place has been restarted, or has done without the region: join again."""


class MatrixQuestion(Struct, frozen=True, tag="question", forbid_unknown_fields=True):
    """What is to be computed on the region's updates."""

    number: Count
    ask: Ask
    spans: Annotated[tuple[tuple[Span, ...], ...], Meta(max_length=10_000)]
    """(L,) of each layer."""
    numbers: bytes
    """(K_r, L) weights of a sum; the centre (P,) of distances."""


class Limited(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A device that counted for less than it said, see `auricle_learning.aggregation.cohort.Bounded`."""

    device: DeviceId
    what: Annotated[str, Meta(max_length=100)]
    said: float
    counted: float


class RegionPart(Struct, frozen=True, forbid_unknown_fields=True):
    """What a round made of one region's updates; tables have its rows in their order."""

    rows: Count
    """K_r."""
    share: bytes
    """(K_r, L)."""
    kept: bytes
    """(K_r, L), a byte each."""
    deviation: bytes | None = None
    pruned: bytes | None = None
    """(K_r, L), a signed byte each."""
    score: bytes | None = None
    """(K_r,)."""
    score_of: Short | None = None
    bounded: Annotated[tuple[Limited, ...], Meta(max_length=4 * MOST_DEVICES)] = ()
    flag: Annotated[str, Meta(max_length=2000)] | None = None
    warnings: Annotated[tuple[Annotated[str, Meta(max_length=2000)], ...], Meta(max_length=100)] = ()


class Joint(Struct, frozen=True, tag="joint", forbid_unknown_fields=True):
    """The model that all regions go on from."""

    number: Count
    """Of the joint round; 0: the first model."""
    regions: Annotated[tuple[Token, ...], Meta(max_length=1000)]
    """Whose updates are in it."""
    weights: bytes
    part: RegionPart | None = None
    """None: the region's updates are not in it, for it came too late or from another model."""


FromMeeting = Later | Again | MatrixQuestion | Joint

T = TypeVar("T")


def read_message(data: bytes, kind: type[T]) -> T:
    """Decode what came; WireError where it is not of that kind."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except UNDECODABLE as error:
        raise WireError(f"This is not a message between regions of this version: {error}.") from error


def write_numbers(values: NDArray[np.float64]) -> bytes:
    """Raw little-endian float64."""
    return np.ascontiguousarray(values, "<f8").tobytes()


def read_numbers(data: bytes, *shape: int, finite: bool = True) -> NDArray[np.float64]:
    """An array of this shape; WireError where there are more or fewer numbers, or one that is not finite."""
    if len(data) != 8 * math.prod(shape):
        raise WireError(f"{len(data)} bytes came where {8 * math.prod(shape)} are due.")
    values = np.frombuffer(data, "<f8").astype(np.float64).reshape(shape)
    if finite and not np.isfinite(values).all():
        raise WireError("Numbers that are not finite came.")
    return values


def spans_in(spans: tuple[tuple[Span, ...], ...], size: int) -> Spans:
    """The spans of a question, as slices; WireError where one is not within a model of `size` weights."""
    if any(not start <= stop <= size for parts in spans for start, stop in parts):
        raise WireError(f"A question is about weights that a model of {size} does not have.")
    return [tuple(slice(start, stop) for start, stop in parts) for parts in spans]


def method_text(rule: BoundedRule) -> str:
    """A method with what differs from its defaults, and the bounds around it: regions that meet have the same."""
    options = ", ".join(f"{name} {value}" for name, value in sorted(rule.options.items()))
    few = "" if rule.prune_few else ", prune_few false"
    return f"{rule.name}{f' ({options})' if options else ''}, share {rule.factor:g}{few}"
