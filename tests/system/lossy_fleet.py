"""A fleet on a network that really loses packets: `unshare --net python -m tests.system.lossy_fleet SETTINGS`.

In a network namespace of its own, as root, the kernel drops 5, 10 or `worst` of the packets of a third of the devices
each, both ways, in segments of 1,500 bytes; a proxy delays by 250 ms each way and passes 64 kbit/s on. It prints a line
of JSON: what was counted, how often each device sent and how often its link had to connect.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from auricle.wire.messages import Message, Update
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_learning.training.train import Trainer
from tests.system.killed_coordinator import TASK
from tests.system.network_proxy import NetworkProxy
from tests.system.toy_fleet import succeeded, toy_fleet, watching

HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
"""Addresses to and from which 5 %, 10 % and the worst share of packets are lost."""
DELAY, RATE = 0.25, 8000.0  # seconds each way, and bytes a second
FETCH, DEADLINE = 420.0, 600.0
"""Seconds for a model to come, and for a round: where a third is lost, TCP waits for minutes at a time."""


class CountingAgent(Agent):
    """Counts how often it begins to send an update, by round; waits for a model for as long as such a network needs."""

    def __init__(self, settings: AgentSettings, trainer: Trainer, executor: Executor) -> None:
        super().__init__(replace(settings, fetch_timeout=FETCH), trainer, executor)
        self.sent: dict[int, int] = {}

    async def _say(self, kind: str, message: Message, body: bytes = b"") -> None:
        if isinstance(message, Update) and message.part == 0:
            self.sent[message.round] = self.sent.get(message.round, 0) + 1
        await super()._say(kind, message, body)


def lose(worst: float) -> None:
    """Bring loopback up, with small packets, of which some are lost."""
    commands = [["ip", "link", "set", "dev", "lo", "mtu", "1500", "gso_max_segs", "1", "up"]]
    for address, share in zip(HOSTS, (0.05, 0.10, worst), strict=True):
        for way in ("-s", "-d"):
            rule = ["-m", "statistic", "--mode", "random", "--probability", str(share), "-j", "DROP"]
            those = ["iptables", "-A", "INPUT", way, address, "-p", "tcp"]
            commands += [those, [*those, *rule]]  # the first counts what the second is asked about
    for command in commands:
        subprocess.run(command, check=True, capture_output=True)


async def run(folder: Path, devices: int, rounds: int) -> dict[str, Any]:
    names = tuple(f"dev-{i:02d}" for i in range(devices))
    async with toy_fleet(folder, names) as fleet, AsyncExitStack() as stack:
        for i, name in enumerate(names):
            proxy = await stack.enter_async_context(NetworkProxy(fleet.broker.port, HOSTS[i % len(HOSTS)]))
            proxy.delay, proxy.rate = DELAY, RATE
            fleet.hosts[name], fleet.ports[name] = proxy.host, proxy.port
        fleet.agent_type, fleet.resend = CountingAgent, AgentSettings.resend_every
        began = time.monotonic()
        coordinator = await fleet.coordinator(rounds, deadline=DEADLINE)
        await succeeded(coordinator, DEADLINE * rounds + 60)
        seconds = time.monotonic() - began
        found: dict[str, Any] = {}
        fleet.verify(rounds, everybody=False, record=found.__setitem__)
        with watching(fleet) as store:
            invited = sum(len(store.rounds.invited(TASK, number)) for number in range(1, rounds + 1))
            states = sorted({row.state for row in store.rounds.listed(TASK, limit=rounds)})
        made = {name: agent.link.counters.connections for name, agent in fleet.agents.items()}
        sent = [count for agent in fleet.agents.values() for count in agent.sent.values()]  # type: ignore[attr-defined]
        return {
            **found,
            "invited": invited,
            "states": states,
            "sent at most": max(sent),
            "connections at most": max(made[name] for name in names if fleet.hosts[name] != HOSTS[-1]),
            "connections at most, worst": max(made[name] for name in names if fleet.hosts[name] == HOSTS[-1]),
            "seconds": round(seconds),
            "dropped": sum(dropped for _, dropped in _packets()),
            "worst loss": round(max(dropped / seen for seen, dropped in _packets() if seen), 3),
        }


def _packets() -> list[tuple[int, int]]:
    """Packets that came, and how many of them were dropped, of each pair of rules."""
    said = subprocess.run(["iptables", "-nvxL", "INPUT"], check=True, capture_output=True, text=True).stdout
    counts = [int(line.split()[0]) for line in said.splitlines()[2:]]
    return list(zip(counts[::2], counts[1::2], strict=True))


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    lose(told["worst"])
    found = asyncio.run(run(Path(told["folder"]), told["devices"], told["rounds"]))
    print(json.dumps(found))
