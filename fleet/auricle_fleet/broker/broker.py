"""The broker that a fleet on one machine talks through: mosquitto if installed, else amqtt; never in our process."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import logging
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from auricle.errors import BrokerError, SettingsError, because, extra_command, nearest
from auricle.mqtt_link.broker_rights import Roles, check_names
from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle.mqtt_link.settings import BrokerAddress
from auricle_fleet.broker.mosquitto import mosquitto, write_passwords
from auricle_fleet.broker.process import BrokerProcess

Kind = Literal["mosquitto", "amqtt"]

log = logging.getLogger("auricle.broker")

NO_MOSQUITTO = "mosquitto is not installed: apt install mosquitto, or name a broker with --broker URL"
_HOST = "127.0.0.1"
_ATTEMPTS = 5
_PATIENCE = 5.0
"""Seconds for a broker that somebody else runs to answer."""
SIGN = "the embedded broker listens\n"
"""What amqtt's child process writes when it is ready."""


class Broker:
    """A broker in a child process; `async with` stops it.

    Parameters
    ----------
    kind
        Which program it is. amqtt speaks MQTT 3.1.1 only and knows no shared subscriptions.
    port
        Where it listens, on loopback only.
    users
        Name and password of every user.
    process
        The running child.
    log_file
        What the broker writes.
    """

    def __init__(self, kind: Kind, port: int, users: Mapping[str, str], process: BrokerProcess, log_file: Path) -> None:
        self.kind = kind
        self.host = _HOST
        self.port = port
        self.log_file = log_file
        self._users = dict(users)
        self._process = process

    @property
    def pid(self) -> int | None:
        """Process id; None when the broker is not running."""
        return self._process.pid

    def address(self, user: str) -> BrokerAddress:
        """Return the address with this user's password and the protocol that the broker speaks.

        Raises
        ------
        BrokerError
            The broker was started without this user.
        """
        if user not in self._users:
            raise BrokerError(f'the broker has no user "{user}": {nearest(user, self._users)}')
        protocol: Literal["5", "3.1.1"] = "5" if self.kind == "mosquitto" else "3.1.1"
        return BrokerAddress(_HOST, self.port, user, self._users[user], protocol=protocol)

    async def __aenter__(self) -> Broker:
        """Return the running broker."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the broker."""
        await self.stop()

    async def stop(self) -> None:
        """Ask the broker to end, and kill it if it does not within seconds."""
        await self._process.stop()

    def kill(self) -> None:
        """SIGKILL: what the broker has not written down is lost."""
        self._process.kill()

    async def restart(self) -> None:
        """Start the broker again on the same port, after it was stopped, killed or died.

        Raises
        ------
        BrokerError
            It does not start, for instance because the port was taken meanwhile.
        """
        await self._process.stop()
        await self._process.start()


async def start_broker(
    workdir: Path,
    users: Mapping[str, str],
    *,
    fleet: str,
    port: int = 0,
    kind: Kind | None = None,
    persistence: bool = True,
) -> Broker:
    """Start a broker that knows these users and grants them what PROTOCOL.md, section 4, says.

    Parameters
    ----------
    workdir
        Its files go to `workdir/broker`.
    users
        Name and password of `coordinator`, each device and, if wanted, `observer`. All are known at the start.
    fleet
        Name of the fleet, the third level of every topic.
    port
        Loopback port; 0 takes a free one.
    kind
        Force one of the two; None takes mosquitto if it is found and amqtt with a warning if not.
    persistence
        mosquitto writes sessions and retained messages to disk, as a convenience; nothing relies on it.

    Raises
    ------
    BrokerError
        The port is taken, no broker is installed, or it does not start.
    SettingsError
        A name holds something else than small letters, digits and hyphens.
    """
    check_names(users)
    roles = Roles(fleet)
    folder = workdir / "broker"
    chosen, prepare = _choose(kind, folder, users, roles, persistence)

    async def start_here(port: int) -> Broker:
        process = prepare(port)
        await process.start()
        return Broker(chosen, port, users, process, folder / "broker.log")

    if port:
        _check_free(port)
        return await start_here(port)
    for _ in range(_ATTEMPTS - 1):
        # Another program can take the port between our look and the broker's start: then look again.
        with contextlib.suppress(BrokerError):
            return await start_here(_free_port())
    return await start_here(_free_port())


def require_startable(kind: Kind | None, port: int) -> None:
    """See that `start_broker` could start one; errors as of that."""
    if kind == "mosquitto" and find_mosquitto() is None:
        raise BrokerError(NO_MOSQUITTO)
    if port:
        _check_free(port)


def _choose(
    kind: Kind | None, folder: Path, users: Mapping[str, str], roles: Roles, persistence: bool
) -> tuple[Kind, Callable[[int], BrokerProcess]]:
    program = None if kind == "amqtt" else find_mosquitto()
    if program is not None:
        path = program
        return "mosquitto", lambda port: mosquitto(path, folder, users, roles, port=port, persistence=persistence)
    if kind == "mosquitto":
        raise BrokerError(NO_MOSQUITTO)
    if kind is None:
        log.warning("mosquitto is not installed: using amqtt (MQTT 3.1.1, nothing is kept, about 1,000 devices)")
    return "amqtt", lambda port: amqtt(folder, users, roles, port=port)


def _check_free(port: int) -> None:
    if not 0 <= port <= 65535:
        raise SettingsError(f"--port is {port}: it has to be from 0 (a free one) to 65535.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise BrokerError(
                f"A broker cannot start: port {port} on {_HOST} is already in use or not allowed: stop the program "
                "that listens there, or name another port (0 takes a free one)."
            ) from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


async def connect_broker(url: str) -> BrokerAddress:
    """Return the address of a broker that someone else runs, after a look whether it can be reached.

    Raises
    ------
    BrokerError
        Nothing answers there.
    SettingsError
        The URL is not one.
    """
    address = BrokerAddress.parse(url)
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(address.host, address.port), _PATIENCE)
    except (OSError, asyncio.TimeoutError, TimeoutError) as error:
        raise BrokerError(
            f"The broker at {address} cannot be reached: {because(error)}; check the address, or leave --broker out."
        ) from error
    writer.close()
    return address


def amqtt(folder: Path, users: Mapping[str, str], roles: Roles, *, port: int) -> BrokerProcess:
    """Return the process that runs amqtt, after its configuration and passwords are written into the folder.

    It speaks MQTT 3.1.1 and keeps nothing: for emulation on machines without mosquitto.

    Raises
    ------
    BrokerError
        amqtt is not installed either.
    """
    if importlib.util.find_spec("amqtt") is None:
        raise BrokerError(
            f"There is no broker here: apt install mosquitto, or for the embedded one {extra_command('fleet')}."
        )
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    passwords, config = folder / "passwords", folder / "amqtt.json"
    write_passwords(passwords, users)
    config.write_text(json.dumps({"port": port, "password_file": str(passwords), "roles": asdict(roles)}))
    command = [sys.executable, "-m", "auricle_fleet.broker.embedded", str(config)]
    return BrokerProcess(command, folder / "broker.log", sign=SIGN)
