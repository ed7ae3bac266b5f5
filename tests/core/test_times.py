"""Times in JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import msgspec
import pytest

from auricle.process.times import Time, about, count_in, for_how_long, how_many, iso_time, time_zone, to_json

AT = 1_763_906_712.4


@pytest.fixture(autouse=True)
def kathmandu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A clock that is 5 h 45 min ahead."""
    monkeypatch.setenv("TZ", "XXX-05:45")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class Event(msgspec.Struct):
    """Has a time, perhaps another, and seconds."""

    at: Time
    last: Time | None
    seconds: float


class Events(msgspec.Struct):
    """A page."""

    events: list[Event]


def test_times_have_the_zone_of_this_machine() -> None:
    assert time_zone() == "UTC+05:45"
    assert iso_time(AT) == "2025-11-23T19:50:12+05:45"


def test_fields_that_are_times_are_iso_and_others_stay() -> None:
    page = Events([Event(AT, None, 1.5), Event(0, AT, AT)])
    assert json.loads(to_json(page))["events"] == [
        {"at": "2025-11-23T19:50:12+05:45", "last": None, "seconds": 1.5},
        {"at": "1970-01-01T05:45:00+05:45", "last": "2025-11-23T19:50:12+05:45", "seconds": AT},
    ]


def test_lengths_of_time_are_in_peoples_units() -> None:
    said = [for_how_long(seconds) for seconds in (3_650 * 86_400, 7 * 86_400, 86_400, 36 * 3_600, 5_400, 90, 0.2)]
    assert said == ["10 years", "7 days", "1 day", "36 hours", "90 minutes", "90 seconds", "0 seconds"]


def test_a_measured_time_is_said_about() -> None:
    said = [about(seconds) for seconds in (0, 41.4, 90, 5_399, 9_000, 9 * 86_400)]
    assert said == ["0 s", "41 s", "2 min", "90 min", "2.5 h", "9 days"]


def test_a_rate_is_said_where_an_hour_shows_it() -> None:
    assert [count_in(3, 240), count_in(3, 3_599)] == ["3 in 4 min", "3 in 60 min"]
    assert [count_in(3, 3_600), count_in(0, 18_000)] == ["3 in 60 min (3.0/h)", "0 in 5.0 h (0.0/h)"]
    assert [count_in(1, 8, "false accept"), count_in(1234, 60, "hit")] == [
        "1 false accept in 8 s",
        "1,234 hits in 60 s",
    ]


def test_counts_have_their_noun() -> None:
    assert [how_many(number, "round") for number in (0, 1, 1540)] == ["0 rounds", "1 round", "1,540 rounds"]
