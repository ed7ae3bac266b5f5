"""The one thing that an agent does at a time: a round, a measurement, a delivery; and whether it can take part now."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from pathlib import Path

from auricle import __version__
from auricle.errors import AuricleError, SettingsError, StorageError
from auricle.files import describe
from auricle.mqtt_link.tasks import start_task
from auricle.wire.plan import Plan
from auricle_edge.fleet.agent_context import Declined
from auricle_edge.fleet.fleet_word import FleetWord
from auricle_edge.fleet.gate_watch import GateWatch
from auricle_learning.methods.vectors import withheld
from auricle_learning.training.learn_settings import OWN_SWITCH
from auricle_learning.training.speech_data import DataSource
from auricle_learning.training.train import Trainer, TrainingStopped

ROOM_BYTES = 1 << 16
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
        self._silenced = False

    async def require_gate(self) -> None:
        """Look at the gate; Declined when it is not open.

        Somebody who speaks is no reason to decline: the round pauses for them.
        """
        await self._gate.look()
        if self._gate.told.gate != "train":
            raise Declined(self._gate.told.reason)

    def require_willing(self, plan: Plan | None) -> None:
        """Declined when a plan asks for what this version or the owner does not give, or for more clips than there are.

        Labelled ones count, and others where a plan asks for FixMatch.
        """
        if plan is not None:
            self._require_method(plan)
        have, least = self._trainer.clips_of(plan), self._trainer.settings.clips
        if have.all < least:
            others = f" and {have.unlabelled} without a label" if have.unlabelled else ""
            raise Declined(f"It has {have.labelled} labelled clips{others} to train on and needs {least}.")

    def _require_method(self, plan: Plan) -> None:
        """Declined where this version lacks the plan's method, or the owner does not give away what it requires."""
        try:
            name = withheld(plan, self._trainer.settings.allowed)
        except SettingsError as error:
            raise Declined(
                f"The round asks for the method {plan.method}, which the agent {__version__} does not have or not with "
                f"these options: update it to {plan.since or 'the version of its coordinator'} or newer."
            ) from error
        if name is not None:
            allow = f"{name} = true" if name in OWN_SWITCH else f'vectors = ["{name}"]'
            raise Declined(f"The round asks for {name}, which may not leave the device: [learn] {allow} allows it.")

    async def renew(self) -> bool:
        """Read the clips again in the training thread if they changed; whether their number did."""
        if self._source is None:
            return False
        if (generation := self._source.generation()) == self._generation and not self._silenced:
            return False
        before, loop = len(self._trainer.data.train), asyncio.get_running_loop()
        data = await loop.run_in_executor(self._executor, self._source.read)
        await loop.run_in_executor(self._executor, self._trainer.renew, data)
        self._generation, self._silenced = generation, False  # not before: where it fails, it is read the next time
        return len(data.train) != before

    async def silence(self) -> None:
        """Keep of the clips only how many there are, where `renew` can read them again."""
        if self._source is not None and not self._silenced:
            self._silenced = True  # at once: what begins meanwhile reads them again, after this, in the same thread
            await asyncio.get_running_loop().run_in_executor(self._executor, self._silence)

    def _silence(self) -> None:
        """In the training thread."""
        self._trainer.renew(self._trainer.data.silenced())


def require_room(folder: Path, needed: int) -> None:
    """Refuse to train what could not be kept: StorageError unless the disk has so many bytes and a little more."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise StorageError(describe(error, folder)) from error
    if free < needed + ROOM_BYTES:
        raise StorageError(f"The disk that holds {folder} is full: a round needs {needed + ROOM_BYTES} bytes.")


log = logging.getLogger("auricle.edge")


class RoundWork:
    """Begins it, ends it, and says what stopped it.

    Parameters
    ----------
    device
        Who works.
    word
        Told, for people, why a round came to nothing.
    gate
        It has the control of the round that trains.
    enter
        Told `idle` where the work does not end by itself.
    """

    def __init__(self, device: str, word: FleetWord, gate: GateWatch, enter: Callable[[str], None]) -> None:
        self._device, self._word, self._gate, self._enter = device, word, gate, enter
        self._task: asyncio.Task[None] | None = None
        self.round = 0
        """The newest round that the device was invited to."""

    @property
    def busy(self) -> bool:
        """Whether something is under way."""
        return self._task is not None and not self._task.done()

    def begin(self, work: Coroutine[None, None, None]) -> None:
        """Do it."""
        self._task = start_task(self._guard(work), log, f"{self._device}: a round")

    def halt(self) -> None:
        """End what is under way."""
        if self._gate.control is not None:
            self._gate.control.stop()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self._enter("idle")

    async def _guard(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
            return
        except TrainingStopped:
            pass
        except Declined as reason:
            self._word.say(f"round {self.round} declined: {reason}")
            log.info("%s: declined: %s", self._device, reason)
        except AuricleError as error:
            self._word.say(f"round {self.round} failed: {error}")
            log.warning("%s: %s", self._device, error)
        self._enter("idle")
