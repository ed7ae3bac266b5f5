"""The memory of a device that listens, idle and while it trains, on the emulated board.

Counted are the mappings of the board's own programs, not the emulator's. The emulator maps no code as code, so that
what a board gives back of its libraries after the start stays resident here. What a device holds is the claim of
`bench/edge_footprint.py`; the bounds here are half as much again: only a leak or a second copy of a model fails.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import time
from collections.abc import Callable
from dataclasses import asdict

import pytest
from bench.edge_footprint import keep_clips, speech
from bench.process_memory import GUEST, Memory, memory

from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle.wire.identity import Identity
from auricle_fleet.broker.broker import start_broker
from tests.arm64.board import Board
from tests.arm64.conftest import Shared
from tests.arm64.test_round import BoardCommand, ended
from tests.system.conftest import Command
from tests.system.virtual_room import VirtualRoom

pytestmark = [pytest.mark.arm64, pytest.mark.timeout(2700)]

FLEET, DEVICE, ROUNDS, DEADLINE = "home", "board-a", 2, 1200.0
CONFIG = "[gate]\nload = 100\nheed_speech = false\nsettle = 0\non_metered = true\n[learn]\njudge = false\n"
IDLE_SECONDS, IDLE_MB, TRAINING_MB = 20.0, 150.0, 220.0


def largest(command: Command, over: Callable[[], bool]) -> Memory:
    """The most that a command's processes hold until something is over."""
    most = memory(command.process.pid, GUEST)
    while not over():
        time.sleep(0.5)
        most = max(most, memory(command.process.pid, GUEST), key=lambda m: m.pss)
    return most


def test_what_a_listening_device_holds_idle_and_while_it_trains(
    board: Board, shared: Shared, capsys: pytest.CaptureFixture[str]
) -> None:
    if find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    keep_clips("gsc12", shared.path / DEVICE, speech("gsc12"), 50)
    (shared.path / "edge.toml").write_text(CONFIG)
    folder = shared.path / "coordinator"
    key = Identity.load_or_create(folder / "coordinator.key").public
    room = VirtualRoom(shared.path / "microphone")

    async def scenario(commands: list[Command]) -> tuple[Memory, Memory, list[int]]:
        users = {name: secrets.token_hex(8) for name in ("coordinator", DEVICE)}
        async with await start_broker(shared.path, users, fleet=FLEET, kind="mosquitto", persistence=False) as broker:
            device = BoardCommand(
                *(board, "edge", "run", "--config", f"{shared.inside}/edge.toml", "--device", DEVICE, "--fleet", FLEET),
                *("--broker", broker.address(DEVICE).url, "--coordinator", key.hex()),
                *("--state", f"{shared.inside}/{DEVICE}", "--source", f"fifo:{shared.inside}/microphone"),
                *("--pack", "gsc12", "--json"),
            )
            commands.append(device)
            await asyncio.to_thread(device.wait_line, lambda line: "words" in line, DEADLINE)
            until = time.monotonic() + IDLE_SECONDS
            idle = await asyncio.to_thread(largest, device, lambda: time.monotonic() >= until)
            coordinator = Command(
                *("cloud", "serve", "--broker", broker.address("coordinator").url, "--fleet", FLEET),
                *("--deadline", str(DEADLINE), "--rounds", str(ROUNDS), "--state", str(folder), "--approval", "auto"),
                *("--listen", "none", "--pack", "gsc12", "--json"),
            )
            commands.append(coordinator)
            last = asyncio.create_task(
                asyncio.to_thread(coordinator.wait_line, lambda line: line.get("round") == ROUNDS, DEADLINE)
            )
            training = await asyncio.to_thread(largest, device, last.done)
            await last
            counted = [line["counted"] for line in coordinator.lines if "counted" in line]
            device.signal(signal.SIGTERM)
            await asyncio.to_thread(device.end)
        return idle, training, counted

    room.open()
    try:
        with ended([]) as commands:
            idle, training, counted = asyncio.run(scenario(commands))
    finally:
        room.close()

    with capsys.disabled():
        said = {"idle": asdict(idle), "training": asdict(training), "counted": counted}
        print(f"\nMB of a listening device on the board: {json.dumps(said)}")
    assert counted == [1] * ROUNDS
    assert idle.pss < IDLE_MB
    assert training.pss < TRAINING_MB
