"""Processes of a fleet on this machine: found by a variable in their environment."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from bench.step_process import Failed

T = TypeVar("T")
MARK = "AURICLE_BENCH_PROCESS"


class Processes:
    """Programs started under names; a program's children count as its own, even those that have left its session.

    Parameters
    ----------
    folder
        Each program's output goes to `folder/NAME.log`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._token = folder, secrets.token_hex(8)
        self._started: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(self, name: str, command: Sequence[str | Path], env: Mapping[str, str]) -> None:
        """Start a program."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**env, MARK: f"{self._token}:{name}:"},
                start_new_session=True,
            )
        self._started.append((name, process))

    def check(self) -> None:
        """Look whether all run that nobody has killed.

        Raises
        ------
        Failed
            One has ended by itself.
        """
        for name, process in self._started:
            if (process.poll() or 0) > 0:
                last = (self.folder / f"{name}.log").read_text(errors="replace").strip().splitlines()[-1:]
                raise Failed(f"{name} ended with {process.returncode}: {' '.join(last)[:300]}")

    def family(self, name: str = "") -> list[int]:
        """Process ids of a program and of what it started; without a name, of all."""
        for _, process in self._started:
            process.poll()
        wanted = f"\0{MARK}={self._token}:{name}".encode() + b":" * bool(name)
        return [int(place.name) for place in Path("/proc").glob("[0-9]*") if wanted in b"\0" + _environment(place)]

    def signal(self, number: int, pids: Iterable[int]) -> None:
        """Send a signal to processes that are still there."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def end(self) -> None:
        """Kill what is left, also what that starts meanwhile."""
        while left := self.family():
            self.signal(signal.SIGKILL, left)
            time.sleep(0.05)
        for _, process in self._started:
            process.wait()


def _environment(place: Path) -> bytes:
    try:
        return (place / "environ").read_bytes()
    except OSError:
        return b""


def resident(pids: Iterable[int]) -> float:
    """Proportional set size of processes together, MB."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024 / 1e6


async def wait_for(look: Callable[[], T | None], what: str, seconds: float) -> T:
    """Look again and again until something is found.

    Raises
    ------
    Failed
        It is not there in time.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = look()
        if found is not None:
            return found
        await asyncio.sleep(0.05)
    raise Failed(f"waited {seconds:.0f} s in vain for {what}")


async def output(command: Sequence[str | Path], env: Mapping[str, str]) -> str:
    """What a command prints.

    Raises
    ------
    Failed
        It ends with another code than 0.
    """
    process = await asyncio.create_subprocess_exec(
        *map(str, command), env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await process.communicate()
    if process.returncode != 0:
        last = (errors or out).decode(errors="replace").strip().splitlines()[-1:]
        raise Failed(f"{Path(command[0]).name} ended with {process.returncode}: {' '.join(last)[:300]}")
    return out.decode()


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on now, all different."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
