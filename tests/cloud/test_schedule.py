"""When rounds start automatically, on clocks of several places."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo, available_timezones

import pytest

from auricle_cloud.rounds.upkeep import due
from auricle_cloud.storage.access_rows import ScheduleRow

BERLIN = "Europe/Berlin"


@pytest.fixture(params=["UTC", BERLIN, "Asia/Kolkata", "America/St_Johns"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    yield from _clock_of(request.param, monkeypatch)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    yield from _clock_of(BERLIN, monkeypatch)


def _clock_of(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if name not in available_timezones():
        pytest.skip("this machine knows no time zones")
    with monkeypatch.context() as environment:
        environment.setenv("TZ", name)
        time.tzset()
        yield name
    time.tzset()


def at(zone: str, *moment: int, fold: int = 0) -> float:
    return datetime(*moment, fold=fold, tzinfo=ZoneInfo(zone)).timestamp()  # type: ignore[arg-type, misc]


def row(at: str = "02:30", idle: int = 5, last: float = 0.0, name: str = "x") -> ScheduleRow:
    return ScheduleRow(name=name, task="t", at=at, idle=idle, rounds=1, last=last)


def test_a_time_of_day_is_due_once_it_has_passed_and_once_a_day(zone: str) -> None:
    set_at = at(zone, 2026, 11, 20, 12, 0)
    night = at(zone, 2026, 11, 21, 2, 30)
    schedule = row(last=set_at)

    said = [bool(due([schedule], now, 5)) for now in (set_at, night - 1, night, night + 3600)]
    ran = row(last=night + 10)
    after = [bool(due([ran], now, 5)) for now in (night + 11, night + 86399, at(zone, 2026, 11, 22, 2, 30))]

    assert said == [False, False, True, True]
    assert after == [False, False, True]


def test_it_stays_due_until_enough_devices_are_idle(zone: str) -> None:
    schedule = row(idle=5, last=at(zone, 2026, 11, 20, 12, 0))
    noon = at(zone, 2026, 11, 21, 12, 0)

    assert [bool(due([schedule], noon, idle)) for idle in (0, 4, 5, 50)] == [False, False, True, True]


def test_the_day_before_the_first_of_a_month_and_of_a_year(zone: str) -> None:
    for first in ((2027, 1, 1), (2028, 3, 1), (2026, 12, 1)):
        now = at(zone, *first, 1, 0)
        midnight = at(zone, *first, 0, 0)

        assert due([row("02:30", last=midnight - 86400)], now, 5) != []  # yesterday's 02:30 came after that
        assert due([row("02:30", last=midnight - 1)], now, 5) == []


def test_days_of_23_and_25_hours_have_one_night_each(berlin: str) -> None:
    for month, day, first_run in ((3, 29, "03:30"), (10, 25, "02:30")):
        now = at(berlin, 2026, month, day - 1, 12, 0)
        schedule, runs = row("02:30", last=now), []
        for _ in range(2 * 24 * 6):
            now += 600
            if due([schedule], now, 5):
                runs.append(datetime.fromtimestamp(now, ZoneInfo(berlin)).strftime("%d %H:%M"))
                schedule = row("02:30", last=now)

        assert runs == [f"{day} {first_run}", f"{day + 1} 02:30"]


def test_always_is_due_as_soon_as_devices_are_idle(zone: str) -> None:
    now = at(zone, 2026, 11, 21, 12, 0)

    assert due([row("always", idle=1, last=now - 1)], now, 1) != []
    assert due([row("always", idle=2, last=now - 1)], now, 1) == []
    assert due([row("always", idle=1, last=now)], now, 1) == []


def test_those_that_are_due_come_in_their_order(zone: str) -> None:
    now = at(zone, 2026, 11, 21, 12, 0)
    rows = [row("always", name="b"), row("11:59", name="a"), row("12:01", last=now - 9000, name="c")]

    assert [found.name for found in due(rows, now, 5)] == ["b", "a"]
    assert due([], now, 5) == []
