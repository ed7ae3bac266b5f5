"""Whether a coordinator can work: checks that each say in one sentence what fails, asked at most so often."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from auricle.errors import AuricleError
from auricle.files import write_durably
from auricle_cloud.storage.blobs import BlobStore
from auricle_cloud.storage.release_folder import exists
from auricle_cloud.storage.store import Store

log = logging.getLogger("auricle.cloud.api")

Check = Callable[[], str | None]
"""None when all is well; else one sentence. May take a while: it is called in a thread."""


def database_answers(store: Store) -> Check:
    """Check that the database can be read."""
    return lambda: _failure(lambda: store.listings.epoch())


def folder_takes(folder: Path) -> Check:
    """Check that the state folder's disk takes a file durably."""
    return lambda: _failure(lambda: write_durably(folder / "health", b"ok\n"))


class BlobsTake:
    """Check that a blob can be kept and read again: tried at most every so often, in a thread of its own.

    An object store may take minutes to say that it is away; whoever asks is told after `patience` that it has not
    answered, and meanwhile nothing else is begun.

    Parameters
    ----------
    blobs
        Where models and updates lie.
    every
        Seconds an answer is good for.
    patience
        Seconds to wait for an answer.
    """

    def __init__(self, blobs: BlobStore, every: float = 10.0, patience: float = 2.0) -> None:
        self._blobs, self._every, self._patience = blobs, every, patience
        self._lock = threading.Lock()
        self._trying: threading.Thread | None = None
        self._tried = -1e9
        self._found: str | None = None

    def __call__(self) -> str | None:
        """None, or what fails."""
        with self._lock:
            if self._trying is None and time.monotonic() - self._tried > self._every:
                self._trying = threading.Thread(target=self._try, name="auricle-blobs", daemon=True)
                self._trying.start()
            trying = self._trying
        if trying is not None:
            trying.join(self._patience)
            if trying.is_alive():
                return "Models and updates cannot be kept: the object store does not answer."
        return self._found

    def _try(self) -> None:
        found: str | None = "Models and updates cannot be kept: see the log."
        try:
            found = _failure(lambda: _keep_once(self._blobs))
        finally:
            with self._lock:
                self._found, self._tried, self._trying = found, time.monotonic(), None


def _keep_once(blobs: BlobStore) -> None:
    """Keep bytes that nobody has kept before, so that they are written and not only found."""
    name = blobs.put(b"health " + os.urandom(16))
    blobs.get(name)
    blobs.remove(name)


def metadata_lives(folder: Path) -> Check:
    """Check that devices trust the update metadata, where there is any."""

    def look() -> str | None:
        if not exists(folder):
            return None
        from auricle_cloud.ota.repository import Repository

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
