"""Whether a coordinator can work: checks that each say in one sentence what fails, asked at most so often."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from auricle.errors import AuricleError
from auricle.files import write_durably
from auricle_cloud.releases.folder import exists
from auricle_cloud.storage.listings import Listings
from auricle_cloud.storage.store import Store

log = logging.getLogger("auricle.cloud.api")

Check = Callable[[], str | None]
"""None when all is well; else one sentence. May take a while: it is called in a thread."""


def database_answers(store: Store) -> Check:
    """Check that the database can be read."""
    return lambda: _failure(lambda: Listings(store.database).epoch())


def folder_takes(folder: Path) -> Check:
    """Check that the state folder's disk takes a file durably."""
    return lambda: _failure(lambda: write_durably(folder / "health", b"ok\n"))


def metadata_lives(folder: Path) -> Check:
    """Check that devices believe the update metadata, where there is any."""

    def look() -> str | None:
        if not exists(folder):
            return None
        from auricle_cloud.releases.repository import Repository

        now = datetime.now(timezone.utc)
        try:
            gone = [expiry.sentence(now) for expiry in Repository(folder).expiries() if expiry.expires <= now]
        except AuricleError as error:
            return str(error)
        return " ".join(gone) or None

    return look


def _failure(attempt: Callable[[], object]) -> str | None:
    try:
        attempt()
    except AuricleError as error:
        return str(error)
    return None


InThread = Callable[..., Awaitable[Any]]
"""Calls a function with arguments in a thread."""


class Health:
    """Checks whose answers are kept for a while: anybody may ask for them.

    Parameters
    ----------
    checks
        By name.
    in_thread
        Calls them.
    seconds
        How long an answer is kept.
    """

    def __init__(self, checks: Mapping[str, Check], in_thread: InThread, seconds: float = 2.0) -> None:
        self._checks, self._in_thread, self._seconds = checks, in_thread, seconds
        self._lock = asyncio.Lock()
        self._asked = -1e9
        self._found: dict[str, str | None] = {}

    async def failing(self) -> dict[str, str | None]:
        """What each check says."""
        async with self._lock:
            if time.monotonic() - self._asked > self._seconds:
                names = list(self._checks)
                found = await asyncio.gather(*(self._in_thread(self._checks[name]) for name in names))
                for name, sentence in zip(names, found, strict=True):
                    if sentence is not None and self._found.get(name) != sentence:
                        log.warning("health check %s: %s", name, sentence)
                self._found, self._asked = dict(zip(names, found, strict=True)), time.monotonic()
            return self._found
