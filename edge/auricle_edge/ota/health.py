"""Whether the device is well, for long enough; said in a file that root reads before it keeps a new version."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from auricle.errors import StorageError
from auricle.files import write_durably

log = logging.getLogger("auricle.edge")

FILE = "health.json"
VARIABLE = "RUNTIME_DIRECTORY"
"""Set by systemd to the service's folder under /run."""


class HealthRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`health.json`."""

    format: Literal[1] = 1
    identity: str
    """Of the bundle that this process runs from; empty: from none."""
    boot: str
    """Of this process."""
    healthy: bool
    since: float
    """`time.monotonic()` since when all is well, or since when it is not."""


class Health:
    """Counts for how long all has been well.

    Parameters
    ----------
    identity, boot
        Of the bundle, and of this process.
    seconds
        For so long all has to be well.
    environment
        Says where the file goes; nowhere without systemd.
    """

    def __init__(self, identity: str, boot: str, seconds: float, environment: Mapping[str, str] = os.environ) -> None:
        self._identity, self._boot, self._seconds = identity, boot, seconds
        folder = environment.get(VARIABLE, "").partition(":")[0]
        self._path = Path(folder) / FILE if folder else None
        self._since: float | None = None
        self.healthy = False

    def look(self, well: bool, now: float) -> bool:
        """Take in how it is now; whether the device is healthy.

        Parameters
        ----------
        well
            Whether all is well at this moment.
        now
            `time.monotonic()`.
        """
        if not well:
            self._since = None
        elif self._since is None:
            self._since = now
        healthy = self._since is not None and now - self._since >= self._seconds
        if healthy != self.healthy:
            self.healthy = healthy
            self.write(now if self._since is None else self._since)
        return healthy

    def write(self, since: float) -> None:
        """Write the file as it is to be now; also at the start, since the one of an earlier process may lie there."""
        if self._path is not None:
            record = HealthRecord(identity=self._identity, boot=self._boot, healthy=self.healthy, since=since)
            try:
                write_durably(self._path, msgspec.json.encode(record))
            except StorageError as error:  # whoever waits for it goes back to the version before
                log.warning("%s", error)
