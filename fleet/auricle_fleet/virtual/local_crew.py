"""Who trains the devices of a round on this machine: threads of the run's own process, or processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any

from auricle.errors import AuricleError
from auricle_cloud.rounds.policy import updates_wanted
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.virtual.crew import LOOK, A, Asked, Clients, Crew, Site, Task, cores
from auricle_fleet.virtual.ray_crew import RayCrew
from auricle_learning.training.train import TrainingStopped

WORTH = 400
"""Rounds of devices from which on a run has processes: each takes some seconds to begin."""
TASKS = 4
"""Parts of a round for each thread or process: the last ones to end do not keep the others waiting for long."""


def crew_of(
    site: Site, clients: Callable[[], Clients], stopped: Callable[[], bool], say: Callable[[str], None]
) -> Crew:
    """Who trains the devices of a run: a cluster that is named, or processes where they are worth their beginning.

    Parameters
    ----------
    site
        Of the run.
    clients
        Makes its devices for threads of this process.
    stopped
        Whether the run ends.
    say
        Told in a sentence where devices train.

    Raises
    ------
    AuricleError
        There is no such cluster.
    """
    settings, devices = site.settings, len(site.data.devices)
    processes = processes_of(settings, devices)
    here = f"in {processes} processes" if processes > 1 else "in this process"
    where = here if settings.ray is None else "on Ray"
    say(f"no broker: {devices:,} devices {where}, on a clock that only counts")
    if settings.ray is not None:
        return RayCrew(site, stopped, settings.ray, say)
    if processes > 1:
        return ProcessCrew(site, stopped, processes)
    return ThreadCrew(clients(), stopped, 1 if settings.processes else cores())


def processes_of(settings: FleetSettings, devices: int) -> int:
    """In how many processes a run's devices train: one a core where the run is worth their beginning."""
    invited = updates_wanted(devices, settings.participation)
    wanted = settings.processes or (cores() if settings.rounds * invited >= WORTH else 1)
    return min(wanted, devices)


def parts_of(asked: Sequence[Asked], workers: int) -> list[Sequence[Asked]]:
    """The devices of a round in the order in which so many threads or processes take them, several at once."""
    size = max(1, -(-len(asked) // (workers * TASKS)))
    return [asked[i : i + size] for i in range(0, len(asked), size)]


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
        self._clients, self._stopped, self._count = clients, stopped, threads
        self._workers = ThreadPoolExecutor(threads, "train")

    def answers(self, task: Task[A], asked: Sequence[Asked]) -> Iterator[A]:
        """As of `Crew`."""
        if self._count == 1:
            return self._answers(task, asked)
        parts = parts_of(asked, self._count)
        return chain.from_iterable(self._workers.map(lambda part: [*self._answers(task, part)], parts))

    def _answers(self, task: Task[A], asked: Sequence[Asked]) -> Iterator[A]:
        return (self._clients.answer(task, each, self._stopped) for each in asked)

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
        context = _Context()
        self._site, self._stopped, self._count = site.lent(), stopped, processes
        self._ends = context.Event()
        self._workers = ProcessPoolExecutor(processes, context, _begin, (self._site, self._ends))

    def answers(self, task: Task[A], asked: Sequence[Asked]) -> Iterator[A]:
        """As of `Crew`."""
        try:
            work = [
                self._workers.submit(_answers, task.of([each.name for each in part]), tuple(part))
                for part in parts_of(asked, self._count)
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


class _Process(SpawnProcess):
    """A process that does not import the program that begins it: a script needs no guard then."""

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Any:  # noqa: ANN401, N802
        program = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the child is born with it: Ctrl-C is ours
        try:
            return SpawnProcess._Popen(process_obj)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            sys.modules["__main__"] = program


class _Context(SpawnContext):
    Process = _Process


_of_process: list[tuple[Clients, Callable[[], bool]]] = []
"""What a process of a crew trains with."""


def _begin(site: Site, ends: object) -> None:
    """Make ready, in a process of a crew; Ctrl-C is for the run's own process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_run, daemon=True).start()
    is_set = getattr(ends, "is_set")  # noqa: B009
    _of_process[:] = [(Clients(site.opened()), is_set)]


def _end_with_the_run() -> None:
    """A run that is killed leaves no process behind."""
    run = multiprocessing.parent_process()
    if run is not None:
        run.join()
        os._exit(1)


def _answers(task: Task[A], asked: Sequence[Asked]) -> list[A]:
    clients, stopped = _of_process[0]
    return [clients.answer(task, each, stopped) for each in asked]
