"""Our fleet: `auricle cloud serve`, mosquitto and four `auricle edge run --data`."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from auricle_cloud.storage.store import FILE
from auricle_fleet.broker.broker import Broker, start_broker
from bench.flower_fleets import DEVICES, READY, Closed, Fleet
from bench.flower_processes import output, wait_for


class Ours(Fleet):
    """Agents that learn from one speaker each.

    Parameters
    ----------
    folder
        Everything is kept in it.
    speech
        Folder of labelled clips.
    """

    name = "ours"
    fleet = "bench"
    pack = "gsc12"
    serve: tuple[str, ...] = ()
    """More options of `cloud serve`."""

    def __init__(self, folder: Path, speech: Path, devices: int = DEVICES) -> None:
        super().__init__(folder, devices)
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
        users = {name: secrets.token_hex(8) for name in ("coordinator", *(f"device-{i}" for i in range(self.devices)))}
        self._broker = await start_broker(self.folder, users, fleet=self.fleet, kind="mosquitto")
        await self.start_server()
        for i in range(self.devices):
            self._start_device(i)
        await self._all_there()

    async def start_server(self) -> None:
        if self.broker.pid is None:
            await self.broker.restart()
        self.processes.start(
            "server",
            [
                sys.executable,
                "-m",
                "auricle",
                "cloud",
                "serve",
                "--broker",
                self.broker.address("coordinator").url,
                "--fleet",
                self.fleet,
                "--state",
                self._state,
                "--approval",
                "auto",
                "--listen",
                "none",
                "--pack",
                self.pack,
                "--json",
                *self.serve,
            ],
            self._env,
        )
        self._greetings += 1
        await wait_for(lambda: self._key() if len(self._told()) >= self._greetings else None, "the coordinator", READY)

    def _told(self) -> list[str]:
        log = (self.folder / "server.log").read_text()
        return [json.loads(line)["coordinator"] for line in log.splitlines() if line.startswith('{"coordinator"')]

    def _key(self) -> str:
        return self._told()[-1]

    def _start_device(self, number: int) -> None:
        name = f"device-{number}"
        self.processes.start(name, [sys.executable, *self._device(number, name)], self._env)

    def _device(self, number: int, name: str) -> list[str | Path]:
        """What Python runs as a device."""
        return [
            "-m",
            "auricle",
            "edge",
            "run",
            "--device",
            name,
            "--fleet",
            self.fleet,
            "--broker",
            self.broker.address(name).url,
            "--coordinator",
            self._key(),
            "--data",
            self._speech,
            "--speaker",
            sorted({clip.name.split("_nohash_")[0] for clip in self._speech.rglob("*.wav")})[number],
            "--state",
            self.folder / name,
            "--pack",
            self.pack,
            "--json",
        ]

    async def start_device(self, number: int) -> None:
        self._start_device(number)
        await self._all_there()

    async def _all_there(self) -> None:
        def there() -> bool | None:
            self.processes.check()
            return self._rows("SELECT count(*) FROM devices WHERE online")[0][0] == self.devices or None

        await wait_for(there, "all devices", READY)

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
        await output(
            [
                sys.executable,
                "-m",
                "auricle",
                "cloud",
                "rounds",
                "start",
                "--rounds",
                str(rounds),
                "--state",
                self._state,
            ],
            self._env,
        )

    def closed(self) -> list[Closed]:
        rows = self._rows(
            "SELECT closed, (SELECT count(*) FROM updates u WHERE u.counted_in = r.round),"
            " base = (SELECT blob FROM models m WHERE m.round < r.round OR m.round IS NULL"
            " ORDER BY version DESC LIMIT 1),"
            " (SELECT max(seconds) FROM updates u WHERE u.counted_in = r.round)"
            " FROM rounds r WHERE state = 'published' AND closed IS NOT NULL AND round > ? ORDER BY round",
            self._before,
        )
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
