"""A broker, a coordinator's side that is scripted frame by frame, and a device that can be started again."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from auricle.mqtt_link.link import BrokerAddress, Delivery, LinkSettings, MqttLink
from auricle.packs.pack import Pack, load_pack
from auricle.wire.frames import CHUNK, Topics, open_frame, seal
from auricle.wire.identity import Identity
from auricle.wire.messages import Ack, Invite, Message, Nothing, Register, Update
from auricle.wire.plan import Plan
from auricle.wire.tensors import digest, encode
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_fleet.broker.broker import start_broker
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.speech_data import Clips, DeviceData
from auricle_learning.training.train import Trainer

FLEET, DEVICE, TASK = "f", "dev-a", "keywords"
TOPICS = Topics(FLEET)
USERS = {"coordinator": "c-secret", DEVICE: "a-secret"}
DEADLINE = 30.0
CASE = 100.0
"""Seconds for all of a case."""
POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
KEY, OTHER = Identity(b"c" * 32), Identity(b"o" * 32)

M = TypeVar("M", bound=Message)


def trainer(runtime: StepRuntime, clips: int = 4) -> Trainer:
    rng = np.random.default_rng(0)
    task = runtime.pack.manifest.task
    energies = rng.random((clips, task.frames, task.frontend.mels), dtype=np.float32)
    train = Clips(energies, np.arange(clips) % len(runtime.pack.labels))
    return Trainer(runtime, "crnn-lite", DeviceData(train, train.chosen(np.arange(2)), None), seed=0)


class Addressed(Protocol):
    """A broker that runs."""

    def address(self, user: str, /) -> BrokerAddress:
        """How this user reaches it."""


class Coordinator:
    """Says what a test tells it to, and keeps every message of the device with its body."""

    def __init__(self, link: MqttLink, pack: Pack) -> None:
        self.link, self.pack = link, pack
        self.heard: list[tuple[Message, bytes]] = []
        self.key: bytes | None = None
        self._news = asyncio.Condition()

    async def listen(self) -> None:
        await self.link.subscribe(f"{TOPICS.prefix}/d/+/up/+", self._hear)
        await self.link.subscribe(f"{TOPICS.prefix}/d/+/state", self._hear)

    async def _hear(self, arrived: Delivery) -> None:
        message, body = open_frame(arrived.payload, arrived.topic, self._key_of)
        async with self._news:
            self.heard.append((message, body))
            self._news.notify_all()

    def _key_of(self, message: Message) -> bytes | None:
        if self.key is None and isinstance(message, Register):
            self.key = message.public_key
        return self.key

    def said(self, kind: type[M]) -> list[M]:
        return [message for message, _ in self.heard if isinstance(message, kind)]

    def bodies(self) -> list[bytes]:
        return [body for message, body in self.heard if isinstance(message, Update)]

    async def wait(self, kind: type[M], count: int = 1) -> M:
        """The message number `count` of a kind."""

        async def enough() -> None:
            async with self._news:
                await self._news.wait_for(lambda: len(self.said(kind)) >= count)

        await asyncio.wait_for(enough(), DEADLINE)
        return self.said(kind)[count - 1]

    async def say(self, kind: str, message: Message, key: Identity = KEY) -> None:
        topic = TOPICS.down(DEVICE, kind)
        await self.link.publish(topic, seal(key, topic, message))

    async def offer(self, block: bytes, name: str | None = None) -> None:
        for i in range(0, len(block), CHUNK):
            await self.link.publish(TOPICS.blob(name or digest(block), i // CHUNK), block[i : i + CHUNK], retain=True)

    def invite(self, block: bytes, number: int = 1, epoch: int = 5, **changes: Any) -> Invite:
        values = {
            "task": TASK,
            "round": number,
            "epoch": epoch,
            "base": digest(block),
            "ttl": 60.0,
            "plan": Plan(),
            "length": len(block),
            "codec": "float32",
            "chunks": -(-len(block) // CHUNK),
            **changes,
        }
        return Invite(fleet=FLEET, device=DEVICE, boot="c", **values)

    async def ack(self, update: Update, verdict: str = "accepted", **changes: Any) -> None:
        values = {"task": TASK, "round": update.round, "attempt": 1, "epoch": 5, "body": update.body, **changes}
        await self.say("ack", Ack(fleet=FLEET, device=DEVICE, boot="c", verdict=verdict, **values))

    async def barrier(self, epoch: int = 5) -> None:
        """Returns when the device has handled everything said before: it answers this one with a registration."""
        count = len(self.said(Register))
        await self.say("cmd", Nothing(fleet=FLEET, device=DEVICE, boot="c", epoch=epoch, again=True))
        await self.wait(Register, count + 1)


class Site:
    """A broker, a scripted coordinator, and a device that can be started again."""

    def __init__(self, broker: Addressed, coordinator: Coordinator, runtime: StepRuntime, folder: Path) -> None:
        self.broker, self.coordinator, self.runtime, self.folder = broker, coordinator, runtime, folder
        self.model = encode(runtime.pack.plugin_table.initial(3))
        self.pending = folder / "pending.update"

    @asynccontextmanager
    async def device(
        self, own: Trainer | None = None, parts: Mapping[str, Any] | None = None, **settings: Any
    ) -> AsyncIterator[Agent]:
        """An agent with a trainer of its own, and with a gate and a source of clips if the test has some."""
        values = {"ask_every": 60.0, "resend_every": 60.0, "fetch_timeout": 10.0, **settings}
        told = AgentSettings(DEVICE, FLEET, self.broker.address(DEVICE), self.folder, KEY.public, **values)
        with ThreadPoolExecutor(1) as executor:
            agent = Agent(told, own or trainer(self.runtime), executor, **(parts or {}))
            before = len(self.coordinator.said(Register))
            task = asyncio.create_task(agent.run())
            try:
                await self.coordinator.wait(Register, before + 1)
                yield agent
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


def run(case: Callable[[Site], Awaitable[None]], runtime: StepRuntime, folder: Path) -> None:
    async def whole() -> None:
        async with await start_broker(folder, USERS, fleet=FLEET) as broker:
            await with_broker(case, runtime, folder, broker)

    asyncio.run(whole())


async def with_broker(
    case: Callable[[Site], Awaitable[None]], runtime: StepRuntime, folder: Path, broker: Addressed
) -> None:
    """The same at a broker that runs already."""
    async with MqttLink(LinkSettings(broker.address("coordinator"), "coordinator")) as link:
        coordinator = Coordinator(link, runtime.pack)
        await coordinator.listen()
        site = Site(broker, coordinator, runtime, folder / "device")
        await coordinator.offer(site.model)
        await asyncio.wait_for(case(site), CASE)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something inside the agent holds; there is no event for it outside."""

    async def poll() -> None:
        while not condition():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(poll(), DEADLINE)


@cache
def digits() -> StepRuntime:
    return StepRuntime(load_pack("digits"))


def at_site(case: Callable[..., Awaitable[None]], runtime: Callable[[], StepRuntime] = digits) -> Callable[..., None]:
    """A test of a case, which gets a site in place of `tmp_path`, and its other fixtures and parameters as they are."""

    def test(tmp_path: Path, **others: Any) -> None:
        run(lambda site: case(site, **others), runtime(), tmp_path)

    _, *others = inspect.signature(case).parameters.values()
    test.__signature__ = inspect.Signature([inspect.Parameter("tmp_path", POSITIONAL), *others])  # type: ignore[attr-defined]
    test.__name__, test.__doc__, test.__module__ = case.__name__, case.__doc__, case.__module__
    return test
