"""Which chunk a topic names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auricle_edge.fleet.incoming import _chunk_number


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("0", 0),
        ("2", 2),
        ("3", None),
        ("-1", None),
        ("", None),
        ("+", None),
        ("²", None),
        ("٣", None),
        ("1" * 5000, None),
    ],
)
def test_only_a_chunk_that_was_promised_counts(name: str, number: int | None) -> None:
    assert _chunk_number(f"auricle/1/home/b/ab/{name}", chunks=3) == number


@given(st.text(max_size=8), st.integers(1, 4096))
def test_no_topic_crashes_the_reader(name: str, chunks: int) -> None:
    number = _chunk_number(f"b/{name}", chunks)
    assert number is None or 0 <= number < chunks
