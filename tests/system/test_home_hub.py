"""A home without an operator: one command on the hub, one on each device, as they are typed, and what breaks later."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle.wire.join_codes import read_code
from auricle_cloud.commands.home_broker import LOG
from auricle_cloud.identity.broker_files import PID_FILE
from auricle_cloud.identity.broker_folder import mosquitto_process
from auricle_cloud.storage.nightly_backup import backups_in
from auricle_edge.fleet.identity_claim.claim import read_claim
from auricle_edge.fleet.identity_claim.home import find_hubs, join
from tests.system.child import until
from tests.system.command_lines import said
from tests.system.conftest import Command
from tests.system.tls_site import free_port
from tests.system.virtual_room import VirtualRoom

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is not installed"),
]

SECONDS = 200.0


@dataclass
class House:
    """A home on this machine: loopback, ports that are free, and otherwise what people type."""

    start: Callable[..., Command]
    folder: Path
    speech: Path
    api: int = field(default_factory=free_port)
    broker: int = field(default_factory=free_port)
    lines: list[tuple[str, ...]] = field(default_factory=list)
    """Commands so far."""

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.api}"

    def type(self, *words: str) -> Command:
        self.lines.append(words)
        return self.start(*words, env=self.environment)

    @property
    def environment(self) -> dict[str, str]:
        return {"XDG_CONFIG_HOME": str(self.folder / "config")}

    async def hub(self, *more: str, host: str = "127.0.0.1") -> tuple[Command, str]:
        """A hub, and its code."""
        here = ("--state", str(self.folder / "hub"), "--host", host, "--json", *(more or ("--pack", "gsc12")))
        ports = ("--listen", f"127.0.0.1:{self.api}", "--embedded-port", str(self.broker))
        command = self.type("cloud", "serve", "--home", *here, *ports)
        line = await said(command, lambda line: "home" in line, SECONDS)
        return command, line["home"]["code"]

    async def device(self, number: int, *more: str) -> Command:
        """A device that learns from recordings of one speaker."""
        speakers = sorted({path.name.split("_nohash_")[0] for path in self.speech.rglob("*.wav")})
        learns = ("--data", str(self.speech), "--speaker", speakers[number], "--pack", "gsc12", "--json")
        command = self.type("edge", "run", "--home", "--state", str(self.state(number)), *learns, *more)
        await said(command, lambda line: "training_clips" in line, SECONDS)
        return command

    def state(self, number: int) -> Path:
        return self.folder / f"device{number}"


@pytest.fixture
def house(start: Callable[..., Command], tmp_path: Path, speech_folder: Path) -> House:
    return House(start, tmp_path, speech_folder)


async def where(url: str) -> tuple[str, ...]:
    """Nothing, where announcements reach this machine's own programs; else the hub's address."""
    return () if url in await asyncio.to_thread(find_hubs) else ("--hub", url)


async def test_four_commands_make_a_home_and_every_later_start_is_one_of_them(house: House) -> None:
    hub, code = await house.hub()
    address = await where(house.url)
    devices = [await house.device(number, "--code", code.lower(), *address) for number in range(3)]
    await said(hub, lambda line: line.get("state") == "published" and line["counted"] == 3, SECONDS)
    assert len(house.lines) == 4
    kept = [read_claim(house.state(number)) for number in range(3)]
    assert [each.device for each in kept if each is not None] == ["device-001", "device-002", "device-003"]
    await until(lambda: backups_in(house.folder / "hub" / "backups"), "the first backup", SECONDS)

    # A device restarts: the same command without a code.
    devices[0].signal(signal.SIGTERM)
    devices[0].end()
    devices[0] = await house.device(0, *address)

    # The hub is killed, with all it had in memory, and leaves its broker behind; the same command again.
    pid = mosquitto_process(house.folder / "hub" / "broker" / PID_FILE)
    hub.signal(signal.SIGKILL)
    hub.end()
    assert pid is not None
    hub, again = await house.hub()
    assert again != code
    assert mosquitto_process(house.folder / "hub" / "broker" / PID_FILE) not in (None, pid)
    await _online(house, 3)

    # The broker dies alone.
    pid = mosquitto_process(house.folder / "hub" / "broker" / PID_FILE)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(
        lambda: mosquitto_process(house.folder / "hub" / "broker" / PID_FILE) not in (None, pid), "another mosquitto"
    )
    await _online(house, 3)
    assert (house.folder / "hub" / LOG).is_file()

    # The hub gets another address and other ports; a device that starts finds it again, or is given the address.
    hub.signal(signal.SIGTERM)
    hub.end()
    for device in devices:
        device.signal(signal.SIGTERM)
        device.end()
    house.api, house.broker = free_port(), free_port()
    await house.hub(host="localhost")
    address = await where(house.url)
    for number in range(3):
        await house.device(number, *address)
    await _online(house, 3)
    moved = read_claim(house.state(0))
    assert moved is not None
    assert moved.server == house.url


async def _online(house: House, count: int) -> None:
    """So many devices are, by the hub's own answer."""

    def online() -> bool:
        seen = house.start("cloud", "overview", "--json", env=house.environment)
        seen.end()
        return bool(seen.lines) and seen.lines[0]["online"] == count and not seen.lines[0]["trouble"]

    await until(online, f"{count} devices online", SECONDS)


async def test_a_device_that_listens_follows_its_hub_without_a_restart_by_hand(house: House, room: VirtualRoom) -> None:
    hub, code = await house.hub("--pack", "home")
    if await where(house.url):
        pytest.skip("announcements do not reach this machine's own programs")
    join(house.state(0), [house.url], read_code(code), "kitchen-1", time.time())
    device = house.start(str(house.state(0)), room.source, module="tests.system.home_child")
    await said(device, lambda line: "words" in line, SECONDS)
    await _online(house, 1)
    hub.signal(signal.SIGTERM)
    hub.end()
    house.api, house.broker = free_port(), free_port()
    await house.hub("--pack", "home")
    await _online(house, 1)
    kept = read_claim(house.state(0))
    assert kept is not None
    assert kept.server == house.url
    assert device.process.poll() is None


async def test_a_wrong_code_is_refused_and_nothing_is_kept(house: House) -> None:
    _, code = await house.hub()
    wrong = ("0" if code[0] != "0" else "1") + code[1:]
    refused = house.type("edge", "run", "--home", "--state", str(house.state(0)), "--code", wrong, "--hub", house.url)
    assert refused.end() != 0
    assert "9 times more" in refused.errors
    assert read_claim(house.state(0)) is None
