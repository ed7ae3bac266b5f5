"""What tables of measurements share, on numbers whose answer is known."""

from __future__ import annotations

import pytest
from bench.aggregate import compare
from bench.comparison_table import ratio, table, times
from bench.step_table import Series


def test_a_ratio_compares_steps_of_the_same_round() -> None:
    """The machine is three times slower in the second round: each ratio is 2 all the same, and one is 4."""
    fast, slow = [[1.0, 1.0], [3.0, 3.0], [1.0, 1.0]], [[2.0, 2.0], [6.0, 6.0], [4.0, 4.0]]
    assert ratio(slow, fast) == {"median": 2.0, "least": 2.0, "most": 4.0}
    with pytest.raises(ValueError, match="zip"):
        ratio([[1.0]], [[1.0], [1.0]])
    assert times({"median": 2.0, "least": 1.5, "most": 4.0}) == "2.00 (1.50-4.00)"
    assert table(("", "ms"), [("long", "1"), ("b", "20.5")]).splitlines() == ["        ms", "long     1", "b     20.5"]


def test_a_rule_is_compared_with_the_faster_peer_and_a_slow_one_need_not_be_repeated() -> None:
    def runs(*seconds: float) -> list[dict[str, float]]:
        return [{"seconds": value, "cpu": value, "extra": 0, "sum": 1.0} for value in seconds]

    both = compare({"ours": runs(9, 1, 2, 4), "byzfl": runs(9, 4, 4, 4), "flwr": runs(9, 5, 5, 5)})
    slow = compare({"ours": runs(9, 1, 2, 4), "flwr": runs(8)})
    assert both["faster"] == "byzfl"
    assert both["ratio"] == {"median": 2.0, "least": 1.0, "most": 4.0}
    assert slow["ratio"] == {"median": 4.0, "least": 2.0, "most": 8.0}


def _series(*rounds: list[float]) -> Series:
    series = Series()
    for seconds in rounds:
        half = [second / 2 for second in seconds]
        series.add({"seconds": seconds, "cpu": half, "memory": {"peak": 3}})
    return series


def test_a_series_counts_every_step() -> None:
    facts = _series([1.0, 2.0, 3.0], [4.0, 5.0]).facts()
    assert facts["seconds"] == 3.0
    assert facts["cpu_seconds"] == 1.5
    assert facts["busy"] == 0.5
    assert facts["p10"] < 2 < 4 < facts["p90"]
