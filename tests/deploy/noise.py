"""Say what is not a frame in a device's name: `python -m tests.deploy.noise IDENTITY FLEET DEVICE`, in its network.

A process of its own, because links of one process dial in threads that may be of another network.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from auricle.mqtt_link.link import BrokerAddress, LinkSettings, MqttLink
from auricle.mqtt_link.private_link import IdentityFiles
from auricle.wire.frames import Topics


async def speak(identity: Path, fleet: str, device: str) -> None:
    """It has to be refused and counted."""
    address = IdentityFiles(identity).lend(BrokerAddress.parse("mqtts://127.0.0.1:8883"))
    async with MqttLink(LinkSettings(address, device)) as link:
        await link.wait_connected(20)
        await link.publish(Topics(fleet).up(device, "upd"), b"noise")


if __name__ == "__main__":
    asyncio.run(speak(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
