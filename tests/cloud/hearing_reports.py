"""Reports of hearing, as devices send them, with a clock of the test's own."""

from __future__ import annotations

from typing import Any

from tests.cloud.arrivals import register

from auricle.wire.messages import HearingReport
from auricle_cloud.storage.store import Store

PACK = "c" * 64
NOW = 1_800_000_000.0
HOUR, DAY = 3600.0, 86_400.0


def report(device: str = "dev-a", period: int = 1, **changes: Any) -> HearingReport:
    """An hour in which a keyword was heard five times and denied once."""
    values = {"fleet": "f", "device": device, "boot": "b1", "period": period, "pack": PACK, "span": 4, "heard": 4}
    return HearingReport(**{**values, "detections": 5, "denied": 1, "missed": 0, **changes})


def enter(store: Store, at: float, message: HearingReport) -> str | None:
    """A report that comes at this time; why it is refused."""
    with store.database.writing() as tx:
        return store.hearing.enter(tx, message, at)


def approve(store: Store, *devices: str) -> None:
    """Registered devices that may take part."""
    for device in devices:
        store.devices.register(register(device), "approved")


def days_of(store: Store, device: str, days: float, until: float, first: int = 1, **said: Any) -> int:
    """A report an hour of so many days up to this time; the next period."""
    hours = round(days * 24)
    for hour in range(hours):
        assert enter(store, until - (hours - 1 - hour) * HOUR, report(device, first + hour, **said)) is None
    return first + hours
