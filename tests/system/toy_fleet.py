"""A real broker and real agents with toy clips, in this process or others; coordinators are processes of their own."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import signal
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from auricle.packs.pack import load_pack
from auricle.wire.kinds import WORKERS
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.rows import UpdateRow
from auricle_cloud.storage.store import FILE, Store
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_fleet.broker.broker import Broker, Kind, start_broker
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.train import Trainer
from tests.recorder import Record
from tests.system import crowd, killed_agent, killed_coordinator, worker_child
from tests.system.canary import USERS, start_canaries
from tests.system.checker import DeviceLog, check, check_models, counted_rows, open_store, tally
from tests.system.child import Child, until
from tests.system.killed_coordinator import FLEET, TASK
from tests.system.toy_trainer import ASK, RESEND, toy_trainer

DEVICES = ("dev-a", "dev-b", "dev-c")
LISTENER = "dev-listener"  # may be used by tests to hear what the coordinator says to all


class ToyFleet:
    """Agents that live as long as this object, and coordinators one after the other."""

    def __init__(
        self, broker: Broker, folder: Path, workers: ThreadPoolExecutor, names: Sequence[str], here: Sequence[str]
    ) -> None:
        self.broker, self.folder, self._workers = broker, folder, workers
        self.names, self.here = names, here
        self.log = DeviceLog()
        self.state = folder / "coordinator"
        self.url = ""  # of the database, where it is not in the state's folder
        self.agents: dict[str, Agent] = {}
        self.agent_type: type[Agent] = Agent
        self.ports: dict[str, int] = {}  # where agents connect instead of to the broker
        self.hosts: dict[str, str] = {}
        self.keepalive: int | None = None
        self.resend = RESEND  # seconds after which an agent sends again
        self.key = ""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._children: list[Child] = []
        self._runtime = StepRuntime(load_pack("digits"))

    @property
    def place(self) -> Path | str:
        """Where the coordinators' database is."""
        return self.url or self.state / FILE

    @property
    def pack(self) -> Any:
        return self._runtime.pack

    # -- who runs

    async def coordinator(self, rounds: int, **told: Any) -> Child:
        """Start a coordinator; agents are started with the first one, whose key they obey."""
        about = {"devices": len(self.names), "folder": str(self.state), **told}
        argument = killed_coordinator.as_argument(broker=self.broker.address("coordinator").url, rounds=rounds, **about)
        child = await Child.start(killed_coordinator.__name__, argument)
        self._children.append(child)
        self.key = (await child.line(lambda line: "key" in line))["key"]
        if not self.agents:
            self.start_agents(bytes.fromhex(self.key))
        return child

    async def worker(self, name: str, rounds: int, database: str, **told: Any) -> Child:
        """Start one of several coordinators of a database; agents are started once the first of them leads."""
        self.url = database
        about = {"devices": len(self.names), "folder": str(self.state), "rounds": rounds, "database": database, **told}
        urls = {"broker": self.broker.address("coordinator").url, "worker": self.broker.address(name).url}
        child = await Child.start(worker_child.__name__, worker_child.as_argument(**urls, **about))
        self._children.append(child)
        if not self.key:
            self.key = (await child.line(lambda line: "key" in line))["key"]
            self.start_agents(bytes.fromhex(self.key))
        return child

    def start_agents(self, key: bytes) -> None:
        """Start the agents of this process: they obey this coordinator."""
        for name in self.here:
            self._start_agent(name, key)

    def _start_agent(self, name: str, key: bytes) -> None:
        address = self.broker.address(name)
        host, port = self.hosts.get(name, address.host), self.ports.get(name, address.port)
        address = dataclasses.replace(address, host=host, port=port)
        told = AgentSettings(name, FLEET, address, self.folder / name, key, ASK, self.resend)
        trainer = toy_trainer(self._runtime, self._seed(name), Trainer)
        agent = self.agents[name] = self.agent_type(told, trainer, self._workers)
        if self.keepalive is not None:
            agent.link.settings = dataclasses.replace(agent.link.settings, keepalive=self.keepalive)
        self._tasks[name] = asyncio.create_task(agent.run())

    async def reboot_agent(self, name: str) -> None:
        """End an agent of this process without a goodbye, if its link is down, and start it again: another boot."""
        self._tasks[name].cancel()
        await asyncio.gather(self._tasks[name], return_exceptions=True)
        self._start_agent(name, bytes.fromhex(self.key))

    def _seed(self, name: str) -> int:
        return self.names.index(name) + 1

    async def agent_process(self, *names: str, kill: str = "", after: int = 0, skew: float = 0.0) -> Child:
        """Start agents in a process of their own, with a clock that is off; the coordinator must have been started."""
        about = {"kill": kill, "after": after, "skew": skew, "seeds": {name: self._seed(name) for name in names}}
        told = {**self._told(names), "folder": str(self.folder), "said": str(self._said(names))}
        return await self._process(killed_agent, "agents", **told, **about)

    def _told(self, names: Sequence[str]) -> dict[str, Any]:
        return {"fleet": FLEET, "key": self.key, "brokers": {name: self.broker.address(name).url for name in names}}

    async def _process(self, module: Any, sign: str, **told: Any) -> Child:
        child = await Child.start(module.__name__, module.as_argument(**told))
        self._children.append(child)
        await child.line(lambda line: sign in line, 300)
        return child

    async def crowd_process(self, *names: str, **told: Any) -> Child:
        """Start simulated devices in a process of their own; the coordinator must have been started."""
        identities = self.folder / "identities"
        identities.mkdir(exist_ok=True)
        about = {"pack": self.pack.identity, "size": self.pack.plugin_table.size, "identities": str(identities)}
        return await self._process(
            crowd, "devices", **self._told(names), said=str(self._said(names[:1])), **about, **told
        )

    def _said(self, names: Sequence[str]) -> Path:
        return self.folder / f"{'+'.join(names)}.said"

    async def stop(self) -> None:
        """Stop all agents, and kill what still runs."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for child in self._children:
            await child.kill()

    # -- what can be looked at

    @property
    def database(self) -> Path:
        return self.state / FILE

    def read_said(self) -> None:
        """Take in what agents of other processes wrote down."""
        for path in self.folder.glob("*.said"):
            self.log.read(path)

    def verify(
        self,
        rounds: int,
        *,
        everybody: bool = True,
        stopped: bool = False,
        kept: bool = True,
        record: Record | None = None,
    ) -> list[UpdateRow]:
        """The checker, on everything; its counted rows, of which figures may be recorded before it fails."""
        self.read_said()
        with open_store(self.place) as store:
            for name, value in tally(self.log, counted_rows(store, TASK)).items() if record else ():
                record(name, value)
            rows = check(store, TASK, self.log)
            states = {row.round: row.state for row in store.rounds.listed(TASK, limit=rounds)}
            published = [number for number in sorted(states) if states[number] == "published"]
            if everybody:
                wanted = [(number, name) for number in published for name in sorted(self.names)]
                there = [(row.round, row.device) for row in rows]
                assert [key for key in there if key[0] in published] == wanted
                assert stopped or len(published) == rounds
            blobs = Blobs(self.state / "blobs")
            check_models(store, blobs, self.pack, TASK, killed_coordinator.preset(0.5), rounds, kept=kept)
        return rows

    async def back(self, seconds: float = 60.0) -> float:
        """Wait until all agents of this process are connected; the seconds it took."""
        began = time.monotonic()
        await until(lambda: all(agent.link.connected for agent in self.agents.values()), "the agents' links", seconds)
        return time.monotonic() - began


def watching(fleet: ToyFleet) -> closing[Store]:
    """The coordinator's database while it runs, to be used in a `with`."""
    return open_store(fleet.place)


