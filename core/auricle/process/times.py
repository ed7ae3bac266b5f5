"""Times for people and programs: in JSON as ISO 8601 with their zone, and the zone of this machine's clock."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Annotated, get_args

import msgspec

Time = Annotated[float, msgspec.Meta(description="Seconds since 1970, UTC.")]


def time_zone(at: float | None = None) -> str:
    """The zone of this machine's clock, now or at a time in seconds since 1970, e.g. `UTC+01:00`."""
    offset = time.strftime("%z", time.localtime(at))
    return f"UTC{offset[:3]}:{offset[3:]}"


def iso_time(at: float) -> str:
    """A time in seconds since 1970 by this machine's clock, e.g. `2026-11-23T14:05:12+01:00`."""
    return datetime.fromtimestamp(at, timezone.utc).astimezone().isoformat(timespec="seconds")


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
