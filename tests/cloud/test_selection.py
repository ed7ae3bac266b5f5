"""Who is invited."""

from __future__ import annotations

from typing import Any

import pytest

from auricle_cloud.states.selection import choose, unfit

FIT = {
    "device": "dev-a",
    "standing": "approved",
    "reason": "",
    "pack": "p" * 64,
    "online": True,
    "gate": "train",
    "gate_reason": "",
    "selected": 0,
}


def test_over_many_rounds_everybody_is_selected_equally_often() -> None:
    counts = {f"dev-{i}": 0 for i in range(7)}
    for number in range(70):
        rows = [{"device": name, "selected": count} for name, count in counts.items()]
        for name in choose(rows, 3, f"0/{number}"):
            counts[name] += 1
    assert set(counts.values()) == {30}


def test_a_newcomer_is_selected_before_those_who_took_part() -> None:
    rows = [{"device": "dev-a", "selected": 4}, {"device": "dev-b", "selected": 4}, {"device": "new", "selected": 0}]
    assert "new" in choose(rows, 1, "seed")


def test_the_order_of_the_rows_does_not_matter_and_too_few_are_all() -> None:
    rows = [{"device": f"dev-{i}", "selected": 0} for i in range(9)]
    assert choose(rows, 4, "s") == choose(rows[::-1], 4, "s")
    assert choose(rows, 99, "s") == [f"dev-{i}" for i in range(9)]
    assert choose([], 3, "s") == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"standing": "pending"}, "waits for an operator's approval"),
        ({"standing": "quarantined", "reason": "noise"}, "is quarantined: noise"),
        ({"pack": "q" * 64}, "has pack qqqqqqqqqqqq, the task is of pack pppppppppppp"),
        ({"online": False}, "is offline"),
        ({"gate": "wait", "gate_reason": "battery at 10 %"}, "does not want to train now: battery at 10 %"),
    ],
)
def test_it_says_why_a_device_cannot_be_invited(change: dict[str, Any], why: str | None) -> None:
    assert unfit({**FIT, **change}, "p" * 64) == why