async def killed(child: Child) -> None:
    """Wait for the end of a process that had to kill itself."""
    code, errors = await child.end()
    assert code == -signal.SIGKILL, f"it was never killed: {errors[-1500:]}"


async def succeeded(child: Child, timeout: float = 90.0) -> None:
    """Wait for a coordinator's end, which has to be a good one."""
    code, errors = await child.end(timeout)
    assert code == 0, errors[-2000:]


def kill(child: Child) -> None:
    child.signal(signal.SIGKILL)


@asynccontextmanager
async def toy_fleet(
    folder: Path, names: Sequence[str] = DEVICES, here: Sequence[str] | None = None, *, kind: Kind | None = None
) -> AsyncIterator[ToyFleet]:
    """A broker without memory, canaries, and what is needed for agents."""
    users = {name: f"secret-of-{name}" for name in ("coordinator", LISTENER, *USERS, *WORKERS, *names)}
    edge = logging.getLogger("auricle.edge")
    level = edge.level
    with ThreadPoolExecutor(2) as workers:
        async with await start_broker(folder, users, fleet=FLEET, kind=kind, persistence=False) as broker:
            fleet = ToyFleet(broker, folder, workers, names, names if here is None else here)
            # amqtt gives nothing at all to whoever asks for more than their own: tests/fleet/test_broker_acl.py.
            watched = names[:3] if broker.kind == "mosquitto" else ()
            canaries = await start_canaries(broker, FLEET, watched, fleet.log.delivered) if watched else []
            edge.addHandler(fleet.log)
            edge.setLevel(logging.INFO)
            try:
                yield fleet
            finally:
                await fleet.stop()
                await asyncio.gather(*(canary.stop() for canary in canaries))
                edge.removeHandler(fleet.log)
                edge.setLevel(level)
