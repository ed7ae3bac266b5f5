"""The sensitivity that the coordinator wants of a device: taken where the owner allows it, and kept over restarts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Protocol

import msgspec

from auricle.errors import StorageError
from auricle.files import read_kept, write_durably
from auricle.wire.kinds import UNDECODABLE, Sensitivity

log = logging.getLogger("auricle.edge")

FILE = "sensitivity.json"


class Tunable(Protocol):
    """What an agent needs of it."""

    @property
    def told(self) -> int | None:
        """The sensitivity in effect; None: none is taken from the coordinator."""

    async def tune(self, step: int) -> None:
        """Take what the coordinator wants."""


class Tuning:
    """The sensitivity of one device.

    Parameters
    ----------
    folder
        The state folder.
    accepted
        Whether the owner allows it to be changed from afar.
    """

    def __init__(self, folder: Path, *, accepted: bool) -> None:
        self._file, self.accepted = folder / FILE, accepted
        self.step = self._read() if accepted else 0
        """In effect, -2 to 2."""
        self.apply: Callable[[int], None] | None = None
        """Given a new step, changes what listens; in the executor."""
        self.executor: Executor | None = None

    @property
    def told(self) -> int | None:
        """The sensitivity in effect; None: none is taken from the coordinator."""
        return self.step if self.accepted else None

    async def tune(self, step: int) -> None:
        """Keep and apply what the coordinator wants, if the owner allows it.

        Raises
        ------
        StorageError
            It cannot be kept: nothing changes.
        """
        if not self.accepted:
            log.info("The coordinator wants sensitivity %+d; the settings refuse it.", step)
            return
        await asyncio.get_running_loop().run_in_executor(self.executor, self._take, step)

    def _take(self, step: int) -> None:
        write_durably(self._file, msgspec.json.encode(step))
        self.step = step
        if self.apply is not None:
            self.apply(step)
        log.info("Sensitivity %+d, as the coordinator wants.", step)

    def _read(self) -> int:
        try:
            return msgspec.json.decode(read_kept(self._file), type=Sensitivity)
        except FileNotFoundError:
            return 0
        except (OSError, *UNDECODABLE) as error:
            raise StorageError(f"{self._file} does not hold a sensitivity ({error}): delete it.") from error
