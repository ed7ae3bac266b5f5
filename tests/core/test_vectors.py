"""Named vectors beside an update's weights: what the method declares comes, and nothing else."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from auricle.errors import WireError
from auricle.wire.plan import Plan
from auricle.wire.vector_headers import VectorHeader
from auricle.wire.vectors import (
    Declared,
    append_vectors,
    bytes_of,
    require_headers,
    require_values,
    split_vectors,
)

BLOCK = b"weights!"
MAPS, MORE = np.array([0.1, -2.0, 3e38], np.float32), np.array([1.0, 2.0], np.float32)
DECLARED = (Declared("maps", 3), Declared("more", 2, required=False))


def test_vectors_follow_the_weights_in_the_order_of_their_names() -> None:
    body, headers = append_vectors(BLOCK, {"more": MORE, "maps": MAPS})

    assert [(header.name, header.length) for header in headers] == [("maps", 12), ("more", 8)]
    assert len(body) == len(BLOCK) + 20 == len(BLOCK) + bytes_of(DECLARED)
    assert require_headers(headers, DECLARED) == 20
    weights, vectors = split_vectors(body, len(BLOCK), headers)
    assert weights == BLOCK
    assert {name: vector.tolist() for name, vector in vectors.items()} == {
        "maps": MAPS.tolist(),
        "more": MORE.tolist(),
    }
    assert append_vectors(BLOCK, {}) == (BLOCK, ())
    with pytest.raises(WireError):
        append_vectors(BLOCK, {"maps": np.array([np.nan], np.float32)})


def header(name: str, length: int = 12, **changes: str) -> VectorHeader:
    return VectorHeader(name=name, length=length, **{"blob": "0" * 64, **changes})


@pytest.mark.parametrize(
    ("headers", "noun"),
    [
        ((header("maps"), header("gradients")), "declares"),
        ((header("maps"), header("maps")), "twice"),
        ((header("maps", 16),), "3 numbers"),
        ((header("more", 8),), "maps is missing"),
        ((), "maps is missing"),
    ],
)
def test_headers_that_the_method_did_not_declare_are_refused_and_named(
    headers: tuple[VectorHeader, ...], noun: str
) -> None:
    with pytest.raises(WireError, match=noun):
        require_headers(headers, DECLARED)


def test_a_vector_that_need_not_come_may_be_missing() -> None:
    assert require_headers((header("maps"),), DECLARED) == 12
    assert require_headers((), ()) == 0


def test_a_body_that_is_not_what_its_headers_say_is_refused() -> None:
    body, headers = append_vectors(BLOCK, {"maps": MAPS})
    infinite = np.array([np.inf, 0, 0], "<f4").tobytes()
    swapped = (header("maps", blob=append_vectors(b"", {"maps": MAPS})[1][0].blob),)

    for wrong in (body[:-1], body + b"x", BLOCK + infinite, body[:-4] + bytes(4)):
        with pytest.raises(WireError):
            split_vectors(wrong, len(BLOCK), headers)
    assert split_vectors(body, len(BLOCK), swapped)[0] == BLOCK


def test_the_methods_own_check_is_asked() -> None:
    def below(vector: np.ndarray, largest: float) -> None:
        if np.abs(vector).max() > largest:
            raise WireError("too large")

    declared = (Declared("maps", 2, check=below),)
    require_values({"maps": MORE, "other": MORE}, declared, 2.0)
    with pytest.raises(WireError, match="too large"):
        require_values({"maps": MORE}, declared, 1.9)


def test_a_plan_says_nothing_of_what_has_its_default() -> None:
    assert msgspec.to_builtins(Plan()) == {}
    assert msgspec.to_builtins(Plan(mu=0.5, method="feddyn")) == {"mu": 0.5, "method": "feddyn"}
    assert msgspec.json.decode(b"{}", type=Plan) == Plan()
