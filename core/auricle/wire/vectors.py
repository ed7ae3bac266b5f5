"""Named vectors that travel beside the plug-in: with an invitation, or after the weights of an update.

A method declares them (`Declared`); the headers that come are held against this declaration before any memory is given
to a body, and the numbers once the body is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from auricle.errors import WireError
from auricle.wire.tensors import Flat, decode, digest, encode
from auricle.wire.vector_headers import CODEC, VectorHeader

NUMBER_BYTES = 4
"""Bytes of a number in `CODEC`."""


class Declared(NamedTuple):
    """A vector that a round's method has updates bring."""

    name: str
    size: int
    """Numbers."""
    required: bool = True
    """Whether every update brings it; else those of devices whose owners allow it do."""
    check: Callable[[Flat, float], None] | None = None
    """(vector, largest weight) -> None: raises WireError for numbers that it cannot have, beyond those not finite."""


def bytes_of(declared: Sequence[Declared]) -> int:
    """Most bytes that the vectors of an update take."""
    return NUMBER_BYTES * sum(each.size for each in declared)


def append_vectors(block: bytes, vectors: Mapping[str, Flat]) -> tuple[bytes, tuple[VectorHeader, ...]]:
    """An update's body with vectors after its weights, and their headers, in the order of the names.

    Raises
    ------
    WireError
        A number is not finite.
    """
    encoded = {name: encode(vectors[name], CODEC) for name in sorted(vectors)}
    headers = tuple(VectorHeader(name=name, length=len(data), blob=digest(data)) for name, data in encoded.items())
    return b"".join([block, *encoded.values()]), headers


def require_headers(headers: Sequence[VectorHeader], declared: Sequence[Declared]) -> int:
    """Hold the headers of an update against what its round's method declares; the bytes that they announce.

    Raises
    ------
    WireError
        A vector is not declared, comes twice, has another length, or a required one is missing.
    """
    known = {each.name: each for each in declared}
    names = [header.name for header in headers]
    for header in headers:
        if header.name not in known:
            raise WireError(f"vectors: {header.name} is not one that the round's method declares")
        if names.count(header.name) > 1:
            raise WireError(f"vectors: {header.name} comes twice")
        if header.length != NUMBER_BYTES * known[header.name].size:
            raise WireError(f"vectors: {header.name} does not have {known[header.name].size} numbers")
    missing = [each.name for each in declared if each.required and each.name not in names]
    if missing:
        raise WireError(f"vectors: {missing[0]} is missing")
    return sum(header.length for header in headers)


def split_vectors(body: bytes, weights: int, headers: Sequence[VectorHeader]) -> tuple[bytes, dict[str, Flat]]:
    """The weights' bytes of a whole body, and its vectors by name.

    Parameters
    ----------
    weights
        Bytes of the weights.

    Raises
    ------
    WireError
        The lengths do not fit, a vector is not the one that its header names, or a number is not finite.
    """
    vectors: dict[str, Flat] = {}
    start = weights
    for header in headers:
        data = body[start : start + header.length]
        start += header.length
        if digest(data) != header.blob:
            raise WireError(f"{header.name} is not the vector that its header names.")
        vectors[header.name] = decode(data, header.length // NUMBER_BYTES, CODEC)
    if start != len(body):
        raise WireError(f"An update has {len(body) - start:+d} bytes beside its weights and vectors.")
    return body[:weights], vectors


def require_values(vectors: Mapping[str, Flat], declared: Sequence[Declared], largest: float) -> None:
    """Refuse vectors with numbers that they cannot have; WireError names the first.

    Parameters
    ----------
    largest
        Weight that no model learns.
    """
    for each in declared:
        if each.check is not None and each.name in vectors:
            each.check(vectors[each.name], largest)
