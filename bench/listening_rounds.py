"""A fleet of devices with owners: days and rounds in turn, over a real broker, by a real coordinator."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from auricle.mqtt_link.link import BrokerAddress
from auricle.packs.first_weights import first_weights
from auricle.packs.pack import Pack
from auricle.wire.tensors import Flat
from auricle_cloud.rounds.coordinator import NAME, Coordinator
from auricle_cloud.settings import RoundDone, RunSettings
from auricle_edge.listening.detect import detect_settings
from auricle_edge.runtimes import choose_runtime
from auricle_edge.training.judge.sound import Judging, load_negatives
from auricle_fleet.broker.broker import start_broker
from auricle_fleet.results.record import refusals
from auricle_learning.presets import Preset, get_preset
from bench.listening_device import ALWAYS, FLEET, Device, Lived, State
from bench.listening_owners import Owner
from bench.listening_result import Cost
from bench.listening_sound import Days

DEADLINE, PATIENCE = 1e5, 20.0
"""Seconds of a round, and how many times as long as most devices took it waits for the last ones: a slow machine loses
no device."""


@dataclass(frozen=True)
class Life:
    """How devices live and learn."""

    days: int = 3
    """On which a device hears its owner: the first before the rounds, the others between them."""
    rounds: int = 30
    """In all."""
    answers: float = 1.0
    """Share of what the owners could answer that they do."""
    streams: bool = True
    """Whether rounds are judged on streams too: on the pack's negatives and the devices' own."""
    judge_minutes: float = 15.0
    """Of the pack's negatives that a round is judged on, at most."""
    preset: str = "practical"
    """Of the coordinator."""
    server_rate: float | None = None
    """Learning rate of the preset's server optimizer; None: its own."""
    local: str | None = None
    """Name of the devices' own model; None: the pack's larger one."""
    carried: float = 0.5
    """Weight of the pack's negatives in what a device trains on."""
    seed: int = 0
    threads: int = 1
    """That train and hear, at most one device each."""

    def training(self) -> Preset:
        """The preset as a coordinator takes it from trained weights, or with the server's rate that was named."""
        return get_preset(self.preset).fitted(trained=True, server_rate=self.server_rate)

    def day_after(self) -> dict[int, int]:
        """The day, counted from 0, that follows a round."""
        return {self.rounds * day // self.days: day for day in range(1, self.days)}


@dataclass(frozen=True, eq=False)
class Round:
    """What became of a round."""

    number: int
    state: str
    seconds: float
    invited: int
    counted: int
    refused: int
    """Devices whose judge found that it had made them worse."""
    plugin: Flat
    """(P,) that was published after it."""


@dataclass(frozen=True, eq=False)
class Lives:
    """What became of a fleet."""

    states: list[list[State]] = field(default_factory=list)
    """Of each device at the start of each day, and last at the end."""
    lived: list[list[Lived]] = field(default_factory=list)
    """What each device heard, by day."""
    rounds: list[Round] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)


