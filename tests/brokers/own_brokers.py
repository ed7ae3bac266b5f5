"""Brokers that the suite starts, each with the configuration that Auricle generates for it, on loopback."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle.process.open_files import raise_open_files
from auricle_fleet.broker.broker import start_broker
from tests.brokers.check import ROLES, Target
from tests.system.tls_site import FLEET, running

SPARE = 500
"""Descriptors that are left for everything but a crowd's connections."""
TLS_CROWD = 200
"""Certificates that are made for a crowd: each is signed and entered."""
KINDS = ("mosquitto", "mosquitto-tls", "mosquitto-tls-passwords", "amqtt")


def crowd_names(wanted: int) -> list[str]:
    """Names for a crowd, as many as open files allow."""
    return [f"crowd-{number:05d}" for number in range(min(wanted, raise_open_files() - SPARE))]


def version_of(kind: str) -> str:
    """What a broker that is started here says of itself."""
    if kind == "amqtt":
        return version("amqtt")
    said = subprocess.run([str(find_mosquitto()), "-h"], capture_output=True, text=True, check=False).stdout
    return said.split("version ", 1)[-1].split()[0]


@asynccontextmanager
async def run_broker(kind: str, folder: Path, crowd: int) -> AsyncIterator[Target]:
    """A broker as `auricle fleet` (names and passwords) or `auricle cloud enrol broker` (certificates) has it."""
    if kind.startswith("mosquitto-tls"):
        passwords = kind.endswith("passwords")
        async with running(folder, passwords=passwords) as site:
            names = (*ROLES, *crowd_names(min(crowd, TLS_CROWD)))
            users = {name: site.of(name) for name in names}
            if passwords:
                given = site.authority.passwords()
                users = {name: address.as_user(name, given.of(name)) for name, address in users.items()}
                await site.reload()

            async def restart() -> None:
                await site.process.stop()
                await site.process.start()

            yield Target(users, FLEET, restart=restart)
        return
    names = (*ROLES, *crowd_names(crowd))
    passwords_of = {name: f"{name}-password" for name in names}
    program = "amqtt" if kind == "amqtt" else "mosquitto"
    async with await start_broker(folder, passwords_of, fleet=FLEET, kind=program) as broker:  # type: ignore[arg-type]
        yield Target({name: broker.address(name) for name in names}, FLEET, restart=broker.restart)
