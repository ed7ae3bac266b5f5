"""Packets that are lost, half a second there and back, and 64 kbit/s a device (RELIABILITY F5).

With AURICLE_FULL_SIZE in the environment 50 devices, 3 rounds and 30 % at the worst, instead of 9, 1 and 20 %: at 30 %
both ways TCP may be silent for longer than a round of a quick test can wait.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from auricle.mqtt_link.mosquitto_program import find_mosquitto
from tests.recorder import Record

DEVICES, ROUNDS, WORST = (50, 3, 0.3) if "AURICLE_FULL_SIZE" in os.environ else (9, 1, 0.2)
MOST_SENT = 5


def missing() -> str:
    """What this machine lacks for losing packets; empty where it can."""
    if find_mosquitto() is None:
        return "mosquitto is not installed"
    if not all(map(shutil.which, ("unshare", "ip", "iptables"))):
        return "unshare, ip or iptables is not installed"
    rule = "iptables -A INPUT -m statistic --mode random --probability 0.1 -j DROP"
    done = subprocess.run(["unshare", "--net", "sh", "-c", rule], capture_output=True, check=False)
    return "" if done.returncode == 0 else "no network namespace in which packets can be dropped: this takes root"


@pytest.mark.reliability(
    "F5", load="9 devices, 1 round; real loss of 5, 10 and 20 %, 500 ms, 64 kbit/s; 50, 3, 30 % at full size"
)
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.nightly
def test_updates_come_through_a_network_that_loses_packets(tmp_path: Path, record_property: Record) -> None:
    if reason := missing():
        pytest.skip(reason)
    told = json.dumps({"folder": str(tmp_path), "devices": DEVICES, "rounds": ROUNDS, "worst": WORST})
    command = ["unshare", "--net", sys.executable, "-m", "tests.system.lossy_fleet", told]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    states = found.pop("states")
    for what, value in found.items():
        record_property(what, value)
    record_property("retries at most", found["sent at most"] - 1)
    record_property("invited and not counted", found["invited"] - found["counted"])
    assert states == ["published"], found
    assert found["counted"] == found["invited"] >= ROUNDS * DEVICES * 0.9
    assert found["sent at most"] <= MOST_SENT
    assert found["connections at most"] == 1, "a link took a slow network for a dead one"
    # A third of packets or their acknowledgements is lost: after six losses running TCP is silent for half a minute.
    assert found["connections at most, worst"] <= 4, "a link that is cut is made again and again"
    assert found["dropped"] > 100, "nothing was lost: the test shows nothing"
