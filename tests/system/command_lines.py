"""Command lines of coordinators and devices by the names of their options, and a broker with processes of them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from auricle_fleet.broker.broker import Broker, start_broker
from tests.system.conftest import DEADLINE, Command

FLEET = "home"


def options(**given: object) -> list[str]:
    """`name=value` as `--name value`; True is a flag, and what is None is left out."""
    pairs = [(f"--{name.replace('_', '-')}", value) for name, value in given.items() if value is not None]
    return [word for name, value in pairs for word in ([name] if value is True else [name, str(value)])]


def serve(**more: object) -> list[str]:
    """`auricle cloud serve` without a page, which approves every device."""
    return ["cloud", "serve", *options(**{"approval": "auto", "listen": "none", "json": True, **more})]


def run(**more: object) -> list[str]:
    return ["edge", "run", *options(**{"json": True, **more})]


class Home:
    """A broker, of which the coordinator and the devices that are started here know."""

    def __init__(self, broker: Broker, start: Callable[..., Command], folder: Path) -> None:
        self.broker, self._start, self._folder = broker, start, folder
        self.key = ""

    async def coordinator(self, *more: str, seconds: float = DEADLINE, **told: object) -> Command:
        about = {"fleet": FLEET, "state": self._folder / "coordinator", **told}
        command = self._start(*serve(broker=self.broker.address("coordinator").url, **about), *more)
        self.key = (await said(command, lambda line: "coordinator" in line, seconds))["coordinator"]
        return command

    async def device(self, name: str, word: str = "words", seconds: float = DEADLINE, **told: object) -> Command:
        """It has said a line with this word."""
        about = {"broker": self.broker.address(name).url, "coordinator": self.key, "state": self._folder / name, **told}
        command = self._start(*run(device=name, fleet=FLEET, **about))
        await said(command, lambda line: word in line, seconds)
        return command


async def said(command: Command, wanted: Callable[[dict[str, Any]], bool], seconds: float = DEADLINE) -> dict[str, Any]:
    """Wait for a line."""
    return await asyncio.to_thread(command.wait_line, wanted, seconds)


async def round_of(coordinator: Command, number: int, seconds: float = DEADLINE) -> dict[str, Any]:
    """Wait for the line of a round."""
    return await said(coordinator, lambda line: line.get("round") == number, seconds)


@asynccontextmanager
async def home(start: Callable[..., Command], folder: Path, *devices: str) -> AsyncIterator[Home]:
    """With a broker without memory, for these devices."""
    users = {name: secrets.token_hex(8) for name in ("coordinator", *devices)}
    async with await start_broker(folder / "broker", users, fleet=FLEET, persistence=False) as broker:
        yield Home(broker, start, folder)
