"""What tables of measurements share, on numbers whose answer is known."""

from __future__ import annotations

import pytest
from bench.aggregate import compare
from bench.comparison_table import ratio, table, times


def test_a_ratio_compares_steps_of_the_same_round() -> None:
    """The machine is three times slower in the second round: each ratio is 2 all the same, and one is 4."""
    fast, slow = [[1.0, 1.0], [3.0, 3.0], [1.0, 1.0]], [[2.0, 2.0], [6.0, 6.0], [4.0, 4.0]]

    assert ratio(slow, fast) == {"median": 2.0, "least": 2.0, "most": 4.0}


def test_a_ratio_needs_the_same_rounds() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratio([[1.0]], [[1.0], [1.0]])


def test_a_ratio_is_written_with_its_range() -> None:
    assert times({"median": 2.0, "least": 1.5, "most": 4.0}) == "2.00 (1.50-4.00)"


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    assert table(("", "ms"), [("long name", "1"), ("b", "20.5")]).splitlines() == [
        "             ms",
        "long name     1",
        "b          20.5",
    ]


def test_a_rule_is_compared_with_the_faster_peer_and_a_slow_one_need_not_be_repeated() -> None:
    def runs(*seconds: float) -> list[dict[str, float]]:
        return [{"seconds": value, "extra": 0, "sum": 1.0} for value in seconds]

    both = compare({"ours": runs(9, 1, 2, 4), "byzfl": runs(9, 4, 4, 4), "flwr": runs(9, 5, 5, 5)})
    slow = compare({"ours": runs(9, 1, 2, 4), "flwr": runs(8)})

    assert both["faster"] == "byzfl"
    assert both["ratio"] == {"median": 2.0, "least": 1.0, "most": 4.0}
    assert slow["ratio"] == {"median": 4.0, "least": 2.0, "most": 8.0}
