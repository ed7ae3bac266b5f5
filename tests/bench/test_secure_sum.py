"""The measurement of secure sums: small ones, checked by themselves."""

from __future__ import annotations

from bench.secure_sum import degree_of, measure


def test_a_small_sum_is_measured_and_a_tenth_of_it_drops_out() -> None:
    row = measure(20, 100)
    assert (row["devices"], row["neighbours"], row["plain_bytes"]) == (20, 19, 400.0)
    assert row["sent_bytes"] > 0.9 * 400
    assert [degree_of(count) for count in (3, 10, 1000)] == [14, 18, 30]
