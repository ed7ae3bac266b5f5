"""A board whose card died comes back under its own name, and whatever the old card still has is worth nothing."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from auricle.errors import BrokerError
from auricle.mqtt_link.link import BrokerAddress
from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle.mqtt_link.private_link import IdentityFiles
from auricle.packs.pack import load_pack
from auricle.wire.messages import Invite
from auricle_cloud.storage.store import FILE, Store
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_fleet.broker.process import BrokerProcess
from auricle_learning.runtimes import StepRuntime
from auricle_learning.training.train import Trainer
from tests.system.command_lines import serve
from tests.system.tls_site import FLEET, NEEDS_MOSQUITTO, free_port, link, until
from tests.system.toy_trainer import ASK, RESEND, toy_trainer

pytestmark = [NEEDS_MOSQUITTO, pytest.mark.slow]

NAME, TASK = "kitchen-1", "keywords"
DEADLINE = 60.0


def auricle(*words: object) -> list[str]:
    return [sys.executable, "-m", "auricle", *map(str, words)]


class DyingAgent(Agent):
    """An agent that is invited, and never heard of again."""

    async def _take_part(self, invite: Invite) -> None:
        await asyncio.Event().wait()


class House:
    """A coordinator with its broker, both processes, and boards in this one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state, self.port = folder, folder / "cloud", free_port()
        self.pin = self.ask("enrol", "init")["pin"]
        self.ask("enrol", "server", "--host", "127.0.0.1", "--out", folder)
        self.write_lists()
        command = [str(find_mosquitto()), "-c", str(folder / "broker" / "mosquitto.conf")]
        self.broker = BrokerProcess(command, folder / "broker.log", sign=" running\n")
        self.store = Store(self.state / FILE)
        self.runtime = StepRuntime(load_pack("digits"))
        self.workers = ThreadPoolExecutor(1)
        self.said: dict[str, str] = {}

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        line = auricle("cloud", *words, "--state", self.state, "--json")
        return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)

    def ask(self, *words: object) -> Any:
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def write_lists(self) -> bool:
        where = ("--fleet", FLEET, "--host", "127.0.0.1", "--listen", "127.0.0.1", "--port", self.port)
        return bool(self.ask("enrol", "broker", *where, "--out", self.folder / "broker")["reloaded"])

    @property
    def serve(self) -> list[str]:
        files = {"certificate": self.folder / "server.pem", "key": self.folder / "server.key", "state": self.state}
        about = {"fleet": FLEET, "pack": "digits", "listen": "127.0.0.1:0", "approval": "manual"}
        return auricle(*serve(broker=f"mqtts://127.0.0.1:{self.port}", **about, **files))

    def claim(self, board: Path, *how: str) -> None:
        """A token, and the board's claim with it."""
        self.ask("enrol", "token", "--device", NAME, "--out", self.folder, *how)
        told = ("--token-file", self.folder / f"{NAME}.token", "--ca-pin", self.pin, "--state", board)
        line = auricle("edge", "claim", "--server", self.said["page"], *told, "--json")
        assert json.loads(subprocess.run(line, capture_output=True, check=True, timeout=60).stdout)["device"] == NAME

    def address(self, board: Path) -> BrokerAddress:
        return IdentityFiles(board / "identity").lend(BrokerAddress.parse(f"mqtts://127.0.0.1:{self.port}"))

    @asynccontextmanager
    async def agent(self, board: Path, kind: type[Agent] = Agent) -> AsyncIterator[Agent]:
        key = bytes.fromhex(self.said["coordinator"])
        told = AgentSettings(NAME, FLEET, self.address(board), board, key, ASK, RESEND)
        agent = kind(told, toy_trainer(self.runtime, 1, Trainer), self.workers)
        running = asyncio.create_task(agent.run())
        try:
            yield agent
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def start_round(self) -> None:
        await asyncio.to_thread(self.ask, "rounds", "start", "--rounds", 1)

    async def end_round(self, number: int) -> None:
        await until(lambda: self.store.rounds.get(TASK, number).state == "published", DEADLINE)

    def refused(self) -> int:
        """Frames with a signature that is not the name's."""
        return sum(row.count for row in self.store.devices.refusals(NAME) if row.code == "signature")


@asynccontextmanager
async def house(folder: Path) -> AsyncIterator[House]:
    house = await asyncio.to_thread(House, folder)
    await house.broker.start()
    cloud = subprocess.Popen(house.serve, stdout=subprocess.PIPE, text=True)
    try:
        assert cloud.stdout is not None
        house.said = json.loads(await asyncio.wait_for(asyncio.to_thread(cloud.stdout.readline), DEADLINE))
        yield house
    finally:
        cloud.terminate()
        await asyncio.to_thread(cloud.wait, DEADLINE)
        await house.broker.stop()
        house.workers.shutdown()
        house.store.close()


@pytest.mark.nightly
async def test_a_board_whose_card_died_comes_back_under_its_name(tmp_path: Path) -> None:
    board, copy = tmp_path / "board", tmp_path / "copy"
    async with house(tmp_path) as site:
        devices = site.store.devices
        await asyncio.to_thread(site.claim, board)
        async with site.agent(board):
            await until(lambda: bool(devices.all()), DEADLINE)
            await asyncio.to_thread(site.ask, "devices", "approve", NAME)
            await site.start_round()
            await site.end_round(1)
        async with site.agent(board, DyingAgent):
            await site.start_round()
            await until(lambda: NAME in site.store.rounds.invited(TASK, 2), DEADLINE)
        shutil.copytree(board, copy)
        shutil.rmtree(board)

        refused = await asyncio.to_thread(site.run, "enrol", "token", "--device", NAME)
        await asyncio.to_thread(site.claim, board, "--replace", "--yes")
        async with site.agent(copy) as old:  # the broker has not heard of it yet
            await until(lambda: site.refused() > 0, DEADLINE)
            assert old.link.connected
        assert await asyncio.to_thread(site.write_lists)
        await until(lambda: "Reloading config" in (tmp_path / "broker.log").read_text(), DEADLINE)
        async with site.agent(board):
            await site.end_round(2)
            thief = link(site.address(copy), NAME)
            await thief.start()
            with pytest.raises(BrokerError):
                await thief.wait_connected(2.0)
            await thief.stop()
            assert thief.counters.connections == 0
        answer = await asyncio.to_thread(site.ask, "devices", "list")
        shown = await asyncio.to_thread(site.ask, "devices", "show", NAME)
        kinds = [row.kind for row in site.store.journal.events(device=NAME)]

    assert refused.returncode == 2
    assert f"{NAME} is taken: add --replace" in refused.stderr
    assert [(row["device"], row["standing"]) for row in answer["devices"]] == [(NAME, "approved")]
    assert [(row["round"], row["counted_in"]) for row in shown["history"]] == [(2, 2), (1, 1)]
    assert kinds.count("approved") == kinds.count("replaced") == kinds.count("registered") == 1
