"""How long each role of the update metadata is believed, and when it is time to do something."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

DAY = timedelta(days=1)
LIVES = {"root": 365 * DAY, "targets": 90 * DAY, "snapshot": 7 * DAY, "timestamp": DAY}
WARN = {"root": 30 * DAY, "targets": 14 * DAY, "snapshot": 2 * DAY, "timestamp": DAY / 4}
"""When it is near: the online roles are renewed at half of their lives, so that theirs means that nobody does."""
Offline = Literal["root", "targets"]
OFFLINE: tuple[Offline, ...] = ("root", "targets")


@dataclass(frozen=True)
class Expiry:
    """Until when a role's metadata is believed."""

    role: str
    expires: datetime

    def is_near(self, now: datetime) -> bool:
        """Whether somebody has to do something."""
        return self.expires - now < WARN[self.role]

    def sentence(self, now: datetime) -> str:
        """Until when, and what to do."""
        day = f"{self.expires:%Y-%m-%d %H:%M} UTC"
        if not self.is_near(now):
            return f"{self.role} is good until {day}."
        todo = (
            "run auricle cloud releases renew" if self.role in OFFLINE else "run auricle cloud serve, which renews it"
        )
        if self.expires <= now:
            return f"{self.role} expired on {day} and devices take no updates: {todo}."
        return f"{self.role} expires on {day}: {todo}."
