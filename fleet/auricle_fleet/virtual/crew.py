"""What the devices of a round are asked, and who asks them: threads, processes or a cluster.

A device's round is a pure function of the model, of its clips and of what it has learnt, so that it makes no difference
to the weights where it is computed.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Protocol, TypeVar

import msgspec

from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle.wire.messages import Invite
from auricle.wire.plan import InferenceLoss
from auricle.wire.tensors import Flat, digest, encode
from auricle_fleet.population.behaviour import FleetDevices
from auricle_fleet.population.data import FleetData
from auricle_fleet.population.fleet_clips import FleetClips
from auricle_fleet.population.judging import FleetJudging
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.virtual.client import Answer, Client
from auricle_learning.training.mechanism import NOTHING_LENT, LentData
from auricle_learning.training.train import LocalState

A = TypeVar("A")
LOOK = 0.1
"""Seconds between two looks whether the run ends."""
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
    kind: InferenceLoss
    trained: Mapping[str, int]
    """The last round that each trained in; 0: none yet."""
    is_common = False

    def of(self, names: Sequence[str]) -> Question:
        """As of `Task`."""
        return replace(self, trained={name: self.trained[name] for name in names})

    def ask(self, client: Client, asked: Asked, stopped: Callable[[], bool]) -> tuple[float, int]:
        """As of `Task`."""
        return client.loss(self.weights, self.kind, self.trained[asked.name])


@dataclass(frozen=True, eq=False)
class Call:
    """Devices are asked to train."""

    invite: Invite
    weights: Flat
    """(P,) the round's model."""
    own: Mapping[str, Flat] = field(default_factory=dict)
    """Models that devices begin with of their own."""
    beside: LentData = NOTHING_LENT

    @property
    def is_common(self) -> bool:
        """As of `Task`."""
        return not self.own

    @cached_property
    def _common_model(self) -> Flat:
        """The round's model as nobody can change it, so that a runtime puts it in its place once for all devices."""
        weights: Flat = self.weights.copy()
        weights.flags.writeable = False
        return weights

    def of(self, names: Sequence[str]) -> Call:
        """As of `Task`."""
        return replace(self, own={name: self.own[name] for name in names if name in self.own})

    def ask(self, client: Client, asked: Asked, stopped: Callable[[], bool]) -> Answer:
        """As of `Task`."""
        own, invite = self.own.get(asked.name), self.invite
        if own is None:
            return client.take_part(invite, self._common_model, asked.local, stopped, self.beside)
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
    """What a process needs to train the devices of a run."""

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


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
