"""A process of a test: its lines of JSON and what it says on stderr, taken in while it runs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

DEADLINE = 60.0


async def until(condition: Callable[[], object], what: str, seconds: float = DEADLINE) -> None:
    """Wait until something is so; fails when it is not in time."""
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + seconds, 0.01
    while not condition():
        assert loop.time() < deadline, f"waited {seconds:.0f} s in vain for {what}"
        await asyncio.sleep(pause)
        pause = min(1.1 * pause, 0.1)  # what asks a database a hundred times a second costs a core, and for hours


class Child:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self._news = asyncio.Event()
        self._readers = [asyncio.ensure_future(self._read_lines()), asyncio.ensure_future(self._read_errors())]

    @classmethod
    async def start(cls, module: str, argument: str) -> Child:
        """Run a module of these tests with one argument."""
        command, pipe = (sys.executable, "-m", module, argument), asyncio.subprocess.PIPE
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return cls(await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=environment))

    async def _read_lines(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(json.loads(line))
            self._news.set()
        self._news.set()

    async def _read_errors(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.errors.append(line.decode())
            self._news.set()
        self._news.set()

    async def line(
        self, wanted: Callable[[dict[str, Any]], object], seconds: float = DEADLINE, start: int = 0
    ) -> dict[str, Any]:
        """The first line from number `start` on that is wanted; fails when the process ends before, or in time."""
        found: dict[str, Any] | None
        found = await self._first(lambda: next((line for line in self.lines[start:] if wanted(line)), None), seconds)
        assert found is not None, f"no such line; said {self.lines[-3:]}, {''.join(self.errors)[-2000:]}"
        return found

    async def complaint(self, text: str, seconds: float = DEADLINE, start: int = 0) -> str:
        """The first line on stderr, from number `start` on, that has this text."""
        found: str | None
        found = await self._first(lambda: next((line for line in self.errors[start:] if text in line), None), seconds)
        assert found is not None, f"never said {text!r}, but {''.join(self.errors)[-2000:]}"
        return found

    async def _first(self, look: Callable[[], Any], seconds: float) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            self._news.clear()
            found, left = look(), deadline - loop.time()
            if found is not None or left <= 0 or all(reader.done() for reader in self._readers):
                return found
            try:
                await asyncio.wait_for(self._news.wait(), left)
            except asyncio.TimeoutError:
                continue

    def signal(self, number: int) -> None:
        """Send a signal to this process only."""
        self.process.send_signal(number)

    async def end(self, seconds: float = 90.0) -> tuple[int, str]:
        """Wait for the end: exit code, and what was said on stderr."""
        code = await asyncio.wait_for(self.process.wait(), seconds)
        await asyncio.gather(*self._readers)
        return code, "".join(self.errors)

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.signal(signal.SIGKILL)
        await self.end()
