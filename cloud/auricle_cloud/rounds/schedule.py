"""When rounds start by themselves."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from auricle_cloud.storage.access_rows import ScheduleRow


def due(schedules: Iterable[ScheduleRow], now: float, idle: int) -> list[ScheduleRow]:
    """Which schedules plan their rounds now.

    Parameters
    ----------
    schedules
        Rows: `at` is `HH:MM` in the local time of this machine, or `always`; `idle` devices must be ready; `last` is
        when it last planned, in seconds since 1970.
    now
        Seconds since 1970.
    idle
        Devices that are ready to train.

    Returns
    -------
    list
        In the given order. A time of day that has passed stays due until enough devices are ready, to the next one.
    """
    return [row for row in schedules if idle >= row.idle and row.last < _latest(row.at, now)]


def _latest(at: str, now: float) -> float:
    """The newest moment that is not after `now` at which a schedule is due."""
    if at == "always":
        return now
    hour, minute = (int(part) for part in at.split(":"))
    # A time that comes twice when clocks go back is the first of the two; time.mktime would say now this, now that.
    moment = datetime.fromtimestamp(now).replace(hour=hour, minute=minute, second=0, microsecond=0, fold=0)
    if moment.timestamp() > now:
        moment -= timedelta(days=1)
    return moment.timestamp()
