"""Who trains the devices of a round on a Ray cluster: an actor a core, on whatever machines there are.

Every actor has the run's clips from the object store, in memory that the actors of a machine share. What it is given
says all that a device's round depends on, so that what a lost node was to train others train again, to the same bits.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from auricle import __version__
from auricle.errors import AuricleError, SettingsError, extra_command
from auricle.process.clock import SYSTEM_CLOCK
from auricle_fleet.population.fleet_clips import FleetClips
from auricle_fleet.virtual.client import Answer
from auricle_fleet.virtual.crew import LOOK, A, Asked, Clients, Site, Task
from auricle_fleet.virtual.ray_driver import FAILED, RayDriver, require_there
from auricle_learning.training.train import LocalState, TrainingStopped

FIRST = 4
"""Tasks of each actor in the first round, when nobody knows how long a device takes."""
AHEAD = 2
"""Tasks that an actor has at once: it need not wait for the next one."""
TASK = 0.5
"""Seconds that a task takes at least, where a round has enough for it: what it costs to send it is little then."""


def require_ray() -> None:
    """SettingsError where Ray is not installed."""
    if find_spec("ray") is None:
        raise SettingsError(f"--ray needs Ray, which is not installed here: {extra_command('ray')}.")


class _Trainers:
    """What an actor is: the devices of a run in one process of the cluster."""

    def __init__(self, site: Site) -> None:
        self._clients = Clients(site)

    def version(self) -> str:
        return __version__

    def answers(self, task: Task[A], asked: Sequence[Asked]) -> tuple[list[A], float]:
        """What these devices answer, and the seconds that it took."""
        began = SYSTEM_CLOCK.monotonic()
        answers = [self._clients.answer(task, each, lambda: False) for each in asked]
        return answers, SYSTEM_CLOCK.monotonic() - began


class RayCrew:
    """Trains on a Ray cluster.

    Parameters
    ----------
    site
        What each actor begins with.
    stopped
        Whether the run ends.
    address
        Of the cluster, as Ray writes it, or `local`: one is begun here, and ended with the crew.
    say
        Told in a sentence where a node is lost.

    Raises
    ------
    AuricleError
        There is no cluster, or its nodes cannot train, for want of cores or of this version of Auricle.
    """

    def __init__(self, site: Site, stopped: Callable[[], bool], address: str, say: Callable[[str], None]) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        self._ray, self._stopped, self._say, self._seconds = ray, stopped, say, 0.0
        ray._private.worker._worker_logs_enabled = False  # what Ray has to say of its nodes is in its own logs
        try:
            require_there(address)
        except (OSError, OverflowError) as error:
            raise AuricleError(f"There is no Ray cluster at {address}: start one there, or say --ray local.") from error
        self._actors: list[Any] = []
        self._driver = RayDriver(address, stopped)
        try:
            with _in_a_sentence():
                self._site = ray.put(_whole(site))
                self._kind = ray.remote(num_cpus=1)(_Trainers)
                self._available: Callable[[], dict[str, float]] = ray.available_resources
                self._grow()
                self._require_version()
        except BaseException:
            self.close()
            raise

    def _require_version(self) -> None:
        """AuricleError where there is no core to train on, or a node has no Auricle or another one."""
        if not self._actors:
            raise AuricleError("The Ray cluster has no free core: add a node to it.")
        try:
            versions = set(self._ray.get([actor.version.remote() for actor in self._actors]))
        except self._ray.exceptions.RayError as error:
            raise AuricleError(
                f"A node of the Ray cluster cannot run Auricle: install auricle[ray] {__version__} on every node."
            ) from error
        if versions != {__version__}:
            raise AuricleError(f"The Ray cluster has Auricle {', '.join(sorted(versions))}, and this is {__version__}.")

    def _grow(self) -> None:
        """An actor for each processor of the cluster that has none."""

        def grow() -> None:
            for _ in range(int(self._available().get("CPU", 0))):
                self._actors.append(self._kind.remote(self._site))

        self._driver.head.watch(grow)

    def answers(self, task: Task[A], asked: Sequence[Asked]) -> Iterator[A]:
        """As of `Crew`."""
        with _in_a_sentence():
            yield from self._answers(task, asked)

    def _answers(self, task: Task[A], asked: Sequence[Asked]) -> Iterator[A]:
        self._grow()
        parts = deque(self._parts(asked))
        common = self._ray.put(task) if task.is_common else None
        done: dict[int, list[A]] = {}
        running: dict[Any, tuple[Any, int, list[Asked]]] = {}
        following, free = 0, self._actors * AHEAD
        while parts or running or following in done:
            while parts and free:
                first, part = parts.popleft()
                actor = free.pop()
                told = common or task.of([each.name for each in part])
                running[actor.answers.remote(told, part)] = actor, first, part
            for ready in self._ready(list(running)):
                actor, first, part = running.pop(ready)
                answers = self._result(ready)
                if answers is None:
                    self._say(f"a core of the Ray cluster was lost: others train its {len(part)} devices")
                    self._actors = [other for other in self._actors if other is not actor]
                    free = [other for other in free if other is not actor]
                    parts.appendleft((first, part))
                    if not self._actors:
                        raise AuricleError("All nodes of the Ray cluster are lost: start it again and use --resume.")
                else:
                    free.append(actor)
                    done[first] = answers
            while following in done:
                answers = done.pop(following)
                following += len(answers)
                yield from answers

    def _parts(self, asked: Sequence[Asked]) -> Iterator[tuple[int, list[Asked]]]:
        """Tasks of half a second or more, if that leaves one for each actor; as many for each of them."""
        actors = max(1, len(self._actors))
        each = int(len(asked) * self._seconds / TASK / actors) if self._seconds else FIRST
        tasks = actors * max(1, each)
        for i in range(tasks):
            first, end = i * len(asked) // tasks, (i + 1) * len(asked) // tasks
            if first < end:
                yield first, list(asked[first:end])

    def _ready(self, tasks: list[Any]) -> list[Any]:
        while True:
            ready, _ = self._ray.wait(tasks, timeout=LOOK)
            if ready:
                return list(ready)
            if self._stopped():
                raise TrainingStopped("The run ends.")
            self._driver.head.require(FAILED)

    def _result(self, task: Any) -> list[Any] | None:  # noqa: ANN401
        """What a task answers; None where its node was lost."""
        try:
            answers, seconds = self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            why = str(cause) if isinstance(cause, AuricleError) else f"Training on Ray failed: {type(cause).__name__}."
            raise AuricleError(why) from error
        except self._ray.exceptions.RayError:
            return None
        self._seconds = seconds / len(answers)
        return [_own(answer) for answer in answers]

    def close(self) -> None:
        """Leave the cluster; what it still trains is called off."""
        with contextlib.suppress(Exception):  # a cluster that is gone calls nothing off
            for actor in self._actors if self._driver.head.is_there() else ():
                self._ray.kill(actor)
        self._driver.close()


@contextlib.contextmanager
def _in_a_sentence() -> Iterator[None]:
    """AuricleError in place of whatever Ray raises where its cluster fails."""
    try:
        yield
    except (AuricleError, TrainingStopped):
        raise
    except Exception as error:  # any: Ray raises its own, Python's, and those of its parts
        raise AuricleError(FAILED) from error


def _whole(site: Site) -> Site:
    """With the clips in an array, as the object store takes it."""
    clips = site.data.devices
    if not isinstance(clips, FleetClips):
        return site
    return replace(site, data=replace(site.data, devices=replace(clips, rows=np.asarray(clips.rows))))


def _own(answer: A) -> A:
    """With a state of its own: what lies in the object store would keep the whole task there."""
    if not isinstance(answer, Answer) or answer.local is None:
        return answer
    local = answer.local
    slots, variates = ({name: each.copy() for name, each in of.items()} for of in (local.slots, local.variates))
    return replace(answer, local=LocalState(local.weights.copy(), slots, local.steps, variates))
