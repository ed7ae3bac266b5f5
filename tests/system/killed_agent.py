"""Agents that kill themselves: `python -m tests.system.killed_agent SETTINGS` with the settings as JSON.

`kill` names a point in a round after number `after`: `training` (between two batches), `kept` (the outbox is written),
`sent` (the broker has the update), `acknowledged` (the answer came, and nothing was done with it), and in a secure sum
`sumkeys`, `sumshares`, `sumreveal` (the broker has that). What the agents
intend and what they are told goes to `said`, a line each, which a kill does not take back.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from auricle.mqtt_link.link import BrokerAddress
from auricle.packs.pack import load_pack
from auricle.process.until_signal import until_signal
from auricle.wire.messages import Ack, Message, Update
from auricle.wire.plan import Plan
from auricle.wire.secure_sum.messages import SumAnswer
from auricle.wire.tensors import Flat
from auricle_edge.fleet import agent as agent_module
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_edge.fleet.update_delivery import Pending, UpdateDelivery
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.mechanism import NOTHING_LENT, LentData
from auricle_learning.training.train import LocalState, RoundResult, Trainer
from tests.system.shifted_clock import ShiftedClock
from tests.system.toy_trainer import ASK, RESEND, toy_trainer

Stopped = Callable[[], bool]


class Told(msgspec.Struct, frozen=True):
    folder: str  # each agent's folder lies in it
    fleet: str
    key: str  # the coordinator's public key in hexadecimal digits
    brokers: dict[str, str]  # URL by device
    seeds: dict[str, int]
    said: str
    kill: str = ""
    after: int = 0
    skew: float = 0.0  # seconds by which the process's clock is off


class Said(logging.Handler):
    """Writes every message and its arguments to a file at once."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def emit(self, record: logging.LogRecord) -> None:
        said = record.args if isinstance(record.args, tuple) else ()
        os.write(self._file, (json.dumps([record.msg, *said], default=str) + "\n").encode())


class Points:
    def __init__(self, told: Told) -> None:
        self._told = told

    def __call__(self, name: str, number: int) -> None:
        """The process is at a point of a round."""
        if name == self._told.kill and number > self._told.after:
            os.kill(os.getpid(), signal.SIGKILL)


class KilledTrainer(Trainer):
    """A trainer with a point between two batches."""

    point: Points

    def run(
        self,
        plan: Plan,
        round_number: int,
        plugin: Flat,
        state: LocalState,
        stopped: Stopped = lambda: False,
        lent: LentData = NOTHING_LENT,
    ) -> RoundResult:
        def ask() -> bool:
            self.point("training", round_number)
            return stopped()

        return super().run(plan, round_number, plugin, state, ask, lent)


class KilledDelivery(UpdateDelivery):
    point: Points

    def _keep(self, pending: Pending, first: Callable[[], None]) -> None:
        super()._keep(pending, first)
        self.point("kept", pending.update.round)

    async def acknowledged(self, ack: Ack) -> bool:
        """Take an answer, unless the process ends before."""
        self.point("acknowledged", ack.round)
        return await super().acknowledged(ack)


class KilledAgent(Agent):
    point: Points

    async def _say(self, kind: str, message: Message, body: bytes = b"") -> None:
        await super()._say(kind, message, body)
        if isinstance(message, Update):
            self.point("sent", message.round)
        if isinstance(message, SumAnswer):
            self.point(type(message).__name__.lower(), message.round)


log = logging.getLogger("auricle.edge")


async def live(told: Told) -> None:
    runtime, points = StepRuntime(load_pack("digits")), Points(told)
    KilledDelivery.point = points
    agent_module.UpdateDelivery = KilledDelivery  # type: ignore[misc]
    with ThreadPoolExecutor(1) as worker:
        agents = []
        for name, url in told.brokers.items():
            trainer = toy_trainer(runtime, told.seeds[name], KilledTrainer)
            trainer.point = points
            place, key = Path(told.folder) / name, bytes.fromhex(told.key)
            settings = AgentSettings(name, told.fleet, BrokerAddress.parse(url), place, key, ASK, RESEND)
            agent = KilledAgent(settings, trainer, worker)
            agent.point = points
            agents.append(agent)
        print(json.dumps({"agents": [agent.settings.device for agent in agents]}), flush=True)
        await asyncio.gather(*(agent.run() for agent in agents))


def main() -> None:
    """Run until killed or asked to stop."""
    told = msgspec.json.decode(sys.argv[1], type=Told)
    if told.skew:
        clock = ShiftedClock()
        clock.seconds = told.skew
        clock.install()
    log.addHandler(Said(told.said))
    log.setLevel(logging.INFO)
    asyncio.run(until_signal(live(told)))


def as_argument(**told: Any) -> str:
    return msgspec.json.encode(Told(**told)).decode()


if __name__ == "__main__":
    main()
