"""A broker, real agents with toy clips, and coordinators one after the other, in the process of a test."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tests.cloud.arrivals import register

from auricle.mqtt_link.link import Delivery, LinkSettings, MqttLink
from auricle.wire.frames import Topics, seal
from auricle.wire.identity import Identity
from auricle.wire.plan import Plan
from auricle.wire.tensors import encode
from auricle_cloud.evaluation.evaluator import Evaluator
from auricle_cloud.rounds.coordinator import NAME, Coordinator
from auricle_cloud.rounds.read_cohort import cohort_of
from auricle_cloud.settings import RoundDone, RunSettings
from auricle_cloud.storage.rows import UpdateRow
from auricle_cloud.storage.store import Store
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_fleet.broker.broker import Broker, start_broker
from auricle_learning.aggregation.next_model import next_model
from auricle_learning.aggregation.server_optimizer import OptimizerSettings
from auricle_learning.methods import MethodSettings
from auricle_learning.presets import Preset
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import Trainer

FLEET, TASK = "f", "keywords"
TOPICS = Topics(FLEET)
DEVICES = ("dev-a", "dev-b", "dev-c", "dev-d")
USERS = {name: f"secret-of-{name}" for name in (NAME, "observer", *DEVICES)}
PLAN = Plan(rate=0.1, local_rate=0.1)
LPA = Preset(
    PLAN,
    MethodSettings("lpa", {"prune_low": 0.0, "prune_high": 0.34}),
    OptimizerSettings(kind="momentum", lr=0.5, beta1=0.5),
)
FEDAVG = Preset(PLAN, MethodSettings("fedavg"))


def trainer(runtime: StepRuntime, seed: int) -> Trainer:
    rng = np.random.default_rng(seed)
    task = runtime.pack.manifest.task
    energies = rng.random((3, task.frames, task.frontend.mels), dtype=np.float32)
    train = Clips(energies, rng.integers(0, len(runtime.pack.labels), 3))
    return Trainer(runtime, "crnn-lite", DeviceData(train, train.chosen(np.arange(1)), None), seed)


class Site:
    """A broker, agents that live as long as it does, and coordinators one after the other."""

    def __init__(self, broker: Broker, runtime: StepRuntime, folder: Path, workers: ThreadPoolExecutor) -> None:
        self.broker, self.runtime, self.pack, self.folder = broker, runtime, runtime.pack, folder
        self.state = folder / "coordinator"
        self.done: list[RoundDone] = []
        self.told = asyncio.Condition()
        self.agents: dict[str, Agent] = {}
        self._stores: list[Store] = []
        self._workers, self._tasks = workers, []  # type: ignore[var-annotated]

    def coordinator(
        self, rounds: int | None, preset: Preset = FEDAVG, evaluator: Evaluator | None = None, **changes: Any
    ) -> Coordinator:
        values = {"devices": 3, "quorum": 0.6, "least_wait": 50.0, "patience": 0.0, **changes}
        values = {"deadline": 60.0, "gather": 60.0, **values}
        settings = RunSettings(FLEET, self.broker.address(NAME), self.state, rounds, preset=preset, **values)
        return Coordinator(settings, self.pack, self._watch, evaluator)

    async def _watch(self, done: RoundDone) -> None:
        async with self.told:
            self.done.append(done)
            self.told.notify_all()

    def start_agents(self, coordinator: Coordinator, names: Sequence[str] = DEVICES[:3]) -> None:
        for i, name in enumerate(names):
            told = AgentSettings(
                name, FLEET, self.broker.address(name), self.folder / name, coordinator.identity.public, 5.0, 1.0
            )
            self.agents[name] = Agent(told, trainer(self.runtime, i + 1), self._workers)
            self._tasks.append(asyncio.create_task(self.agents[name].run()))

    async def ran(
        self, rounds: int, preset: Preset = FEDAVG, names: Sequence[str] = DEVICES[:3], **changes: Any
    ) -> Coordinator:
        """A coordinator that has made its rounds with these agents."""
        coordinator = self.coordinator(rounds, preset, **changes)
        self.start_agents(coordinator, names)
        await coordinator.run()
        return coordinator

    async def stop_agents(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @asynccontextmanager
    async def scripted(self, name: str, key: Identity) -> AsyncIterator[MqttLink]:
        """A device that registers and says nothing more of its own."""
        topic = TOPICS.up(name, "reg")
        message = register(name, public_key=key.public, pack=self.pack.identity, samples=1)

        async def say(_: Delivery) -> None:
            await link.publish(topic, seal(key, topic, message))

        settings = LinkSettings(self.broker.address(name), name)
        async with MqttLink(settings, handlers={TOPICS.coordinator_state: say}) as link:
            yield link

    async def rounds(self, count: int) -> None:
        """Wait until so many rounds were told."""
        async with self.told:
            await asyncio.wait_for(self.told.wait_for(lambda: len(self.done) >= count), 60)

    def store_when_there(self) -> Store:
        """The database, which a coordinator has made already."""
        return self.store(must_exist=False)

    def store(self, must_exist: bool = True) -> Store:
        """The database, which is closed with the site at the latest."""
        self._stores.append(Store(self.state / "coordinator.db", must_exist=must_exist))
        return self._stores[-1]


def run(case: Callable[[Site], Awaitable[None]], runtime: StepRuntime, folder: Path, seconds: float = 100.0) -> None:
    async def whole() -> None:
        with ThreadPoolExecutor(2) as workers:
            async with await start_broker(folder, USERS, fleet=FLEET) as broker:
                site = Site(broker, runtime, folder, workers)
                try:
                    await asyncio.wait_for(case(site), seconds)
                finally:
                    await site.stop_agents()
                    for store in site._stores:
                        store.close()

    asyncio.run(whole())


def on_site(case: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test of what is told at a site; beside it `case` may ask for fixtures and parameters."""
    given = [*inspect.signature(case).parameters.values()][1:]
    own = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("runtime", "tmp_path")]

    @functools.wraps(case)
    def test(**more: Any) -> None:
        mine = {each.name: more[each.name] for each in given}
        run(lambda site: case(site, **mine), more["runtime"], more["tmp_path"])

    kept = [each for each in given if each.name not in ("runtime", "tmp_path")]
    test.__signature__ = inspect.Signature([*own, *kept])  # type: ignore[attr-defined]
    return test


def keep_updates(coordinator: Coordinator) -> None:
    """Leave the bodies of counted updates where they are, so that a test can aggregate them again."""
    coordinator.blobs.remove_all = lambda _names: None  # type: ignore[method-assign]


def recomputed(coordinator: Coordinator, rows: list[UpdateRow], number: int) -> list[bytes]:
    """Every model from the first on, computed again from what was counted."""
    table, preset = coordinator.pack.plugin_table, coordinator.settings.preset
    weights, state = table.initial(coordinator.settings.seed), None
    models = [encode(weights)]
    for at in range(1, number + 1):
        counted = [row for row in rows if row.round == at]
        server = preset.server_for(at, coordinator.settings.rounds)
        rule = preset.method.get_rule()
        made = next_model(cohort_of(table, weights, counted, coordinator.blobs), rule, server, state)
        weights, state = made.weights, made.optimizer
        models.append(encode(weights))
    return models
