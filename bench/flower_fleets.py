"""A fleet of four devices with the buttons that the comparison pushes, whoever made it."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bench.flower_processes import Processes

DEVICES = 4
READY = 120.0
"""Seconds for a fleet to be there."""


@dataclass(frozen=True)
class Closed:
    """A round that is over."""

    at: float
    """Seconds since 1970."""
    counted: int
    goes_on: bool
    """Whether it was trained from the model of the round before it; of a first round, whether from a first model."""
    training: float = 0.0
    """Seconds the slowest device trained, where it is told."""


class Fleet(ABC):
    """Devices and what serves them.

    Parameters
    ----------
    folder
        Everything is kept in it.
    devices
        How many there are.
    """

    name: ClassVar[str]

    def __init__(self, folder: Path, devices: int = DEVICES) -> None:
        self.folder, self.devices = folder, devices
        folder.mkdir()
        self.processes = Processes(folder)

    @abstractmethod
    async def open(self) -> None:
        """Start everything and wait until all devices are there."""

    @abstractmethod
    async def start_device(self, number: int) -> None:
        """Start a device and wait until all are there."""

    @abstractmethod
    async def start_server(self) -> None:
        """Start what serves the devices, on the database that it has left."""

    @abstractmethod
    def server(self) -> list[int]:
        """Process ids of all that serves the devices."""

    @abstractmethod
    def main_server(self) -> list[int]:
        """Of these, the one that keeps the database."""

    @abstractmethod
    async def begin(self, rounds: int) -> None:
        """Ask for rounds; `closed` tells of these alone."""

    @abstractmethod
    def closed(self) -> list[Closed]:
        """Rounds that are over, in order."""

    @abstractmethod
    async def state(self) -> str:
        """The word the fleet has for the state of what was begun."""

    def device(self, number: int) -> list[int]:
        """Process ids of a device."""
        return self.processes.family(f"device-{number}")

    def kill_server(self, *, everything: bool) -> None:
        """SIGKILL to all that serves, or to the main process only."""
        self.processes.signal(signal.SIGKILL, self.server() if everything else self.main_server())

    async def close(self) -> None:
        """End all processes."""
        self.processes.end()
