"""What the owner has chosen in Home Assistant: which wake words begin a run, and how loud answers are."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from auricle.errors import StorageError
from auricle.files import read_kept, write_durably
from auricle.mqtt_link.tasks import start_task
from auricle.wire.kinds import UNDECODABLE

log = logging.getLogger("auricle.events")

FILE = "assist.json"
MOST_WORDS = 256


class Choices(msgspec.Struct, frozen=True):
    """All of it; what was never chosen is as the settings say."""

    off: Annotated[tuple[str, ...], Meta(max_length=MOST_WORDS)] = ()
    """Wake words that begin no run; others, such as a new pack's, do."""
    volume: Annotated[float, Meta(ge=0, le=1)] | None = None


class OwnerChoices:
    """Choices that are kept over a restart.

    Parameters
    ----------
    folder
        The device's state folder.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self.now = self._kept = self._read()
        self._task: asyncio.Task[None] | None = None

    def change(self, **fields: object) -> None:
        """Choose otherwise from now on; the file is written beside."""
        self.now = msgspec.structs.replace(self.now, **fields)
        if self._task is None or self._task.done():
            self._task = start_task(self._write(), log, "What was chosen in Home Assistant")

    async def close(self) -> None:
        """Wait until all is written."""
        if self._task is not None:
            await self._task

    async def _write(self) -> None:
        while self._kept != self.now:
            self._kept = self.now
            try:
                await asyncio.to_thread(write_durably, self._path, msgspec.json.encode(self._kept), mode=0o600)
            except StorageError as error:
                log.warning("What was chosen in Home Assistant is lost at the next start: %s", error)

    def _read(self) -> Choices:
        try:
            return msgspec.json.decode(read_kept(self._path), type=Choices)
        except FileNotFoundError:
            return Choices()
        except (OSError, *UNDECODABLE):
            log.warning("%s cannot be read: wake words and volume are as the settings say.", self._path)
            return Choices()
