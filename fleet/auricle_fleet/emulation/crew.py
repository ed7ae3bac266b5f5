"""Who trains the devices of a round on this machine: threads of the run's own process, or processes of their own.

A device's round is a pure function of the model, of its clips and of what it has learnt, so that it makes no difference
to the weights where it is computed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Protocol, TypeVar

import msgspec

from auricle.errors import AuricleError
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle.wire.messages import Invite
from auricle.wire.tensors import Flat, digest, encode
from auricle_cloud.rounds.policy import updates_wanted
from auricle_fleet.emulation.behaviour import FleetDevices
from auricle_fleet.emulation.data import FleetData
from auricle_fleet.emulation.fleet_clips import FleetClips
from auricle_fleet.emulation.judging import FleetJudging
from auricle_fleet.emulation.virtual_client import NOTHING_BESIDE, Answer, Beside, Client
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_learning.training.train import LocalState, TrainingStopped

A = TypeVar("A")
WORTH = 400
"""Rounds of devices from which on a run has processes: each takes some seconds to begin."""
TASKS = 4
"""Parts of a round for each process: the last ones to end do not keep the others waiting for long."""
REMEMBERED = 256
"""Devices that a process has ready to train again."""


class Task(Protocol[A]):
    """What devices are asked, and how each of them answers."""

    @property
    def is_common(self) -> bool:
        """Whether all devices are told the same."""

    def of(self, names: Sequence[str]) -> Task[A]:
        """As it concerns these devices."""

    def ask(self, client: Client, asked: Asked, stopped: Callable[[], bool]) -> A:
        """What a device answers; TrainingStopped where `stopped` says that the run ends."""


@dataclass(frozen=True, eq=False)
class Question:
    """Devices are asked for the loss of a model, and of how many clips it is."""

    weights: Flat
    """(P,)"""
    trained: Mapping[str, int]
    """The last round that each trained in; 0: none yet."""
    is_common = False

    def of(self, names: Sequence[str]) -> Question:
        """As of `Task`."""
        return replace(self, trained={name: self.trained[name] for name in names})

    def ask(self, client: Client, asked: Asked, stopped: Callable[[], bool]) -> tuple[float, int]:
        """As of `Task`."""
        return client.loss(self.weights, self.trained[asked.name])


@dataclass(frozen=True, eq=False)
class Call:
    """Devices are asked to train."""

    invite: Invite
    weights: Flat
    """(P,) the round's model."""
    own: Mapping[str, Flat] = field(default_factory=dict)
    """Models that devices begin with of their own."""
    beside: Beside = NOTHING_BESIDE

    @property
    def is_common(self) -> bool:
        """As of `Task`."""
        return not self.own

    def of(self, names: Sequence[str]) -> Call:
        """As of `Task`."""
        return replace(self, own={name: self.own[name] for name in names if name in self.own})

    def ask(self, client: Client, asked: Asked, stopped: Callable[[], bool]) -> Answer:
        """As of `Task`."""
        own, invite = self.own.get(asked.name), self.invite
        if own is None:
            return client.take_part(invite, self.weights, asked.local, stopped, self.beside)
        invite = msgspec.structs.replace(invite, base=digest(encode(own)))
        return client.take_part(invite, own, asked.local, stopped, self.beside)


@dataclass(frozen=True, eq=False)
class Asked:
    """A device that is to train."""

    place: int
    name: str
    local: LocalState | None
    """What it has learnt; None: nothing yet."""


@dataclass(frozen=True, eq=False)
class Site:
    """What whoever trains a run's devices begins with."""

    settings: FleetSettings
    data: FleetData
    folder: Path
    """Where devices keep their best states."""

    def lent(self) -> Site:
        """For other processes of this machine."""
        clips = self.data.devices
        return replace(self, data=replace(self.data, devices=clips.lent())) if isinstance(clips, FleetClips) else self

    def opened(self) -> Site:
        """In another process of this machine."""
        clips = self.data.devices
        return replace(self, data=replace(self.data, devices=clips.opened())) if isinstance(clips, FleetClips) else self


