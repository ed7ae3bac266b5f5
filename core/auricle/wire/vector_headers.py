"""What messages and reports say of vectors that travel beside the plug-in; `vectors` has the numbers themselves."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from auricle.wire.kinds import Count, Name, Sha256
from auricle.wire.plan import Lent

CODEC: Literal["float32"] = "float32"
"""The one codec of named vectors."""


class VectorHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A vector that follows the weights of an update."""

    name: Name
    length: Count
    """Bytes."""
    codec: Literal["float32"] = CODEC
    blob: Sha256
    """Of these bytes."""


class LentVector(Lent, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A vector that goes out with a round's model, kept by the broker in chunks as that is."""

    name: Name
    codec: Literal["float32"] = CODEC


Vectors = Annotated[tuple[VectorHeader, ...], Meta(max_length=4)]
LentVectors = Annotated[tuple[LentVector, ...], Meta(max_length=2)]
