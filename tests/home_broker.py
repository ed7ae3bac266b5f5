"""A broker as a home has it: no passwords. For tests and benchmarks."""

from __future__ import annotations

import socket
from pathlib import Path

from auricle.errors import SettingsError
from auricle.mqtt_link.link import BrokerAddress
from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle_fleet.broker.process import BrokerProcess


async def home_broker(folder: Path) -> tuple[BrokerProcess, BrokerAddress]:
    """Start a mosquitto on a free port of this machine; the caller stops it. SettingsError where there is none."""
    program = find_mosquitto()
    if program is None:
        raise SettingsError("mosquitto is not installed: apt install mosquitto.")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "home.conf"
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nlog_dest stderr\nlog_type all\n")
    process = BrokerProcess([str(program), "-c", str(config)], folder / "home.log", sign=" running\n")
    await process.start()
    return process, BrokerAddress("127.0.0.1", port)
