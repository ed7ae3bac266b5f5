"""`auricle cloud serve --broker embedded`: a broker of its own on this machine, which ends with the coordinator."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from auricle.errors import BrokerError

EMBEDDED = "embedded"
WAIT = 10.0
"""Seconds for the broker to end."""


@contextmanager
def embedded_broker(folder: Path, fleet: str, devices: Sequence[str], port: int) -> Iterator[Mapping[str, str]]:
    """Run `auricle fleet broker`; the address of each user by name, password included.

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
        yield _addresses(child.stdout.readline())
    finally:
        child.stdin.close()
        try:
            child.wait(WAIT)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()


def _addresses(line: str) -> dict[str, str]:
    try:
        told = json.loads(line)
        users: dict[str, str] = told["users"]
    except (ValueError, KeyError, TypeError) as error:
        raise BrokerError(
            'No broker could be started here: pip install "auricle[fleet]" brings the embedded one, apt install '
            "mosquitto another."
        ) from error
    return users
