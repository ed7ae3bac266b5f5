"""`auricle cloud serve --broker embedded`: a broker of its own on this machine, which ends with the coordinator."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from auricle.errors import BrokerError, extra_command
from auricle.wire.kinds import UNDECODABLE

EMBEDDED = "embedded"
WAIT_SECONDS = 10.0
"""Seconds for the broker to end."""


class EmbeddedBroker(msgspec.Struct, frozen=True):
    """What `auricle fleet broker --json` says of itself."""

    users: dict[str, str]
    """Address of each user, password included: it never leaves this process but for a person to type."""
    passwords: str
    """The file with the password of each user, which its owner alone can read."""

    @property
    def coordinator(self) -> str:
        """Where the coordinator connects."""
        return self.users["coordinator"]

    @property
    def devices(self) -> dict[str, str]:
        """Where devices connect, password included."""
        return {name: address for name, address in self.users.items() if name != "coordinator"}

    def without_passwords(self) -> dict[str, str]:
        """Where devices connect."""
        return {name: _without_password(address) for name, address in self.devices.items()}


@contextmanager
def embedded_broker(folder: Path, fleet: str, devices: Sequence[str], port: int) -> Iterator[EmbeddedBroker]:
    """Run `auricle fleet broker`, which ends with this process.

    Raises
    ------
    BrokerError
        It does not start: its own sentence has been printed.
    """
    command = [sys.executable, "-m", "auricle", "fleet", "broker", "--fleet", fleet, "--folder", str(folder)]
    command += ["--port", str(port), "--with-parent", "--json"]
    for device in devices:
        command += ["--device", device]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        yield _decode(child.stdout.readline())
    finally:
        child.stdin.close()
        try:
            child.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()


def _decode(line: str) -> EmbeddedBroker:
    try:
        return msgspec.json.decode(line, type=EmbeddedBroker)
    except UNDECODABLE as error:
        raise BrokerError(
            f"No broker could be started here: {extra_command('fleet')} brings the embedded one, apt install "
            "mosquitto another."
        ) from error


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{parts.username}@{parts.hostname}:{parts.port}").geturl()
