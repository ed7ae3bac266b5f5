"""Times in JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import msgspec
import pytest

from auricle.process.times import Time, iso_time, time_zone, to_json

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