@dataclass
class Clock:
    """Wall-clock and CPU seconds of this process, by phase; a phase may come again."""

    wall: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    load: float = field(default_factory=lambda: os.getloadavg()[0])

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure what is inside, but for phases inside it."""
        wall, cpu = time.monotonic(), time.process_time()
        inner_wall, inner_cpu = sum(self.wall.values()), sum(self.cpu.values())
        yield
        inside_wall, inside_cpu = sum(self.wall.values()) - inner_wall, sum(self.cpu.values()) - inner_cpu
        self.wall[name] = self.wall.get(name, 0.0) + time.monotonic() - wall - inside_wall
        self.cpu[name] = self.cpu.get(name, 0.0) + time.process_time() - cpu - inside_cpu

    def cost(self) -> Cost:
        """What was measured."""
        return Cost(self.wall, self.cpu, self.load, os.getloadavg()[0])


class Together:
    """Owners who live with a device each, and devices that train together.

    Parameters
    ----------
    pack
        Of the devices.
    folder
        Where they and the coordinator keep what they keep.
    say
        Told after each day and each round.
    clock
        Measures the days; what calls `run` measures the rest.
    """

    def __init__(
        self,
        pack: Pack,
        owners: Sequence[Owner],
        days: Days,
        life: Life,
        folder: Path,
        say: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._pack, self._owners, self._days, self._life = pack, owners, days, life
        self._folder, self._say, self._clock = folder, say, clock
        detect, runtime = detect_settings(ALWAYS, pack), choose_runtime("auto", pack).runtime
        judging = Judging(detect, load_negatives(pack, detect, life.judge_minutes)) if life.streams else None
        self._devices = [
            Device(
                f"device-{i}",
                folder / f"device-{i}",
                pack,
                runtime,
                life.seed * 1000 + i,
                life.answers,
                judging,
                life.local,
                life.carried,
            )
            for i in range(len(owners))
        ]
        self._draws = [np.random.default_rng([life.seed, 1, i]) for i in range(len(owners))]
        self._lives = Lives()

    async def run(self) -> Lives:
        """The first day, then the rounds with the other days between them."""
        devices, lives = self._devices, self._lives
        with ThreadPoolExecutor(self._life.threads, "device") as workers:
            await self._live(0, workers)
            await self._train(workers)
        lives.states.append([device.state for device in devices])
        lives.answers.update(sum((device.answers for device in devices), Counter[str]()))
        return lives

    async def _live(self, day: int, workers: ThreadPoolExecutor) -> None:
        devices, lives, loop = self._devices, self._lives, asyncio.get_running_loop()
        lives.states.append([device.state for device in devices])
        with self._clock.phase("days"):
            made = [
                loop.run_in_executor(workers, device.live, owner, self._days, day, rng)
                for device, owner, rng in zip(devices, self._owners, self._draws, strict=True)
            ]
            for number, lived in enumerate(asyncio.as_completed(made)):
                await lived
                self._say(f"day {day + 1}: {number + 1} of {len(devices)} devices")
        lives.lived.append([device.days[-1] for device in devices])
        self._say(f"day {day + 1}: {in_words(lives.lived[-1])}")

    async def _train(self, workers: ThreadPoolExecutor) -> None:
        devices, days = self._devices, self._life.day_after()

        async def watch(done: RoundDone) -> None:
            self._note(done)
            if done.number in days:
                await self._live(days[done.number], workers)

        users = {name: secrets.token_urlsafe(16) for name in (NAME, *(device.name for device in devices))}
        async with await start_broker(self._folder / "broker", users, fleet=FLEET, port=0) as broker:
            coordinator = Coordinator(self._settings(broker.address(NAME)), self._pack, watch)
            key = coordinator.identity.public
            agents = [device.agent(broker.address(device.name), key, workers) for device in devices]
            tasks = [asyncio.create_task(agent.run()) for agent in agents]
            try:
                await coordinator.run()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _settings(self, broker: BrokerAddress) -> RunSettings:
        pack, life = self._pack, self._life
        return RunSettings(
            fleet=FLEET,
            broker=broker,
            folder=self._folder / "coordinator",
            rounds=life.rounds,
            preset=life.training(),
            devices=len(self._devices),
            deadline=DEADLINE,
            patience=PATIENCE,
            seed=life.seed,
            start=first_weights(pack, pack.manifest.plugin, 0),
        )

    def _note(self, done: RoundDone) -> None:
        refused = len(refusals(done.report.get("failed", {})))
        self._lives.rounds.append(
            Round(done.number, done.state, done.seconds, done.invited, done.counted, refused, done.model)
        )
        self._say(
            f"round {done.number} of {done.rounds}: {done.counted} of {done.invited} counted, {refused} refused, "
            f"{done.seconds:.1f} s"
        )


def in_words(lived: Sequence[Lived]) -> str:
    """What all devices heard on a day."""
    hours = sum(each.hours for each in lived)
    accepts = sum(each.false_accepts for each in lived)
    heard, said = (sum(getattr(each, what) for each in lived) for what in ("hits", "words"))
    return f"{heard} of {said} words heard, {accepts} false accepts in {hours:.2f} h"
