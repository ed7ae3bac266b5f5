"""Flower's fleet: `flower-superlink --database`, four `flower-supernode`, and an app that `flwr run` submits."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from bench.flower_fleets import DEVICES, READY, Closed, Fleet
from bench.flower_processes import free_ports, output, wait_for
from bench.step_process import Failed

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
folder = ""
rule = "FedAvg"
"""


class Flower(Fleet):
    """SuperNodes that start a ClientApp for every message, as they do by themselves.

    Parameters
    ----------
    folder
        Everything is kept in it.
    python
        That of an environment with flwr.
    """

    name = "flower"
    config = ""
    """More of an app's settings."""
    files: tuple[str, ...] = ("flower_app.py",)
    """Of the app, beside this file."""

    def __init__(self, folder: Path, python: Path, devices: int = DEVICES) -> None:
        super().__init__(folder, devices)
        self._bin, self._app, self._runs, self._run = python.parent, folder / "app", 0, ""
        self._port, *self._ports = free_ports(1 + devices)
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | {
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}",
        }

    def _home(self, name: str) -> dict[str, str]:
        return {**self._env, "FLWR_HOME": str(self.folder / f"home-{name}")}

    async def open(self) -> None:
        self._app.mkdir()
        (self._app / "pyproject.toml").write_text(PROJECT.replace("flower_app", Path(self.files[0]).stem))
        for name in self.files:
            shutil.copy(Path(__file__).with_name(name), self._app)
        home = self.folder / "home-user"
        home.mkdir()
        (home / "config.toml").write_text(
            '[superlink]\ndefault = "bench"\n\n[superlink.bench]\n'
            f'address = "127.0.0.1:{self._port}"\ninsecure = true\n'
        )
        await self.start_server()
        for i in range(self.devices):
            self._start_device(i)
        await self._all_there()

    async def start_server(self) -> None:
        self.processes.start(
            "server",
            [
                self._bin / "flower-superlink",
                "--insecure",
                "--database",
                self.folder / "state.sqlite",
                "--port",
                str(self._port),
                "--disable-runtime-dependency-installation",
            ],
            self._home("server"),
        )

    def _start_device(self, number: int) -> None:
        name = f"device-{number}"
        self.processes.start(
            name,
            [
                self._bin / "flower-supernode",
                "--insecure",
                "--superlink",
                f"127.0.0.1:{self._port}",
                "--port",
                str(self._ports[number]),
                "--node-config",
                f"number={number}",
            ],
            self._home(name),
        )

    async def start_device(self, number: int) -> None:
        self._start_device(number)
        await self._all_there()

    async def _all_there(self) -> None:
        def there() -> bool | None:
            self.processes.check()
            with closing(sqlite3.connect(f"file:{self.folder}/state.sqlite?mode=ro", uri=True, timeout=10)) as database:
                try:
                    query = "SELECT count(*) FROM node WHERE status = 'online' AND online_until > ?"
                    return bool(database.execute(query, (time.time(),)).fetchone()[0] == self.devices) or None
                except sqlite3.OperationalError:
                    return None

        await wait_for(lambda: there() if (self.folder / "state.sqlite").exists() else None, "all SuperNodes", READY)

    def server(self) -> list[int]:
        return self.processes.family("server")

    def main_server(self) -> list[int]:
        return [pid for pid in self.server() if "flower-superlink" in Path(f"/proc/{pid}/cmdline").read_text()]

    async def begin(self, rounds: int) -> None:
        self._runs += 1
        config = f"rounds={rounds} log='{self._log}' {self.config}"
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
            for before, line in pairwise(lines)
        ]

    async def state(self) -> str:
        said = await output([self._bin / "flwr", "list", "--run-id", self._run, "--format", "json"], self._home("user"))
        answer = json.loads(said)
        if not answer.get("runs"):
            raise Failed(f"flwr list: {answer.get('error-message', said)}")
        return str(answer["runs"][0]["status"])
