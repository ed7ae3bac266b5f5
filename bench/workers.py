"""What an update costs with one, two and three coordinators of one PostgreSQL, and how long their rounds take.

A real mosquitto, a PostgreSQL of its own, coordinators in processes of their own, and simulated devices with real links
that sign and send an update of the plug-in's size in every round to which they are invited. All run on the same cores,
so that CPU time is what is compared: of the coordinators together, of the database, and of the broker.

    python bench/workers.py [--workers 1,2,3] [--devices 300] [--rounds 10] [--participation 1] [--turns 1] [--json]

Rounds after the first count, which loads the code. A round's seconds are between two models.
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
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.cloud.postgres import Server, programs

from auricle.errors import AuricleError
from auricle.mqtt_link.settings import BrokerAddress
from auricle.packs.pack import load_pack
from auricle.wire.kinds import WORKERS
from auricle_cloud.service import Started, run_service
from auricle_cloud.settings import RoundDone, RunSettings
from auricle_cloud.storage.store import Store
from auricle_learning.methods import MethodSettings
from auricle_learning.presets import PAPER
from bench.comparison_table import table
from bench.coordinator import FLEET, PACK, child, cpu


async def work(told: dict[str, Any]) -> None:
    """Be one of the coordinators, and print a line when it leads, and for each round."""

    async def show_round(done: RoundDone) -> None:
        print(json.dumps({"round": done.number, "seconds": done.seconds, "counted": done.counted}), flush=True)

    def greet(said: Started) -> None:
        print(json.dumps({"coordinator": said.key}), flush=True)

    settings = RunSettings(
        FLEET,
        BrokerAddress.parse(told["broker"]),
        Path(told["folder"]),
        told["rounds"],
        devices=told["devices"],
        participation=told["participation"],
        gather=600.0,
        quorum=1.0,
        preset=replace(PAPER, method=MethodSettings("fedavg")),
        database=told["database"],
        worker=BrokerAddress.parse(told["worker"]),
    )
    await run_service(settings, load_pack(PACK), None, None, greet, show_round)


async def start_worker(told: dict[str, Any]) -> Any:
    """Start one of the coordinators."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, __file__, "--work", stdin=pipe, stdout=pipe)
    process.stdin.write(json.dumps(told).encode() + b"\n")
    await process.stdin.drain()
    return process


async def measure(given: argparse.Namespace, workers: int, folder: Path, server: Server) -> dict[str, Any]:
    """A run with so many coordinators: CPU an update by process, seconds a round, and what counted."""
    from auricle_fleet.broker.broker import start_broker

    names = [f"dev-{i:05d}" for i in range(given.devices)]
    users = {name: secrets.token_hex(8) for name in ("coordinator", *WORKERS, *names)}
    database = server.empty()
    async with await start_broker(folder, users, fleet=FLEET, kind="mosquitto") as broker:
        about = {"broker": broker.address("coordinator").url, "folder": str(folder / "state"), "database": database}
        about |= {name: getattr(given, name) for name in ("devices", "rounds", "participation")}
        running = []
        for name in WORKERS[:workers]:
            running.append(await start_worker({**about, "worker": broker.address(name).url}))
            if len(running) == 1:
                key = json.loads(await running[0].stdout.readline())["coordinator"]
        told = {
            "key": key,
            "codec": given.codec,
            "weights": load_pack(PACK).plugin_table.size,
            "keepalive": 120,
            "ask": 0.0,
            "devices": [(name, broker.address(name).url, 0.0) for name in names],
        }
        simulator = await child("--simulate", told)
        connected = json.loads(await simulator.stdout.readline())["connected"]
        parts = {"coordinators": [each.pid for each in running], "broker": [broker.pid]}
        rounds, marks = [], []
        while line := await running[0].stdout.readline():
            rounds.append(json.loads(line))
            marks.append({part: cpu(pids) for part, pids in parts.items()} if len(rounds) < given.rounds else marks[-1])
        await asyncio.gather(*(each.wait() for each in running))
        out, _ = await simulator.communicate(b"")
    with_counts = Store(database)
    counted = sum(with_counts.updates.how_many("keywords", number) for number in range(1, given.rounds + 1))
    measured = sum(each["counted"] for each in rounds[1 : given.rounds - 1])
    with_counts.close()
    server.drop(database)
    seconds = [each["seconds"] for each in rounds[1:]]
    answered = len(json.loads(out)["waits"])
    return {
        "workers": workers,
        "connected": connected,
        "counted": counted,
        "acknowledged": answered,
        **{f"{part} ms": 1000 * (marks[-1][part] - marks[0][part]) / measured for part in parts},
        "round s": statistics.median(seconds),
        "longest round s": max(seconds),
        "load": os.getloadavg()[0],
    }


def written(figure: float) -> str:
    """A figure in a table."""
    return f"{figure:.2f}" if isinstance(figure, float) else str(figure)


def main() -> int:
    """Measure and print; 1 where there is no PostgreSQL."""
    if "--work" in sys.argv:
        try:
            asyncio.run(work(json.loads(sys.stdin.readline())))
        except AuricleError as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", default="1,2,3", help="how many coordinators, of each run [1,2,3]")
    parser.add_argument("--devices", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--participation", type=float, default=1.0)
    parser.add_argument("--codec", default="float16")
    parser.add_argument("--turns", type=int, default=1, help="runs of each, in turns [1]")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    place = programs()
    if place is None:
        print("PostgreSQL (initdb, postgres) is not installed.", file=sys.stderr)
        return 1
    server = Server(place)
    results = []
    try:
        for _ in range(given.turns):
            for workers in map(int, given.workers.split(",")):
                with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                    results.append(asyncio.run(measure(given, workers, Path(folder), server)))
                print(json.dumps(results[-1]), file=sys.stderr)
    finally:
        server.stop()
    if given.json:
        print(json.dumps({"cores": os.cpu_count(), "runs": results}))
        return 0
    columns = list(results[0])
    print(table(columns, [[written(row[name]) for name in columns] for row in results]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
