"""Many devices on the broker that is installed with Auricle, which speaks MQTT 3.1.1 (RELIABILITY L3).

With AURICLE_FULL_SIZE in the environment 200 devices instead of 20.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.recorder import Record
from tests.system.toy_fleet import succeeded, toy_fleet

DEVICES = 200 if "AURICLE_FULL_SIZE" in os.environ else 20
ROUNDS = 5
NAMES = tuple(f"dev-{i:03d}" for i in range(DEVICES))


@pytest.mark.reliability("L3", load="20 devices, 5 rounds; 200 at full size")
@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_all_rounds_of_many_devices_on_amqtt(tmp_path: Path, record_property: Record) -> None:
    pytest.importorskip("amqtt", reason="the embedded broker is not installed")
    async with toy_fleet(tmp_path, NAMES, here=(), kind="amqtt") as fleet:
        assert "protocol=3" in fleet.broker.address(NAMES[0]).url
        began = time.monotonic()
        coordinator = await fleet.coordinator(ROUNDS, deadline=600.0)
        await fleet.crowd_process(*NAMES, resend=60.0)
        await succeeded(coordinator, 1200)
        record_property("seconds", round(time.monotonic() - began))
        fleet.verify(ROUNDS, record=record_property)
