"""The federated part of a run: a broker, the coordinator and the devices' agents, which begin and end together."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, cast

from auricle.errors import AuricleError, SettingsError
from auricle.mqtt_link.settings import BrokerAddress
from auricle.process.open_files import raise_open_files
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_cloud.rounds.coordinator import NAME, Coordinator
from auricle_cloud.settings import RoundDone, RunSettings
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_fleet.broker.broker import Kind, connect_broker, require_startable, start_broker
from auricle_fleet.engine import Constants, constants_of, read_figures
from auricle_fleet.live.slow_link import slow_link
from auricle_fleet.population.behaviour import FleetDevices
from auricle_fleet.population.data import FleetData
from auricle_fleet.population.judging import FleetJudging
from auricle_fleet.population.machine import too_many_files
from auricle_fleet.population.start import Start
from auricle_fleet.settings.check import labelled_folder, learns_from_labelled
from auricle_fleet.settings.fleet_settings import BROKERS, FleetSettings

FLEET = "emulated"

Addresses = Callable[[str], BrokerAddress]
"""Where a name of the fleet finds the broker."""


class Federation:
    """Broker, coordinator and agents of one run.

    Parameters
    ----------
    settings, data, judging
        Of the run.
    state
        Folder for the state of coordinator, devices and broker.
    """

    constants: ClassVar[Constants] = constants_of(
        read_figures("live"),
        links=True,
        all_train=True,
        states_room_bytes=math.inf,
        states_kept=3,
        models_kept=RunSettings.keep_models,
    )
    lighter: ClassVar[str | None] = "virtual"

    @staticmethod
    def refusal(settings: FleetSettings) -> str | None:
        """What needs a clock that can be set, in a sentence; None where there is nothing of that."""
        traced = next((group.name for group in settings.groups if group.trace is not None), None)
        if traced is not None:
            return f'The group "{traced}" follows a trace, on a clock that only --engine virtual has.'
        if settings.processes or settings.ray is not None:
            return "--processes and --ray need --engine virtual: live devices train in the run's own process."
        if settings.round_every:
            return "--round-every needs --engine virtual: the live engine has no clock of its own."
        if settings.pictures:
            return "--pictures needs --engine virtual, which keeps what devices sent."
        if settings.step_seconds:
            return "--step-seconds needs --engine virtual: live devices take the time that they take."
        return None

    @staticmethod
    async def require(settings: FleetSettings) -> None:
        """See that the broker of a run could be started or is there, before any speech is made; errors as of those."""
        wanted = settings.broker
        if wanted is not None and wanted not in BROKERS:
            await connect_broker(wanted)
        else:
            require_startable(None if wanted is None else cast(Kind, wanted), settings.port)

    def __init__(self, settings: FleetSettings, data: FleetData, judging: FleetJudging, state: Path) -> None:
        self._settings, self._data, self._judging, self._state = settings, data, judging, state
        self._devices = FleetDevices(settings, data, judging)
        self.names, self.groups, self.models = self._devices.names, self._devices.groups, self._devices.models
        self.agents: list[Agent] = []
        self.coordinator: Coordinator | None = None

    @property
    def bytes_sent(self) -> int:
        """By all devices since this process began."""
        return sum(agent.link.counters.bytes_sent for agent in self.agents)

    @property
    def bytes_received(self) -> int:
        """By all devices since this process began."""
        return sum(agent.link.counters.bytes_received for agent in self.agents)

    async def run(
        self, start: Start, watch: Callable[[RoundDone], Awaitable[None]], say: Callable[[str], None]
    ) -> None:
        """Run all rounds.

        Parameters
        ----------
        start
            The first model.
        watch
            Called after every round, which waits for it.
        say
            Told which broker there is.

        Raises
        ------
        AuricleError
            The broker cannot be started or reached, an agent ended, a disk is full, or this process may not hold so
            many files and connections open.
        """
        has, devices = self.constants, len(self.names)
        needed = max(has.base_files + has.device_files * devices, has.broker_files + devices)
        crowded = too_many_files(needed, raise_open_files(), self.lighter)
        if crowded is not None:  # a run that goes on may have begun where it may hold more
            raise SettingsError(crowded)
        async with contextlib.AsyncExitStack() as stack:
            address = await self._broker(stack, say)
            workers = stack.enter_context(ThreadPoolExecutor(os.cpu_count() or 1, "train"))
            run = self._coordinator_settings(start, address(NAME))
            evaluator = self._judging.evaluator(self._data.pack) if self._settings.detect else None
            coordinator = self.coordinator = Coordinator(run, self._data.pack, watch, evaluator)
            coordinator.store.rounds.unplan(run.task, self._settings.rounds, who="fleet run")  # an earlier start's
            await self._make_agents(stack, address, coordinator.identity.public, workers)
            tasks = [asyncio.create_task(agent.run()) for agent in self.agents]
            stack.push_async_callback(_cancel_all, tasks)
            await _first_failure(coordinator.run(), tasks)

    def _coordinator_settings(self, start: Start, broker: BrokerAddress) -> RunSettings:
        return RunSettings(
            fleet=FLEET,
            broker=broker,
            folder=self._state / "coordinator",
            rounds=self._settings.rounds,
            preset=start.preset,
            participation=self._settings.participation,
            quorum=self._settings.quorum,
            deadline=self._settings.deadline,
            over_selection=self._settings.over_selection,
            mode="async" if self._settings.mode == "async" else "sync",
            buffer=self._settings.buffer,
            detection=self._settings.detection if self._settings.detect else None,
            labelled=self._labelled_clips(),
            limits=self._settings.limits,
            privacy=self._settings.privacy,
            secure_sum=self._settings.secure_sum,
            devices=len(self.names),
            seed=self._settings.seed,
            start=start.weights,
            durable=self._settings.durable,
        )

    def _labelled_clips(self) -> Path | ValidationSet | None:
        """Clips for a method that learns from them: a folder's, or those that the run keeps for the coordinator."""
        if self._settings.labelled is None or not learns_from_labelled(self._settings):
            return None
        named = labelled_folder(self._settings.labelled)
        return self._judging.labelled() if named is None else Path(named)

    async def _broker(self, stack: contextlib.AsyncExitStack, say: Callable[[str], None]) -> Addresses:
        wanted = self._settings.broker
        if wanted is not None and wanted not in BROKERS:
            shared = await connect_broker(wanted)
            return lambda _name: shared
        users = {name: secrets.token_urlsafe(16) for name in (NAME, *self.names)}
        kind: Kind | None = "mosquitto" if wanted == "mosquitto" else "amqtt" if wanted == "amqtt" else None
        broker = await stack.enter_async_context(
            await start_broker(self._state, users, fleet=FLEET, port=self._settings.port, kind=kind)
        )
        say(f"broker: {broker.kind} on 127.0.0.1:{broker.port}")
        return broker.address

    async def _make_agents(
        self, stack: contextlib.AsyncExitStack, address: Addresses, coordinator: bytes, workers: ThreadPoolExecutor
    ) -> None:
        for i, name in enumerate(self.names):
            broker, own = await self._link(stack, address(name), i, self._devices.seed(i)), workers
            group = self.groups[i]
            if group is not None and group.delay:  # who waits keeps no other device waiting
                own = stack.enter_context(ThreadPoolExecutor(1, f"train-{name}"))
            folder, durable = self._state / "devices" / name, self._settings.durable
            settings = AgentSettings(name, FLEET, broker, folder, coordinator, durable=durable)
            self.agents.append(Agent(settings, self._devices.trainer(i), own, judging=self._judging.judging))

    async def _link(
        self, stack: contextlib.AsyncExitStack, broker: BrokerAddress, device: int, seed: int
    ) -> BrokerAddress:
        """The way of a device to the broker, through its group's network."""
        group = self.groups[device]
        if group is None or group.network.is_perfect:
            return broker
        if broker.tls:
            raise SettingsError(
                f'The group "{group.name}" has a network of its own, which a broker over TLS cannot have.'
            )
        port = await stack.enter_async_context(slow_link(broker.host, broker.port, group.network, seed))
        return replace(broker, host="127.0.0.1", port=port)


async def _cancel_all(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _first_failure(main: Awaitable[None], others: list[asyncio.Task[None]]) -> None:
    """Wait for `main`; when one of the others fails before, raise its error."""
    work = asyncio.ensure_future(main)
    try:
        while not work.done():
            finished, _ = await asyncio.wait({work, *others}, return_when=asyncio.FIRST_COMPLETED)
            for task in finished - {work}:
                error = task.exception()
                if error is not None:
                    raise AuricleError(f"An agent stopped: {error}") from error
                others = [other for other in others if other is not task]
        work.result()
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)  # also where it failed together with another
