"""Real processes that were told no pack: they agree, and a device whose fleet runs another pack says what to do."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from auricle.packs.pack import load_pack
from auricle_edge.control import ControlClient
from auricle_fleet.broker.broker import start_broker
from tests.system.child import until
from tests.system.command_lines import run, serve
from tests.system.conftest import Command
from tests.system.kept_clips import keep_clips
from tests.system.virtual_room import VirtualRoom

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FLEET, DEVICE = "den", "kitchen-1"
CONFIG = 'local = "resnet-base"\n[gate]\nload = 100\nheed_speech = false\nsettle = 0\non_metered = true\n'
DEADLINE = 200.0


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A device's folder with clips of two commands by synthetic voices."""
    keep_clips(tmp_path / "state", "home")
    return tmp_path / "state"


def fleet(
    tmp_path: Path,
    start: Callable[..., Command],
    state: Path,
    source: str,
    options: tuple[str, ...],
    story: Callable[[Command, Command], Awaitable[None]],
) -> None:
    """A broker, a coordinator with more options, and a listening device that names no pack."""
    (tmp_path / "edge.toml").write_text(CONFIG)

    async def scenario() -> None:
        users = {name: secrets.token_hex(8) for name in ("coordinator", DEVICE)}
        async with await start_broker(tmp_path, users, fleet=FLEET) as broker:
            coordinator = start(
                *serve(broker=broker.address("coordinator").url, fleet=FLEET, state=tmp_path / "coordinator"), *options
            )
            greeting = await asyncio.to_thread(coordinator.wait_line, lambda line: "coordinator" in line, DEADLINE)
            device = start(
                *run(
                    config=tmp_path / "edge.toml",
                    device=DEVICE,
                    fleet=FLEET,
                    broker=broker.address(DEVICE).url,
                    coordinator=greeting["coordinator"],
                    state=state,
                    source=source,
                )
            )
            await asyncio.to_thread(device.wait_line, lambda line: "words" in line, DEADLINE)
            await story(coordinator, device)

    asyncio.run(scenario())


def in_fleet(state: Path) -> dict[str, Any]:
    """What the running device says of its fleet."""
    told: dict[str, Any] = ControlClient(state).get("/v1/status")["fleet"]
    return told


def test_both_sides_run_home_and_a_round_is_counted(
    tmp_path: Path, room: VirtualRoom, start: Callable[..., Command], state: Path
) -> None:
    """With the own model that a board's profile names, though the pack does not bring it trained."""
    home = load_pack("home")

    async def story(coordinator: Command, device: Command) -> None:
        assert (coordinator.lines[0]["pack"], coordinator.lines[0]["pack_name"]) == (home.identity, "home")
        assert (device.lines[0]["pack"], device.lines[0]["wake"]) == (home.identity, ["computer", "jarvis"])
        assert (device.lines[0]["model"], device.lines[0]["own_model"]) == ("cascade", "resnet-base")
        done = await asyncio.to_thread(coordinator.wait_line, lambda line: line.get("round") == 1, DEADLINE)
        assert done["counted"] == 1
        assert (await asyncio.to_thread(in_fleet, state))["other_pack"] is None

    fleet(tmp_path, start, state, room.source, ("--rounds", "1"), story)


def test_a_device_of_another_pack_than_its_fleets_says_what_to_do(
    tmp_path: Path, room: VirtualRoom, start: Callable[..., Command], state: Path
) -> None:
    async def story(_: Command, device: Command) -> None:
        await until(lambda: in_fleet(state)["other_pack"], "the fleet's other pack", DEADLINE)
        told = in_fleet(state)["other_pack"]
        assert told.startswith("The fleet den runs the pack digits (")
        assert told.endswith("Start the device with --pack digits, or the coordinator with --pack home.")
        assert device.process.poll() is None

    fleet(tmp_path, start, state, room.source, ("--pack", "digits"), story)
