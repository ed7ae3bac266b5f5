"""How long each role of the update metadata is believed, and who keeps the online roles fresh.

Nothing of TUF is imported at the start: commands that only name a role load quickly.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from auricle.errors import AuricleError
from auricle_cloud.states.rollout import Released
from auricle_cloud.storage.release_folder import FOLDER, exists
from auricle_cloud.storage.store import Store

DAY = timedelta(days=1)
LIVES = {"root": 365 * DAY, "targets": 90 * DAY, "snapshot": 7 * DAY, "timestamp": DAY}
WARN = {"root": 30 * DAY, "targets": 14 * DAY, "snapshot": 2 * DAY, "timestamp": DAY / 4}
"""When it is near: the online roles are renewed at half of their lives, so that theirs means that nobody does."""
Offline = Literal["root", "targets"]
OFFLINE: tuple[Offline, ...] = ("root", "targets")
log = logging.getLogger("auricle.cloud.releases")

EVERY = 600.0
"""Seconds between looks."""


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


class Renewal:
    """Renews snapshot and timestamp, and keeps the database's mirror of the releases.

    Parameters
    ----------
    state
        The coordinator's folder; nothing is done while it holds no releases.
    store
        Where they are mirrored.
    """

    def __init__(self, state: Path, store: Store) -> None:
        self._folder, self._store = state / FOLDER, store
        self._looked = -EVERY
        self._said: set[str] = set()

    def look(self) -> None:
        """Renew what is due; what fails, or is near its end, is logged once."""
        if time.monotonic() - self._looked < EVERY or not exists(self._folder):
            return
        self._looked = time.monotonic()
        try:
            releases, found = self._renew()
        except AuricleError as error:
            releases, found = None, {str(error)}
        for sentence in found - self._said:
            log.error("updates: %s", sentence)
        self._said = found
        if releases is not None:
            self._store.releases.mirror(releases, who="serve")

    def _renew(self) -> tuple[list[Released], set[str]]:
        # Only here, for most coordinators have no releases, and TUF takes its time to import.
        from auricle_cloud.ota.repository import Repository

        repository = Repository(self._folder)
        for role in repository.renew_online():
            log.info("updates: %s renewed", role)
        return repository.releases(), set(repository.near_expiry())
