"""Who keeps the online roles of the update metadata fresh."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from auricle.errors import AuricleError
from auricle_cloud.states.rollout import Released
from auricle_cloud.storage.release_folder import FOLDER, exists
from auricle_cloud.storage.store import Store

log = logging.getLogger("auricle.cloud.releases")

EVERY_SECONDS = 600.0
"""Seconds between looks."""


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
        self._looked = -EVERY_SECONDS
        self._said: set[str] = set()

    def look(self) -> None:
        """Renew what is due; what fails, or is near its end, is logged once."""
        if time.monotonic() - self._looked < EVERY_SECONDS or not exists(self._folder):
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
