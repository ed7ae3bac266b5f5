"""Times and counts for people and programs: times in JSON as ISO 8601 with their zone, counts with their noun."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Annotated, get_args

import msgspec

from auricle.errors import SettingsError

Time = Annotated[float, msgspec.Meta(description="Seconds since 1970, UTC.")]


def time_zone(at: float | None = None) -> str:
    """The zone of this machine's clock, now or at a time in seconds since 1970, e.g. `UTC+01:00`."""
    offset = time.strftime("%z", time.localtime(at))
    return f"UTC{offset[:3]}:{offset[3:]}"


def iso_time(at: float) -> str:
    """A time in seconds since 1970 by this machine's clock, e.g. `2026-11-23T14:05:12+01:00`."""
    return datetime.fromtimestamp(at, timezone.utc).astimezone().isoformat(timespec="seconds")


def latest_at(at: str, now: float) -> float:
    """The newest moment, not after `now` in seconds since 1970, at which this machine's clock showed `HH:MM`."""
    hour, minute = (int(part) for part in at.split(":"))
    # A time that comes twice when clocks go back is the first of the two; time.mktime would say now this, now that.
    moment = datetime.fromtimestamp(now).replace(hour=hour, minute=minute, second=0, microsecond=0, fold=0)
    if moment.timestamp() > now:
        moment -= timedelta(days=1)
    return moment.timestamp()


def how_many(number: int, noun: str) -> str:
    """A count with its noun, e.g. `1 round`, `1,540 clips`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def for_how_long(seconds: float) -> str:
    """A length of time in the largest unit that gives a whole number, e.g. `7 days`, `90 minutes`."""
    whole = round(seconds)
    for length, unit in ((365 * 86_400, "year"), (86_400, "day"), (3_600, "hour"), (60, "minute")):
        if whole and whole % length == 0:
            return how_many(whole // length, unit)
    return how_many(whole, "second")


def read_duration(text: str) -> float:
    """Seconds of `45s`, `30m`, `24h` or `7d`; SettingsError for anything else."""
    unit = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}.get(text[-1:])
    if unit is None or not text[:-1].isdecimal() or not text.isascii() or not 0 < len(text) <= 8:
        raise SettingsError(f'"{text}" is not a time: write for example 45s, 30m, 24h or 7d.')
    return int(text[:-1]) * unit


def about(seconds: float) -> str:
    """A length of time as people say it, e.g. `40 s`, `12 min`, `3.5 h`, `9 days`."""
    for largest, length, unit in ((90, 1, "s"), (5_400, 60, "min")):
        if round(seconds) < largest:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 3_600:.1f} h" if seconds < 48 * 3_600 else f"{seconds / 86_400:.0f} days"


def count_in(count: int, seconds: float, noun: str = "") -> str:
    """How often something came in so much time, e.g. `3 in 4 min`, or with a noun `3 false accepts in 4 min`.

    From an hour on the rate follows, e.g. `3 in 1.5 h (2.0/h)`: less time does not show one.
    """
    said = f"{how_many(count, noun) if noun else f'{count:,}'} in {about(seconds)}"
    return said if seconds < 3_600 else f"{said} ({count * 3_600 / seconds:.1f}/h)"


def to_json(answer: msgspec.Struct) -> str:
    """A struct as one line of JSON, the fields that are a `Time` in ISO 8601."""
    return msgspec.json.encode(_readable(answer)).decode()


def _readable(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        return {field.encode_name: _time_or(field.type, getattr(value, field.name)) for field in fields}
    if isinstance(value, list):
        return [_readable(item) for item in value]
    return value


def _time_or(kind: object, value: object) -> object:
    if isinstance(value, int | float) and (kind == Time or Time in get_args(kind)):
        return iso_time(value)
    return _readable(value)
