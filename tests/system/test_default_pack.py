"""Real processes that were told no pack: they agree, and a device whose fleet runs another pack says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from auricle.packs.pack import load_pack
from auricle_edge.control import ControlClient
from tests.system.child import until
from tests.system.command_lines import home, round_of
from tests.system.conftest import Command
from tests.system.kept_clips import keep_clips
from tests.system.virtual_room import VirtualRoom

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DEVICE = "kitchen-1"
CONFIG = 'local = "resnet-base"\n[gate]\nload = 100\nheed_speech = false\nsettle = 0\non_metered = true\n'
DEADLINE = 200.0


def fleet(
    tmp_path: Path,
    start: Callable[..., Command],
    source: str,
    options: tuple[str, ...],
    story: Callable[[Command, Command], Awaitable[None]],
) -> None:
    """A coordinator with more options, and a listening device that names no pack and has clips of two commands."""
    (tmp_path / "edge.toml").write_text(CONFIG)
    keep_clips(tmp_path / DEVICE, "home")

    async def scenario() -> None:
        async with home(start, tmp_path, DEVICE) as here:
            coordinator = await here.coordinator(*options, seconds=DEADLINE)
            device = await here.device(DEVICE, seconds=DEADLINE, config=tmp_path / "edge.toml", source=source)
            await story(coordinator, device)

    asyncio.run(scenario())


def in_fleet(state: Path) -> dict[str, Any]:
    """What the running device says of its fleet."""
    told: dict[str, Any] = ControlClient(state).get("/v1/status")["fleet"]
    return told


def test_both_sides_run_home_and_a_round_is_counted(
    tmp_path: Path, room: VirtualRoom, start: Callable[..., Command]
) -> None:
    """With the own model that a board's profile names, though the pack does not bring it trained."""
    home = load_pack("home")

    async def story(coordinator: Command, device: Command) -> None:
        assert (coordinator.lines[0]["pack"], coordinator.lines[0]["pack_name"]) == (home.identity, "home")
        assert (device.lines[0]["pack"], device.lines[0]["wake"]) == (home.identity, ["computer", "jarvis"])
        assert (device.lines[0]["model"], device.lines[0]["own_model"]) == ("cascade", "resnet-base")
        assert (await round_of(coordinator, 1, DEADLINE))["counted"] == 1
        assert (await asyncio.to_thread(in_fleet, tmp_path / DEVICE))["other_pack"] is None

    fleet(tmp_path, start, room.source, ("--rounds", "1"), story)


@pytest.mark.nightly
def test_a_device_of_another_pack_than_its_fleets_says_what_to_do(
    tmp_path: Path, room: VirtualRoom, start: Callable[..., Command]
) -> None:
    async def story(_: Command, device: Command) -> None:
        await until(lambda: in_fleet(tmp_path / DEVICE)["other_pack"], "the fleet's other pack", DEADLINE)
        told = in_fleet(tmp_path / DEVICE)["other_pack"]
        assert "--pack digits" in told and "--pack home" in told
        assert device.process.poll() is None

    fleet(tmp_path, start, room.source, ("--pack", "digits"), story)
