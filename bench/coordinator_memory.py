"""What a coordinator holds in memory, round after round, and whether that ends.

A real mosquitto, `auricle cloud serve` in a process of its own, devices that sign and send an update in every round,
and an operator who looks at everything the page looks at, after a round and at most every two seconds, and reads the
stream of events all along.

    python bench/coordinator_memory.py [--devices 12] [--rounds 800] [--settled 400] [--pause 0] [--parts] [--json]

Prints the coordinator's proportional set size (PSS), what of it is its own and no file's, threads and open files after
every fiftieth round, the line through its own memory after `--settled` rounds (least squares), per hundred rounds and
per hour, and with `--parts` the mappings that hold most at the end. PSS has a share of each file that other programs
read, too, and moves with these. `--pause` waits so many seconds between two rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import aiohttp

from auricle.packs.pack import load_pack
from auricle_cloud.storage.store import FILE, Store
from bench.coordinator import FLEET, KEEPALIVE, PACK, child, resources
from bench.process_memory import parts

EVERY = 50
VISITS = 2.0
"""Seconds between two visits, at least: more often is refused."""
PAGES = ("overview", "rounds", "devices", "journal", "models", "hearing", "rollouts", "devices/dev-00000")
LONGEST = 600.0
"""Seconds that a round may take."""


class Operator:
    """Looks at the coordinator as its page does."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url, self._due = session, url, 0.0

    async def get(self, path: str) -> bytes:
        """An answer's body; ClientResponseError where it is not a good one."""
        async with self._session.get(f"{self._url}{path}") as answer:
            answer.raise_for_status()
            return await answer.read()

    async def visit(self, number: int) -> None:
        """Look at all pages at once, as several people would, and at the metrics, where it is time to."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + VISITS
        pages = [f"/v1/{page}" for page in (*PAGES, f"rounds/{number}")]
        await asyncio.gather(*(self.get(path) for path in (*pages, "/metrics", "/healthz")))

    async def listen(self) -> None:
        """Read the stream of events until it ends."""
        async with self._session.get(f"{self._url}/v1/events", timeout=aiohttp.ClientTimeout()) as stream:
            async for _ in stream.content:
                pass


async def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run broker, coordinator, devices and operator; everything that was measured."""
    from auricle_fleet.broker.broker import start_broker

    names = [f"dev-{i:05d}" for i in range(arguments.devices)]
    users = {name: secrets.token_hex(8) for name in ("coordinator", *names)}
    state = folder / "state"
    store = Store(state / FILE)
    token = store.tokens.create("bench", "admin")
    store.close()
    async with await start_broker(folder, users, fleet=FLEET, kind="mosquitto") as broker:
        told = ["--fleet", FLEET, "--broker", broker.address("coordinator").url, "--state", str(state), "--pack", PACK]
        told += ["--devices", str(arguments.devices), "--rounds", str(arguments.rounds + 1), "--approval", "auto"]
        serve = [sys.executable, "-m", "auricle", "cloud", "serve", *told, "--listen", "127.0.0.1:0", "--json"]
        server = await asyncio.create_subprocess_exec(*serve, stdout=asyncio.subprocess.PIPE, limit=1 << 26)
        assert server.stdout is not None
        started = json.loads(await server.stdout.readline())
        everybody = [(name, broker.address(name).url, 0.0) for name in names]
        weights = load_pack(PACK).plugin_table.size
        about = {"key": started["coordinator"], "codec": "float16", "weights": weights}
        simulator = await child("--simulate", {**about, "keepalive": KEEPALIVE, "ask": 0.0, "devices": everybody})
        samples: list[dict[str, float]] = []
        try:
            async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
                operator = Operator(session, started["page"].rstrip("/"))
                listening = asyncio.create_task(operator.listen())
                began = time.monotonic()
                while line := await asyncio.wait_for(server.stdout.readline(), LONGEST):
                    number = json.loads(line).get("round", 0)
                    if not number or number > arguments.rounds:
                        continue
                    await operator.visit(number)
                    row = {"round": number, "seconds": time.monotonic() - began, **resources(server.pid)}
                    samples.append(row)
                    if number % EVERY == 0 and not arguments.json:
                        show(row)
                    if number == arguments.rounds:
                        break
                    await asyncio.sleep(arguments.pause)
                listening.cancel()
            held = [part for part in parts(server.pid, 8) if part.process == "service"]
        finally:
            server.terminate()
            simulator.kill()
            await asyncio.gather(server.wait(), simulator.wait())
    return {"samples": samples, "parts": held}


def show(row: dict[str, float]) -> None:
    """Print the line of a round."""
    print(
        f"round {row['round']:4.0f}, {row['seconds']:6.0f} s: {row['mb']:6.1f} MB, {row['own']:6.1f} of its own, "
        f"{row['threads']:.0f} threads, {row['files']:.0f} files",
        flush=True,
    )


def slopes(samples: list[dict[str, float]], settled: int) -> dict[str, float]:
    """MB by which its own memory grows after a round, per hundred rounds and per hour: lines with the least squares."""
    rows = [row for row in samples if row["round"] >= settled]
    mb = [row["own"] for row in rows]

    def slope(what: str, unit: float) -> float:
        return unit * statistics.linear_regression([row[what] for row in rows], mb).slope

    return {"a hundred rounds": slope("round", 100), "an hour": slope("seconds", 3600)}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=800)
    parser.add_argument("--settled", type=int, default=400)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(arguments, Path(folder)))
    samples = found["samples"]
    grown = slopes(samples, arguments.settled)
    if arguments.json:
        print(json.dumps({"samples": samples, "growth": grown, "load": os.getloadavg()[0]}))
        return 0
    at = {row["round"]: row["mb"] for row in samples}
    print(
        f"{at[arguments.settled]:.0f} MB after round {arguments.settled}, {samples[-1]['mb']:.0f} MB at the end, "
        f"at most {max(at.values()):.0f}; of its own from then on {grown['a hundred rounds']:+.2f} MB a hundred "
        f"rounds, {grown['an hour']:+.1f} MB an hour; load {os.getloadavg()[0]:.1f}"
    )
    for part in found["parts"] if arguments.parts else ():
        print(f"  {part.name}: {part.private:.1f} MB of its own, {part.file:.1f} MB of files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
