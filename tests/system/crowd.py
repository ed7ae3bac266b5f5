"""Many simulated devices in a process: `python -m tests.system.crowd SETTINGS` with the settings as JSON.

Broken ones send weights that are not finite. Attackers send the opposite of an update, a hundred times as long, and say
that they have millions of clips and a loss of a million. Whoever drops out of a round says that it declines, says
nothing, or loses its connection, by a draw that a restart repeats. What devices intend and what they are told goes to
`said`, a line each, which a kill does not take back.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
import random
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from auricle.mqtt_link.link import BrokerAddress, Delivery, MqttLink, Will
from auricle.process.open_files import raise_open_files
from auricle.process.until_signal import until_signal
from auricle.wire.frames import open_frame, seal
from auricle.wire.identity import Identity
from auricle.wire.messages import DeviceState, Invite, Status, Update
from auricle.wire.tensors import Flat
from tests.system.killed_agent import Said
from tests.system.simulated_device import SimulatedDevice

AT_ONCE = 50  # devices that connect at the same time
CLIPS, LOSS = 10_000_000, 1e6  # what attackers say


class Told(msgspec.Struct, frozen=True):
    fleet: str
    key: str  # the coordinator's public key in hexadecimal digits
    pack: str
    size: int  # identity of the pack, and weights of its plug-in
    brokers: dict[str, str]  # URL by device
    said: str
    identities: str  # a folder for the keys of the devices, which are the same after a restart
    attackers: frozenset[str] = frozenset()
    broken: dict[str, tuple[int, int]] = {}  # first and last round for which a device's weights are not finite
    everybody: tuple[str, ...] = ()
    drop_out: float = 0.0  # share of everybody that drops out of a round
    resend: float = 10.0
    keepalive: int = 30


@lru_cache
def drop_outs(everybody: tuple[str, ...], number: int, share: float) -> dict[str, str]:
    """Who drops out of a round, and how."""
    draw = random.Random(number)
    names = draw.sample(everybody, round(share * len(everybody)))
    return {name: draw.choice(("declines", "silent", "gone")) for name in names}


class CrowdDevice(SimulatedDevice):
    """A device with birth and last will, which may attack and may drop out of rounds."""

    def __init__(self, name: str, told: Told) -> None:
        address = BrokerAddress.parse(told.brokers[name])
        key, keepalive = bytes.fromhex(told.key), told.keepalive
        super().__init__(
            name, told.fleet, address, key, told.pack, told.size, told.resend, codec="float16", keepalive=keepalive
        )
        self._told, self._boot = told, os.urandom(8).hex()
        self._gone: set[int] = set()  # rounds in which it has lost its connection
        self._identity = Identity.load_or_create(Path(told.identities) / name)
        topics, settings = self._topics, self.link.settings
        will = Will(topics.device_state(name), self._presence(online=False))
        handlers = {topics.down(name, "+"): self._heard, topics.coordinator_state: self._coordinator}
        self.link = MqttLink(dataclasses.replace(settings, will=will), handlers=handlers, on_connect=self._born)

    def _head(self) -> dict[str, Any]:
        return super()._head() | {"boot": self._boot}

    def _presence(self, *, online: bool) -> bytes:
        return seal(self._identity, self._topics.device_state(self.name), DeviceState(**self._head(), online=online))

    async def _born(self, _: MqttLink) -> None:
        await self._register()
        await self.link.publish(self._topics.device_state(self.name), self._presence(online=True), retain=True)

    async def _heard(self, arrived: Delivery) -> None:
        message, _ = open_frame(arrived.payload, arrived.topic, lambda _: self._key)
        how = self._drops_out(message.round) if isinstance(message, Invite) else None
        if isinstance(message, Invite) and how is not None:
            await self._drop_out(message, how)
        else:
            await super()._heard(arrived)

    def _drops_out(self, number: int) -> str | None:
        return drop_outs(self._told.everybody, number, self._told.drop_out).get(self.name)

    async def _drop_out(self, invite: Invite, how: str) -> None:
        if how == "declines":
            topic = self._topics.up(self.name, "st")
            status = Status(**self._head(), task=invite.task, round=invite.round, state="declined", reason="busy")
            await self.link.publish(topic, seal(self._identity, topic, status))
        elif how == "gone" and invite.round not in self._gone and self.link._connection is not None:
            self._gone.add(invite.round)  # the broker delivers the invitation again
            self.link._connection.drop("dropped out")

    def weights_for(self, number: int) -> Flat:
        """The opposite, a hundred times as long, of an attacker."""
        honest = super().weights_for(number)
        first, last = self._told.broken.get(self.name, (0, -1))
        if first <= number <= last:
            return honest * np.float32("nan")
        return honest * -100 if self.name in self._told.attackers else honest

    def update_for(self, invite: Invite, body: bytes) -> Update:
        update = super().update_for(invite, body)
        if self.name not in self._told.attackers:
            return update
        return msgspec.structs.replace(update, samples=CLIPS, loss=LOSS)


async def live(told: Told) -> None:
    devices = [CrowdDevice(name, told) for name in told.brokers]
    for start in range(0, len(devices), AT_ONCE):
        await asyncio.gather(*(device.link.start() for device in devices[start : start + AT_ONCE]))
        await asyncio.gather(*(device.link.wait_connected(120) for device in devices[start : start + AT_ONCE]))
    print(json.dumps({"devices": len(devices)}), flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.gather(*(device.stop() for device in devices))


def main() -> None:
    """Run until killed or asked to stop."""
    told = msgspec.json.decode(sys.argv[1], type=Told)
    raise_open_files()
    log = logging.getLogger("auricle.edge")
    log.addHandler(Said(told.said))
    log.setLevel(logging.INFO)
    asyncio.run(until_signal(live(told)))


def as_argument(**told: Any) -> str:
    return msgspec.json.encode(Told(**told)).decode()


if __name__ == "__main__":
    main()
