"""Our fleet of the comparison: `auricle cloud serve`, mosquitto, and agents whose training is that of all sides."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from auricle.wire.tensors import decode
from auricle_cloud.storage.blobs import Blobs
from bench.flower_ours import Ours
from bench.flower_processes import output
from bench.reliability_device import PACK, Told
from bench.reliability_fleets import Made, Watched
from bench.reliability_task import ATTACKER, SIZE, quarters


class OursWatched(Watched, Ours):
    """Agents with the settings that they come with."""

    title = "Auricle"
    rules = ("fedavg", "lpa")
    pack = PACK
    serve = ("--method", "fedavg", "--preset", "paper", "--start", "scratch")

    def __init__(self, folder: Path, devices: int) -> None:
        super().__init__(folder, folder, devices)

    def _device(self, number: int, name: str) -> list[str | Path]:
        told = Told(
            number=number,
            device=name,
            fleet=self.fleet,
            broker=self.broker.address(name).url,
            key=self._key(),
            state=str(self.folder / name),
            bench=str(self.folder),
        )
        return [Path(__file__).with_name("reliability_device.py"), msgspec.json.encode(told).decode()]

    async def choose(self, rule: str) -> None:
        """Start the coordinator again with another rule."""
        self.serve = ("--method", rule, *self.serve[2:])
        super().kill_server(everything=False)
        await self.start_server()
        await self._all_there()

    def models(self) -> list[Made]:
        found = self._rows(
            "SELECT m.blob, coalesce(r.closed, 0), coalesce(m.round, 0) FROM models m LEFT JOIN rounds r"
            " ON r.task = m.task AND r.round = m.round ORDER BY m.version"
        )
        blobs, old = Blobs(self._state / "blobs"), [row for row in found if row[2] <= self._before]
        new = [row for row in found if row[2] > self._before]
        return [Made(at, tuple(quarters(decode(blobs.get(blob), SIZE)))) for blob, at, _ in (*old[-1:], *new)]

    def taken(self) -> int:
        query = "SELECT count(*) FROM updates WHERE round = (SELECT max(round) FROM rounds WHERE state = 'collecting')"
        return int(self._rows(query)[0][0])

    def forget(self) -> None:
        """A refused update leaves nothing behind, and rounds go on with the newest model."""

    async def said(self, since: int) -> str:
        number = str(self._rows("SELECT max(round) FROM rounds WHERE state = 'published'")[0][0])
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "auricle",
            "cloud",
            "rounds",
            "why",
            number,
            "--state",
            self._state,
        ]
        lines = (await output(command, {**self._env, "COLUMNS": "400"})).splitlines()
        about = [line.strip() for line in lines if f"device-{ATTACKER}" in line]
        return " ".join(about) or "nothing"

    def done(self) -> int:
        query = "SELECT count(*) FROM rounds WHERE state = 'published' AND round > ?"
        return int(self._rows(query, self._before)[0][0])
