"""Many devices on a real broker: all are counted, nothing grows, and a broker's death brings no storm (L1, L2, S7).

With AURICLE_FULL_SIZE in the environment also what no small machine does in minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from auricle.process.open_files import raise_open_files
from tests.recorder import Record
from tests.system.child import until
from tests.system.killed_coordinator import FLEET
from tests.system.simulated_device import SimulatedDevice
from tests.system.tls_site import NEEDS_MOSQUITTO
from tests.system.toy_fleet import toy_fleet

FULL = "AURICLE_FULL_SIZE" in os.environ
STORM = 5000 if FULL else 1000  # devices that come back at once
CHECKOUT = Path(__file__).parents[2]
POOL = min(32, (os.cpu_count() or 1) + 4)
"""Threads of asyncio's pool, which start one by one, when all that there are have work."""
OTHERS = 4 + 2 * (os.cpu_count() or 1)
"""The main one, those that connect, hold the state's lock and clean up, and those of BLAS and of the rules."""

pytestmark = [NEEDS_MOSQUITTO, pytest.mark.slow, pytest.mark.timeout(1800)]


def loaded(devices: int, rounds: int, codec: str, record: Record) -> dict[str, Any]:
    """What `bench/coordinator.py` measured; the figures that belong on the page are recorded."""
    command = [sys.executable, "bench/coordinator.py", "--devices", str(devices), "--rounds", str(rounds)]
    done = subprocess.run([*command, "--codec", codec, "--json"], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    record("devices", devices)
    record("update bytes", told["bytes"])
    record("connected", told["connected"])
    record("connect s", round(told["connect_seconds"], 1))
    record("SUBACK errors", told["suback_errors"])
    record("counted", told["counted"])
    record("rounds", len(told["rounds"]))
    record("updates/s", round(told["updates_per_second"]))
    record("ack p99 s", round(told["ack_p99"], 2))
    record("coordinator MB", round(told["mb_most"]))
    record("growth MB", round(told["growth"]["mb"], 1))
    record("threads at most", told["threads_most"])
    record("late growth threads", told["late_growth"]["threads"])
    record("late growth files", told["late_growth"]["files"])
    assert not done.stderr.count("refused:"), done.stderr
    return told


@pytest.mark.reliability(
    "L1", load="1,000 devices x 10 rounds, float32; counts, memory, threads and files are asserted, times recorded"
)
@pytest.mark.nightly
def test_a_thousand_devices_are_counted_and_nothing_grows(record_property: Record) -> None:
    told = loaded(1000, 10, "float32", record_property)
    assert told["counted"] == 10_000
    assert [row["counted"] for row in told["rounds"]] == [1000] * 10
    assert told["mb_most"] < 300
    assert told["threads_most"] <= POOL + OTHERS
    assert told["late_growth"]["threads"] < 2, "threads grow with the rounds, and not until the pool is full"
    assert told["growth"]["files"] <= 4
    assert told["late_growth"]["files"] < 1


@pytest.mark.reliability("L2", load="10,000 connections, one round, at full size only")
@pytest.mark.skipif(not FULL, reason="minutes and gigabytes: set AURICLE_FULL_SIZE")
def test_ten_thousand_devices_connect_and_are_counted(record_property: Record) -> None:
    told = loaded(10_000, 1, "float16", record_property)
    assert (told["connected"], told["counted"], told["suback_errors"]) == (10_000, 10_000, 0)
    assert told["mb_most"] < 600


def cpu_of(pid: int) -> float:
    """Seconds of processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.reliability("S7", load="1,000 devices on a broker that is killed; 5,000 at full size")
@pytest.mark.nightly
async def test_everybody_is_back_after_the_broker_was_killed(tmp_path: Path, record_property: Record) -> None:
    names = tuple(f"dev-{i:05d}" for i in range(STORM))
    raise_open_files()
    async with toy_fleet(tmp_path, names, here=()) as fleet:
        coordinator = await fleet.coordinator(2, keepalive=30, deadline=900.0)
        key, size = bytes.fromhex(fleet.key), fleet.pack.plugin_table.size
        told = (FLEET, key, fleet.pack.identity, size)
        devices = [device(name, fleet.broker.address(name), *told) for name in names]
        for start in range(0, len(devices), 100):
            await asyncio.gather(*(each.link.start() for each in devices[start : start + 100]))
        try:
            await until(lambda: all(1 in each.answers for each in devices), "the first round", 600)
            killed = time.monotonic()
            fleet.broker.kill()
            await fleet.broker.restart()
            found = await storm(devices, killed, fleet.broker.pid)
            code, errors = await coordinator.end(900)
            assert code == 0, errors[-2000:]
            await until(lambda: all(len(each.answers) == 2 for each in devices), "all answers", 60)
        finally:
            await asyncio.gather(*(each.stop() for each in devices))
        fleet.verify(2, record=record_property)
    for what, value in found.items():
        record_property(what, value)
    assert found["all back s"] < 60


def device(name: str, address: Any, fleet: str, key: bytes, pack: str, size: int) -> SimulatedDevice:
    """One that sends again after a minute."""
    return SimulatedDevice(name, fleet, address, key, pack, size, 60.0, keepalive=60)


async def storm(devices: list[SimulatedDevice], killed: float, broker: int) -> dict[str, float]:
    """Wait until everybody is connected for the second time; when each was, and what it cost the broker."""
    back: dict[str, float] = {}
    while len(back) < len(devices):
        now = time.monotonic() - killed
        assert now < 300, f"{len(back)} of {len(devices)} are back"
        back |= {each.name: now for each in devices if each.name not in back and each.link.counters.connections > 1}
        await asyncio.sleep(0.05)
    times = sorted(back.values())
    return {
        "first after s": round(times[0], 2),
        "all back s": round(times[-1], 2),
        "broker ms a device": round(1000 * cpu_of(broker) / len(devices), 2),
    }
