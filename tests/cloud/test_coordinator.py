"""The coordinator with a real broker and real agents: rounds, quorum, restarts, and the same bytes again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auricle.errors import AuricleError, SettingsError
from auricle.frames import open_frame, seal
from auricle.identity import Identity
from auricle.messages import CoordinatorState, Model, Plan, Register, Status
from auricle.mqtt import LinkSettings, MqttLink
from auricle.mqtt import Message as Arrived
from auricle.pack import Pack, load_pack
from auricle.tensors import digest, encode
from auricle.topics import Topics
from auricle_cloud.aggregation import next_model
from auricle_cloud.coordinator import NAME, Coordinator
from auricle_cloud.presets import Preset
from auricle_cloud.rules import get_rule
from auricle_cloud.run_settings import RoundDone, RunSettings
from auricle_cloud.server_optimizer import OptimizerSettings, OptimizerState
from auricle_cloud.store import Store
from auricle_edge.agent import Agent, AgentSettings
from auricle_edge.clips import Clips, DeviceData
from auricle_edge.runtimes import StepRuntime
from auricle_edge.train import Trainer
from auricle_fleet.broker import Broker, start_broker

FLEET, TASK = "f", "keywords"
TOPICS = Topics(FLEET)
DEVICES = ("dev-a", "dev-b", "dev-c", "dev-d")
USERS = {name: f"secret-of-{name}" for name in (NAME, "observer", *DEVICES)}
PLAN = Plan(rate=0.1, local_rate=0.1)
LPA = Preset(
    PLAN, "lpa", {"prune_low": 0.0, "prune_high": 0.34}, OptimizerSettings(kind="momentum", lr=0.5, beta1=0.5)
)  # fmt: skip
FEDAVG = Preset(PLAN, "fedavg")


@pytest.fixture(scope="module")
def runtime() -> StepRuntime:
    return StepRuntime(load_pack("digits"))


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
        self._workers, self._tasks = workers, []  # type: ignore[var-annotated]

    def coordinator(self, rounds: int, preset: Preset = FEDAVG, **changes: Any) -> Coordinator:
        values = {
            "devices": 3, "quorum": 0.6, "least_wait": 0.2, "patience": 0.0, "deadline": 60.0, "gather": 60.0,
            **changes,
        }  # fmt: skip
        settings = RunSettings(FLEET, self.broker.address(NAME), self.state, rounds, preset=preset, **values)
        return Coordinator(settings, self.pack, self._watch)

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

    async def stop_agents(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @asynccontextmanager
    async def scripted(self, name: str, key: Identity) -> AsyncIterator[MqttLink]:
        """A device that registers and says nothing more of its own."""
        topic = TOPICS.up(name, "reg")
        register = Register(
            fleet=FLEET, device=name, boot="b", public_key=key.public, agent="1", pack=self.pack.identity,
            architecture="crnn-lite", codecs=("float32",), samples=1,
        )  # fmt: skip

        async def say(_: Arrived) -> None:
            await link.publish(topic, seal(key, topic, register))

        settings = LinkSettings(self.broker.address(name), name)
        async with MqttLink(settings, handlers={TOPICS.coordinator_state: say}) as link:
            yield link

    async def rounds(self, count: int) -> None:
        """Wait until so many rounds were told."""
        async with self.told:
            await asyncio.wait_for(self.told.wait_for(lambda: len(self.done) >= count), 60)

    def store(self) -> Store:
        return Store(self.state / "coordinator.db", must_exist=True)


def run(case: Callable[[Site], Awaitable[None]], runtime: StepRuntime, folder: Path) -> None:
    async def whole() -> None:
        with ThreadPoolExecutor(2) as workers:
            async with await start_broker(folder, USERS, fleet=FLEET) as broker:
                site = Site(broker, runtime, folder, workers)
                try:
                    await asyncio.wait_for(case(site), 100)
                finally:
                    await site.stop_agents()

    asyncio.run(whole())


def keep_updates(coordinator: Coordinator) -> None:
    """Leave the bodies of counted updates where they are, so that a test can aggregate them again."""
    coordinator.blobs.remove = lambda _sha256: None  # type: ignore[method-assign]


def recomputed(coordinator: Coordinator, rows: list[dict[str, Any]], number: int) -> list[bytes]:
    """Every model from the first on, computed anew from what was counted."""
    table, preset = coordinator.pack.plugin_table, coordinator.settings.preset
    weights, state = table.initial(coordinator.settings.seed), None
    models = [encode(weights)]
    for at in range(1, number + 1):
        counted = [row for row in rows if row["round"] == at]
        server = preset.server_for(at, coordinator.settings.rounds)
        rule = get_rule(preset.rule, **preset.rule_options)
        made = next_model(table, weights, counted, coordinator.blobs, rule, server, state)
        weights, state = made.weights, made.optimizer
        models.append(encode(weights))
    return models


def test_rounds_count_everybody_and_the_same_updates_give_the_same_bytes(runtime: StepRuntime, tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        manifests: list[Model] = []
        coordinator = site.coordinator(2, LPA)
        keep_updates(coordinator)
        site.start_agents(coordinator)

        async def note(arrived: Arrived) -> None:
            message, _ = open_frame(arrived.payload, arrived.topic, lambda _: coordinator.identity.public)
            manifests.append(message)

        async with MqttLink(LinkSettings(site.broker.address("observer"), "observer"), handlers={TOPICS.model: note}):
            await coordinator.run()

        store = site.store()
        rows = [row for number in (1, 2) for row in store.counted(TASK, number)]
        models = recomputed(coordinator, rows[::-1], 2)
        reports = [store.report(TASK, number) for number in (1, 2)]
        last, current = store.last_round(TASK), store.current_model(TASK)
        store.close()

        assert [(d.number, d.state, d.invited, d.counted) for d in site.done] == [
            (1, "published", 3, 3), (2, "published", 3, 3),
        ]  # fmt: skip
        assert [encode(d.model) for d in site.done] == models[1:]
        assert len(set(models)) == 3
        assert last is not None
        assert current is not None
        assert (last["state"], current["blob"], current["version"]) == ("published", digest(models[2]), 2)
        assert manifests[-1].blob == digest(models[2])
        assert sorted({m.version for m in manifests}) == [0, 1, 2]
        for report in reports:
            assert report["invited"] == list(DEVICES[:3])
            assert [row["device"] for row in report["updates"]] == list(DEVICES[:3])
            assert {layer["layer"] for layer in report["layers"]} == {s.layer for s in site.pack.plugin_table.specs}
            for layer in report["layers"]:
                # One of three is a third: floor(0.34 * 3) is left out at the far end, nobody at the near one.
                assert len(layer["pruned_high"]) == 1
                assert layer["pruned_low"] == []
                assert sorted(layer["kept"] + layer["pruned_high"]) == list(DEVICES[:3])
                assert sum(layer["share"].values()) == pytest.approx(1)
                assert layer["share"][layer["pruned_high"][0]] == 0
                assert layer["deviation"][layer["pruned_high"][0]] == max(layer["deviation"].values())

    run(case, runtime, tmp_path)


def test_counted_bodies_are_removed_and_models_stay(runtime: StepRuntime, tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        coordinator = site.coordinator(2, LPA)
        site.start_agents(coordinator)

        await coordinator.run()

        files = {p.name for p in (site.state / "blobs").rglob("*") if p.is_file()}
        store = site.store()
        bodies = {row["body"] for number in (1, 2) for row in store.counted(TASK, number)}
        assert len(bodies) == 6
        assert not files & bodies
        assert {digest(encode(d.model)) for d in site.done} < files
        assert files == store.kept_blobs(TASK)
        assert len(files) == 3 + 2
        store.close()

    run(case, runtime, tmp_path)


def test_one_device_whose_update_is_the_next_model(runtime: StepRuntime, tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        coordinator = site.coordinator(3, FEDAVG, devices=1)
        site.start_agents(coordinator, DEVICES[:1])

        await coordinator.run()

        assert [(d.state, d.counted) for d in site.done] == [("published", 1)] * 3

    run(case, runtime, tmp_path)


def test_a_device_that_never_answers_costs_patience_and_no_round(runtime: StepRuntime, tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        coordinator = site.coordinator(1, FEDAVG, devices=4, quorum=0.7)
        site.start_agents(coordinator)
        async with site.scripted("dev-d", Identity.create()):
            await coordinator.run()

        (done,) = site.done
        assert (done.state, done.invited, done.counted) == ("published", 4, 3)
        assert done.report["invited"] == list(DEVICES)
        assert done.seconds < 30

    run(case, runtime, tmp_path)


async def fails_in_round_one(device: str, key: Identity, link: MqttLink) -> None:
    """Answer every invitation by saying that round 1 failed."""
    topic = TOPICS.up(device, "st")

    async def fail(_: Arrived) -> None:
        status = Status(fleet=FLEET, device=device, boot="b", task=TASK, round=1, state="failed", reason="x")
        await link.publish(topic, seal(key, topic, status))

    await link.subscribe(TOPICS.down(device, "inv"), fail)


def test_a_device_that_says_it_failed_is_not_waited_for(runtime: StepRuntime, tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        key = Identity.create()
        coordinator = site.coordinator(1, FEDAVG, devices=4, quorum=0.7, least_wait=50.0)
        site.start_agents(coordinator)
        async with site.scripted("dev-d", key) as link:
            await fails_in_round_one("dev-d", key, link)
            await coordinator.run()

        (done,) = site.done
        assert (done.state, done.counted, done.report["failed"]) == ("published", 3, {"dev-d": "x"})
        assert done.seconds < 30

    run(case, runtime, tmp_path)


def test_without_a_quorum_the_round_is_aborted_and_the_model_stays(runtime: StepRuntime, tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        coordinator = site.coordinator(2, FEDAVG, devices=2, quorum=0.7, deadline=0.5)
        site.start_agents(coordinator, DEVICES[:1])
        async with site.scripted("dev-d", Identity.create()):
            await coordinator.run()

        store = site.store()
        current = store.current_model(TASK)
        first = encode(site.pack.plugin_table.initial(0))
        assert [(d.number, d.state, d.invited) for d in site.done] == [(1, "aborted", 2), (2, "aborted", 2)]
        assert all(d.counted <= 1 and encode(d.model) == first for d in site.done)
        assert current is not None
        assert (current["version"], current["blob"]) == (0, digest(first))
        assert "quorum" in store.report(TASK, 1)["reason"]
        assert {p.name for p in (site.state / "blobs").rglob("*") if p.is_file()} == {digest(first)}
        store.close()

    run(case, runtime, tmp_path)


def test_nobody_there_is_said(runtime: StepRuntime, tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        with pytest.raises(AuricleError, match="No device registered"):
            await site.coordinator(1, gather=0.1).run()

    run(case, runtime, tmp_path)


def test_a_coordinator_that_starts_again_goes_on_with_the_open_round_and_its_cohort(
    runtime: StepRuntime, tmp_path: Path
) -> None:
    async def case(site: Site) -> None:
        half = {"participation": 0.5, "seed": 1}
        first = site.coordinator(2, LPA, devices=4, quorum=1.0, **half)
        site.start_agents(first, DEVICES[:2])
        async with site.scripted("dev-c", Identity(b"c" * 32)), site.scripted("dev-d", Identity(b"d" * 32)):
            running = asyncio.create_task(first.run())
            while not (first.store.last_round(TASK) and first.store.counted(TASK, 1)):
                await first._wait_change(0.1)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        store = site.store()
        opened, before = store.last_round(TASK), store.counted(TASK, 1)
        store.close()

        second = site.coordinator(2, LPA, devices=2, quorum=0.5, **half)
        keep_updates(second)
        await second.run()

        store = site.store()
        rows = [row for number in (1, 2) for row in store.counted(TASK, number)]
        report = store.report(TASK, 1)
        store.close()
        # This seed draws dev-a and the silent dev-d for the first round, dev-a and dev-b for the second.
        assert second.epoch == first.epoch + 1
        assert opened is not None
        assert (opened["state"], opened["cohort"]) == ("collecting", ["dev-a", "dev-d"])
        assert report["invited"] == ["dev-a", "dev-d"]
        assert [(d.number, d.state, d.invited, d.counted) for d in site.done] == [
            (1, "published", 2, 1), (2, "published", 2, 2),
        ]  # fmt: skip
        assert rows[:1] == before
        assert [encode(d.model) for d in site.done] == recomputed(second, rows, 2)[1:]

    run(case, runtime, tmp_path)


@pytest.mark.parametrize("state", ["closing", "aggregated"])
def test_a_coordinator_killed_while_it_made_the_model_makes_no_other(
    runtime: StepRuntime, tmp_path: Path, state: str
) -> None:
    async def case(site: Site) -> None:
        first = site.coordinator(1, LPA)
        keep_updates(first)
        site.start_agents(first)
        await first.run()
        store = site.store()
        store.set_state(TASK, 1, state)
        if state == "closing":
            with store._transaction() as tx:
                tx.exec_driver_sql("DELETE FROM models WHERE version = 1")
        store.close()

        second = site.coordinator(2, LPA)
        keep_updates(second)
        await second.run()

        store = site.store()
        rows = [row for number in (1, 2) for row in store.counted(TASK, number)]
        models = recomputed(second, rows, 2)
        current = store.current_model(TASK)
        last = store.last_round(TASK)
        store.close()
        assert [(d.number, d.state, d.counted) for d in site.done[-2:]] == [(1, "published", 3), (2, "published", 3)]
        assert [encode(d.model) for d in site.done[-2:]] == models[1:]
        assert current is not None
        assert last is not None
        assert current["blob"] == digest(models[2])
        assert OptimizerState.from_bytes(second.blobs.get(current["optimizer"]), site.pack.plugin_table.size).step == 2
        assert last["state"] == "published"

    run(case, runtime, tmp_path)


def test_presence_says_goodbye_and_names_the_epoch(runtime: StepRuntime, tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        coordinator = site.coordinator(1, devices=1)
        site.start_agents(coordinator, DEVICES[:1])
        said: list[CoordinatorState] = []
        left = asyncio.Event()

        async def note(arrived: Arrived) -> None:
            message, _ = open_frame(arrived.payload, arrived.topic, lambda _: coordinator.identity.public)
            said.append(message)
            if not message.online:
                left.set()

        observer = LinkSettings(site.broker.address("observer"), "observer")
        async with MqttLink(observer, handlers={TOPICS.coordinator_state: note}):
            await coordinator.run()
            await asyncio.wait_for(left.wait(), 10)

        assert [(s.online, s.epoch) for s in said] == [(True, 1), (False, 1)]

    run(case, runtime, tmp_path)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"participation": 0.0}, "shares"),
        ({"quorum": 1.5}, "shares"),
        ({"rounds": 0}, "at least one round"),
        ({"deadline": 0.0}, "deadline"),
        ({"deadline": float("nan")}, "deadline"),
        ({"deadline": float("inf")}, "deadline"),
        ({"preset": Preset(PLAN, "lap")}, 'did you mean "lpa"'),
        ({"preset": Preset(PLAN, "lpa", {"prune_high": 1.0})}, "prune_high"),
    ],
)
def test_settings_that_no_round_could_be_run_with(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    from auricle.mqtt import BrokerAddress

    with pytest.raises((AuricleError, SettingsError), match=says):
        RunSettings(**{"fleet": FLEET, "broker": BrokerAddress("h"), "folder": tmp_path, **changes})


def test_a_quorum_is_rounded_up_and_never_by_a_rounding_error(tmp_path: Path, runtime: StepRuntime) -> None:
    from auricle.mqtt import BrokerAddress

    async def needed(quorum: float, size: int) -> int:
        settings = RunSettings(FLEET, BrokerAddress("h"), tmp_path / f"{quorum}-{size}", quorum=quorum, deadline=0.001)
        coordinator = Coordinator(settings, runtime.pack)
        names = [f"dev-{i:03}" for i in range(size)]
        coordinator._cohort = set(names)
        for count in range(size + 1):
            coordinator._said = set(names[:count])
            if await coordinator._collect():
                return count
        raise AssertionError("no quorum")

    found = [asyncio.run(needed(q, n)) for q, n in ((0.7, 10), (0.7, 4), (0.55, 20), (0.14, 50), (0.01, 3), (1.0, 5))]

    assert found == [7, 3, 11, 7, 1, 5]


def test_a_pack_is_what_is_trained(runtime: StepRuntime, tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        other: Pack = load_pack("gsc12")
        settings = RunSettings(FLEET, site.broker.address(NAME), site.state, 1, devices=1, gather=1.0)
        coordinator = Coordinator(settings, other)
        site.start_agents(coordinator, DEVICES[:1])

        with pytest.raises(AuricleError, match="No device registered"):
            await coordinator.run()

        assert coordinator.inbox.refused.keys() >= {"pack"}

    run(case, runtime, tmp_path)


def test_while_all_devices_are_away_no_round_is_spent(runtime: StepRuntime, tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        coordinator = site.coordinator(6, FEDAVG, devices=1, deadline=2.0)
        site.start_agents(coordinator, DEVICES[:1])
        running = asyncio.create_task(coordinator.run())
        await site.rounds(1)

        await site.stop_agents()
        site.start_agents(coordinator, DEVICES[:1])
        await running

        states = [d.state for d in site.done]
        assert len(states) == 6
        assert states.count("published") >= 5

    run(case, runtime, tmp_path)


def test_a_failure_in_an_earlier_round_says_nothing_about_this_one(runtime: StepRuntime, tmp_path: Path) -> None:
    async def case(site: Site) -> None:
        key = Identity.create()
        coordinator = site.coordinator(2, FEDAVG, devices=4, quorum=0.7)
        site.start_agents(coordinator)
        async with site.scripted("dev-d", key) as link:
            await fails_in_round_one("dev-d", key, link)
            await coordinator.run()

        assert [d.report["failed"] for d in site.done] == [{"dev-d": "x"}, {}]

    run(case, runtime, tmp_path)
