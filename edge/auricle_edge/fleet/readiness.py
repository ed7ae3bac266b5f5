"""Whether a device can take part now: its gate, its clips as they are now, and room on its disk."""

from __future__ import annotations

import asyncio
import shutil
from concurrent.futures import Executor
from pathlib import Path

from auricle.errors import StorageError
from auricle.files import describe
from auricle_edge.fleet.gate_watch import Declined, GateWatch
from auricle_edge.training.speech_data import DataSource
from auricle_edge.training.train import Trainer

ROOM = 1 << 16
"""Bytes on disk beside a round's models: headers, folders, and what a file system rounds up."""


class Readiness:
    """Asks before each round and each measurement.

    Parameters
    ----------
    gate
        The device's gate.
    trainer, source
        What has the clips, and where newer ones come from; None: they never change.
    executor
        The training thread.
    """

    def __init__(self, gate: GateWatch, trainer: Trainer, source: DataSource | None, executor: Executor) -> None:
        self._gate, self._trainer, self._source, self._executor = gate, trainer, source, executor
        self._generation: int | None = None

    async def require_gate(self) -> None:
        """Look at the gate; Declined when it is not open.

        Somebody who speaks is no reason to decline: the round pauses for them.
        """
        await self._gate.look()
        if self._gate.told.gate != "train":
            raise Declined(self._gate.told.reason)

    def require_clips(self) -> None:
        """Declined when there are too few labelled clips."""
        have, least = len(self._trainer.data.train), self._trainer.settings.clips
        if have < least:
            raise Declined(f"It has {have} labelled clips to train on and needs {least}.")

    async def renew(self) -> bool:
        """Read the clips again in the training thread if they changed; whether their number did."""
        if self._source is None or (generation := self._source.generation()) == self._generation:
            return False
        before, loop = len(self._trainer.data.train), asyncio.get_running_loop()
        data = await loop.run_in_executor(self._executor, self._source.read)
        await loop.run_in_executor(self._executor, self._trainer.renew, data)
        self._generation = generation
        return len(data.train) != before


def require_room(folder: Path, needed: int) -> None:
    """Refuse to train what could not be kept: StorageError unless the disk has so many bytes and a little more."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise StorageError(describe(error, folder)) from error
    if free < needed + ROOM:
        raise StorageError(f"The disk that holds {folder} is full: a round needs {needed + ROOM} bytes.")
