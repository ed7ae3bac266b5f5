"""Two fleets with the same buttons: ours and Flower's, every device and every server a process of its own."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import sqlite3
import sys
import time
from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from auricle_cloud.storage.store import FILE
from auricle_fleet.broker import Broker, start_broker
from bench.flower_processes import Failed, Processes, free_ports, output, wait_for

DEVICES = 4
READY = 120.0
"""Seconds for a fleet to be there."""
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Closed:
    """A round that is over."""

    at: float
    """Seconds since 1970."""
    counted: int
    goes_on: bool
    """Whether it was trained from the model of the round before it; of a first round, whether from a first model."""
    training: float = 0.0
    """Seconds the slowest device trained, where it is told."""


class Fleet(ABC):
    """Four devices and what serves them.

    Parameters
    ----------
    folder
        Everything is kept in it.
    """

    name: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.processes = Processes(folder)

    @abstractmethod
    async def open(self) -> None:
        """Start everything and wait until all devices are there."""

    @abstractmethod
    async def start_device(self, number: int) -> None:
        """Start a device and wait until four are there."""

    @abstractmethod
    async def start_server(self) -> None:
        """Start what serves the devices, on the database that it has left."""

    @abstractmethod
    def server(self) -> list[int]:
        """Process ids of all that serves the devices."""

    @abstractmethod
    def main_server(self) -> list[int]:
        """Of these, the one that keeps the database."""

    @abstractmethod
    async def begin(self, rounds: int) -> None:
        """Ask for rounds; `closed` tells of these alone."""

    @abstractmethod
    def closed(self) -> list[Closed]:
        """Rounds that are over, in order."""

    @abstractmethod
    async def state(self) -> str:
        """The word the fleet has for the state of what was begun."""

    def device(self, number: int) -> list[int]:
        """Process ids of a device."""
        return self.processes.family(f"device-{number}")

    def kill_server(self, *, everything: bool) -> None:
        """SIGKILL to all that serves, or to the main process only."""
        self.processes.signal(signal.SIGKILL, self.server() if everything else self.main_server())

    async def close(self) -> None:
        """End all processes."""
        self.processes.end()


class Ours(Fleet):
    """`auricle cloud serve`, mosquitto and four `auricle edge run --speech`."""

    name = "ours"
    fleet = "bench"

    def __init__(self, folder: Path, speech: Path) -> None:
        super().__init__(folder)
        self._speech, self._state, self._before = speech, folder / "coordinator", 0
        self._broker: Broker | None = None
        self._env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(Path(part).resolve()) for part in sys.path if part),
        }
        self._greetings = 0

    @property
    def broker(self) -> Broker:
        """The broker, which runs as long as the fleet."""
        assert self._broker is not None
        return self._broker

    async def open(self) -> None:
        users = {name: secrets.token_hex(8) for name in ("coordinator", *(f"device-{i}" for i in range(DEVICES)))}
        self._broker = await start_broker(self.folder, users, fleet=self.fleet, kind="mosquitto")
        await self.start_server()
        for i in range(DEVICES):
            self._start_device(i)
        await self._all_there()

    async def start_server(self) -> None:
        if self.broker.pid is None:
            await self.broker.restart()
        self.processes.start("server", [
            sys.executable, "-m", "auricle", "cloud", "serve", "--broker", self.broker.address("coordinator").url,
            "--fleet", self.fleet, "--state", self._state, "--approval", "auto", "--listen", "none", "--json",
        ], self._env)  # fmt: skip
        self._greetings += 1
        await wait_for(lambda: self._key() if len(self._told()) >= self._greetings else None, "the coordinator", READY)

    def _told(self) -> list[str]:
        log = (self.folder / "server.log").read_text()
        return [json.loads(line)["coordinator"] for line in log.splitlines() if line.startswith('{"coordinator"')]

    def _key(self) -> str:
        return self._told()[-1]

    def _start_device(self, number: int) -> None:
        name = f"device-{number}"
        self.processes.start(name, [
            sys.executable, "-m", "auricle", "edge", "run", "--device", name, "--fleet", self.fleet,
            "--broker", self.broker.address(name).url, "--coordinator", self._key(), "--speech", self._speech,
            "--speaker", sorted({clip.name.split("_nohash_")[0] for clip in self._speech.rglob("*.wav")})[number],
            "--state", self.folder / name, "--json",
        ], self._env)  # fmt: skip

    async def start_device(self, number: int) -> None:
        self._start_device(number)
        await self._all_there()

    async def _all_there(self) -> None:
        def there() -> bool | None:
            return self._rows("SELECT count(*) FROM devices WHERE online")[0][0] == DEVICES or None

        await wait_for(there, "four devices", READY)

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(f"file:{self._state / FILE}?mode=ro", uri=True, timeout=10)) as database:
            return database.execute(query, values).fetchall()

    def server(self) -> list[int]:
        return [*self.main_server(), *([self.broker.pid] if self.broker.pid else [])]

    def main_server(self) -> list[int]:
        return self.processes.family("server")

    def kill_server(self, *, everything: bool) -> None:
        super().kill_server(everything=everything)
        if everything:
            self.broker.kill()

    async def begin(self, rounds: int) -> None:
        self._before = self._rows("SELECT coalesce(max(round), 0) FROM rounds")[0][0]
        await output([
            sys.executable, "-m", "auricle", "cloud", "rounds", "start", "--count", str(rounds), "--state", self._state,
        ], self._env)  # fmt: skip

    def closed(self) -> list[Closed]:
        rows = self._rows(
            "SELECT closed, (SELECT count(*) FROM updates u WHERE u.counted_in = r.round),"
            " base = (SELECT blob FROM models m WHERE m.round < r.round OR m.round IS NULL"
            " ORDER BY version DESC LIMIT 1),"
            " (SELECT max(seconds) FROM updates u WHERE u.counted_in = r.round)"
            " FROM rounds r WHERE state = 'published' AND closed IS NOT NULL AND round > ? ORDER BY round",
            self._before,
        )  # fmt: skip
        return [Closed(at, counted, bool(kept), training or 0.0) for at, counted, kept, training in rows]

    async def state(self) -> str:
        states = [row[0] for row in self._rows("SELECT state FROM rounds WHERE round > ?", self._before)]
        if set(states) == {"published"}:
            return "finished"
        return "aborted" if "aborted" in states else "running"

    async def close(self) -> None:
        await super().close()
        if self._broker is not None:
            await self._broker.stop()


PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "bench-app"
version = "1.0.0"
description = "Adds one"
license = "Apache-2.0"
dependencies = ["flwr", "numpy"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "bench"

[tool.flwr.app.components]
serverapp = "flower_app:server"
clientapp = "flower_app:client"

[tool.flwr.app.config]
rounds = 1
log = ""
"""


