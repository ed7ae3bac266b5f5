"""Who is invited."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from auricle_cloud.states.selection import choose, draw, unfit
from auricle_cloud.storage.rows import DeviceRow

NOTHING = {**dict.fromkeys(("reason", "label", "gate_reason", "capabilities"), "")}
NONE_YET = {**dict.fromkeys(("selected", "harmful_count", "sensitivity"), 0), "sensitivity_now": None}
KNOWN = {"device": "dev-a", "public_key": b"k" * 32, "boot": "boot-1", "agent": "1", "architecture": "crnn-lite"}
SEEN = {"online": True, "first_seen": 1.0, "last_seen": 2.0, "offline_since": None, "standing": "approved"}
FIT = DeviceRow(**KNOWN, **SEEN, **NOTHING, **NONE_YET, pack="p" * 64, samples=5, gate="train")  # type: ignore[arg-type]


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
    ("change", "needs", "noun"),
    [
        ({}, (), None),
        ({"standing": "pending"}, (), "approval"),
        ({"standing": "quarantined", "reason": "noise"}, (), "quarantined: noise"),
        ({"pack": "q" * 64}, (), "qqqqqqqqqqqq, .* pppppppppppp"),
        ({"online": False, "offline_since": 90.0}, (), "offline since 1970-01-01 00:01 UTC"),
        ({"online": False}, (), "not been heard .* 1970-01-01 00:00 UTC"),
        ({"gate": "wait", "gate_reason": "battery at 10 %"}, (), "battery at 10 %"),
        ({}, ["noise"], "too old for noise"),
        ({"capabilities": "more noise"}, ["noise"], None),
    ],
)
def test_it_says_why_a_device_cannot_be_invited(
    change: dict[str, Any], needs: list[str], noun: str | None, on_greenwich_time: None
) -> None:
    said = unfit(replace(FIT, **change), "p" * 64, needs)
    assert said is None if noun is None else re.search(noun, said or "")


def test_a_drawn_cohort_takes_each_device_by_the_same_chance() -> None:
    rows, generator = [device(f"dev-{i}", i) for i in range(8)], random.Random(7)
    drawn = [draw(rows, 0.25, generator) for _ in range(4000)]
    often = Counter(name for cohort in drawn for name in cohort)
    assert all(900 < often[f"dev-{i}"] < 1100 for i in range(8))
    assert {len(cohort) for cohort in drawn} >= {0, 1, 2, 3, 4}
    assert draw(rows, 1.0, generator) == [row.device for row in rows]
