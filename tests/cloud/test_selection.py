"""Who is invited."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from auricle_cloud.states.selection import choose, draw, unfit
from auricle_cloud.storage.rows import DeviceRow

FIT = DeviceRow(
    device="dev-a",
    public_key=b"k" * 32,
    boot="boot-1",
    online=True,
    pack="p" * 64,
    architecture="crnn-lite",
    samples=5,
    first_seen=1.0,
    last_seen=2.0,
    agent="1",
    standing="approved",
    reason="",
    label="",
    gate="train",
    gate_reason="",
    selected=0,
    harmful_count=0,
    sensitivity=0,
    sensitivity_now=None,
    offline_since=None,
    capabilities="",
)


def device(name: str, selected: int) -> DeviceRow:
    return replace(FIT, device=name, selected=selected)


def test_over_many_rounds_everybody_is_selected_equally_often() -> None:
    counts = {f"dev-{i}": 0 for i in range(7)}
    for number in range(70):
        rows = [device(name, count) for name, count in counts.items()]
        for name in choose(rows, 3, f"0/{number}"):
            counts[name] += 1
    assert set(counts.values()) == {30}


def test_a_newcomer_is_selected_before_those_who_took_part() -> None:
    rows = [device("dev-a", 4), device("dev-b", 4), device("new", 0)]
    assert "new" in choose(rows, 1, "seed")


def test_the_order_of_the_rows_does_not_matter_and_too_few_are_all() -> None:
    rows = [device(f"dev-{i}", 0) for i in range(9)]
    assert choose(rows, 4, "s") == choose(rows[::-1], 4, "s")
    assert choose(rows, 99, "s") == [f"dev-{i}" for i in range(9)]
    assert choose([], 3, "s") == []


@pytest.fixture
def on_greenwich_time() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"standing": "pending"}, "waits for an operator's approval"),
        ({"standing": "quarantined", "reason": "noise"}, "is quarantined: noise"),
        ({"pack": "q" * 64}, "has pack qqqqqqqqqqqq, the task is of pack pppppppppppp"),
        ({"online": False, "offline_since": 90.0}, "is offline since 1970-01-01 00:01 UTC"),
        (
            {"online": False},
            "has not been heard since a coordinator started or ended: its last message came at 1970-01-01 00:00 UTC",
        ),
        ({"gate": "wait", "gate_reason": "battery at 10 %"}, "does not want to train now: battery at 10 %"),
    ],
)
def test_it_says_why_a_device_cannot_be_invited(
    change: dict[str, Any], why: str | None, on_greenwich_time: None
) -> None:
    assert unfit(replace(FIT, **change), "p" * 64) == why


def test_a_device_whose_agent_cannot_add_noise_is_passed_over_and_only_where_it_is_wanted() -> None:
    assert unfit(FIT, "p" * 64) is None
    assert unfit(FIT, "p" * 64, ["noise"]) == "has an agent that is too old for noise: update it"
    assert unfit(replace(FIT, capabilities="more noise"), "p" * 64, ["noise"]) is None


def test_a_drawn_cohort_takes_each_device_by_the_same_chance() -> None:
    rows, generator = [device(f"dev-{i}", i) for i in range(8)], random.Random(7)
    drawn = [draw(rows, 0.25, generator) for _ in range(4000)]
    often = Counter(name for cohort in drawn for name in cohort)
    assert all(900 < often[f"dev-{i}"] < 1100 for i in range(8))
    assert {len(cohort) for cohort in drawn} >= {0, 1, 2, 3, 4}
    assert draw(rows, 1.0, generator) == [row.device for row in rows]