class Flower(Fleet):
    """`flower-superlink --database`, four `flower-supernode`, and an app that `flwr run` submits."""

    name = "flower"

    def __init__(self, folder: Path, python: Path) -> None:
        super().__init__(folder)
        self._bin, self._app, self._runs, self._run = python.parent, folder / "app", 0, ""
        self._port, *self._ports = free_ports(1 + DEVICES)
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | {
            "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1",
            "PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}",
        }  # fmt: skip

    def _home(self, name: str) -> dict[str, str]:
        return {**self._env, "FLWR_HOME": str(self.folder / f"home-{name}")}

    async def open(self) -> None:
        self._app.mkdir()
        (self._app / "pyproject.toml").write_text(PROJECT)
        shutil.copy(ROOT / "bench" / "flower_app.py", self._app)
        home = self.folder / "home-user"
        home.mkdir()
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "bench"\n\n[superlink.bench]\naddress = "127.0.0.1:{self._port}"\ninsecure = true\n'
        )
        await self.start_server()
        for i in range(DEVICES):
            self._start_device(i)
        await self._all_there()

    async def start_server(self) -> None:
        self.processes.start("server", [
            self._bin / "flower-superlink", "--insecure", "--database", self.folder / "state.sqlite",
            "--port", str(self._port), "--disable-runtime-dependency-installation",
        ], self._home("server"))  # fmt: skip

    def _start_device(self, number: int) -> None:
        name = f"device-{number}"
        self.processes.start(name, [
            self._bin / "flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{self._port}",
            "--port", str(self._ports[number]),
        ], self._home(name))  # fmt: skip

    async def start_device(self, number: int) -> None:
        self._start_device(number)
        await self._all_there()

    async def _all_there(self) -> None:
        def there() -> bool | None:
            with closing(sqlite3.connect(f"file:{self.folder}/state.sqlite?mode=ro", uri=True, timeout=10)) as database:
                try:
                    query = "SELECT count(*) FROM node WHERE status = 'online' AND online_until > ?"
                    return bool(database.execute(query, (time.time(),)).fetchone()[0] == DEVICES) or None
                except sqlite3.OperationalError:
                    return None

        await wait_for(lambda: there() if (self.folder / "state.sqlite").exists() else None, "four SuperNodes", READY)

    def server(self) -> list[int]:
        return self.processes.family("server")

    def main_server(self) -> list[int]:
        return [pid for pid in self.server() if "flower-superlink" in Path(f"/proc/{pid}/cmdline").read_text()]

    async def begin(self, rounds: int) -> None:
        self._runs += 1
        config = f"rounds={rounds} log='{self._log}'"
        said = await output(
            [self._bin / "flwr", "run", self._app, "-c", config, "--format", "json"], self._home("user")
        )
        answer = json.loads(said)
        if not answer["success"]:
            raise Failed(f"flwr run: {answer.get('error-message', said)}")
        self._run = answer["run-id"]

    @property
    def _log(self) -> Path:
        return self.folder / f"rounds-{self._runs}.jsonl"

    def closed(self) -> list[Closed]:
        """The first line of a run is its first model."""
        text = self._log.read_text() if self._log.exists() else ""
        lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        return [
            Closed(line["at"], line["counted"], line["model"] == before["model"] + 1)
            for before, line in zip(lines, lines[1:], strict=False)
        ]

    async def state(self) -> str:
        said = await output([self._bin / "flwr", "list", "--run-id", self._run, "--format", "json"], self._home("user"))
        return str(json.loads(said)["runs"][0]["status"])