class Clients:
    """The devices of a run in the process that trains them; each is made when it is first asked.

    Parameters
    ----------
    site
        Of the run.
    judging
        Of the run; without, it is made.
    clock
        Whom trainers ask for the time.
    """

    def __init__(self, site: Site, judging: FleetJudging | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._judging = FleetJudging(site.settings, site.data) if judging is None else judging
        self._devices = FleetDevices(site.settings, site.data, self._judging, clock)
        self._folder, self._lock = site.folder, Lock()
        self._ready: OrderedDict[int, Client] = OrderedDict()

    def answer(self, task: Task[A], asked: Asked, stopped: Callable[[], bool]) -> A:
        """What a device answers; TrainingStopped where `stopped` says that the run ends."""
        return task.ask(self._client(asked), asked, stopped)

    def _client(self, asked: Asked) -> Client:
        with self._lock:
            client = self._ready.get(asked.place)
            if client is None:
                judging = self._judging.judging if self._judging.learn.judge else None
                trainer = self._devices.trainer(asked.place, waits=False)
                client = Client(asked.name, trainer, judging, self._folder / asked.name)
                self._ready[asked.place] = client
                if len(self._ready) > REMEMBERED:
                    self._ready.popitem(last=False)
            else:
                self._ready.move_to_end(asked.place)
        return client


class Crew(Protocol):
    """Trains the devices of a round."""

    def answers(self, task: Task[A], asked: Sequence[Asked]) -> Iterator[A]:
        """What each of these devices answers, in their order.

        Raises
        ------
        TrainingStopped
            The run ends.
        AuricleError
            Who trains them was lost.
        """

    def close(self) -> None:
        """Give everything back."""


class ThreadCrew:
    """Trains in threads of this process.

    Parameters
    ----------
    clients
        Whom it trains.
    stopped
        Whether the run ends.
    threads
        How many at once.
    """

    def __init__(self, clients: Clients, stopped: Callable[[], bool], threads: int) -> None:
        self._clients, self._stopped = clients, stopped
        self._workers = ThreadPoolExecutor(threads, "train")

    def answers(self, task: Task[A], asked: Sequence[Asked]) -> Iterator[A]:
        """As of `Crew`."""
        return self._workers.map(lambda each: self._clients.answer(task, each, self._stopped), asked)

    def close(self) -> None:
        """Wait for its threads."""
        self._workers.shutdown()


class ProcessCrew:
    """Trains in processes, of which each has the devices' clips in the same memory.

    Parameters
    ----------
    site
        What each begins with.
    stopped
        Whether the run ends.
    processes
        How many.
    """

    def __init__(self, site: Site, stopped: Callable[[], bool], processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._site, self._stopped, self._count = site.lent(), stopped, processes
        self._ends = context.Event()
        self._workers = ProcessPoolExecutor(processes, context, _begin, (self._site, self._ends))

    def answers(self, task: Task[A], asked: Sequence[Asked]) -> Iterator[A]:
        """As of `Crew`."""
        size = max(1, -(-len(asked) // (self._count * TASKS)))
        parts = [asked[i : i + size] for i in range(0, len(asked), size)]
        try:
            work = [
                self._workers.submit(_answers, task.of([each.name for each in part]), tuple(part)) for part in parts
            ]
            for future in work:
                yield from self._result(future)
        except BrokenProcessPool as error:
            raise AuricleError(
                "A process that trains devices was ended from outside, perhaps for want of memory: go on with --resume."
            ) from error

    def _result(self, future: Future[list[A]]) -> list[A]:
        while True:
            if wait([future], LOOK).done:
                return future.result()
            if self._stopped():
                self._ends.set()
                raise TrainingStopped("The run ends.")

    def close(self) -> None:
        """End its processes, each after the batch that it is at."""
        self._ends.set()
        self._workers.shutdown(cancel_futures=True)


LOOK = 0.1
"""Seconds between two looks whether the run ends."""

_of_process: list[tuple[Clients, Callable[[], bool]]] = []
"""What a process of a crew trains with."""


def _begin(site: Site, ends: object) -> None:
    """Make ready, in a process of a crew; Ctrl-C is for the run's own process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    is_set = getattr(ends, "is_set")  # noqa: B009
    _of_process[:] = [(Clients(site.opened()), is_set)]


def _answers(task: Task[A], asked: Sequence[Asked]) -> list[A]:
    clients, stopped = _of_process[0]
    return [clients.answer(task, each, stopped) for each in asked]


def processes_of(settings: FleetSettings, devices: int) -> int:
    """In how many processes a run's devices train: one a core where the run is worth their beginning."""
    invited = updates_wanted(devices, settings.participation)
    wanted = settings.processes or (cores() if settings.rounds * invited >= WORTH else 1)
    return min(wanted, devices)


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
