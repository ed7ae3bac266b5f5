"""amqtt in a child process of its own, for machines without mosquitto: MQTT 3.1.1, nothing kept, emulation only."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from auricle.errors import BrokerError
from auricle_fleet.broker.passwords import write_passwords
from auricle_fleet.broker.process import BrokerProcess
from auricle_fleet.broker.rights import Roles

SIGN = "the embedded broker listens\n"
"""What the child writes when it is ready."""


def amqtt(folder: Path, users: Mapping[str, str], roles: Roles, *, port: int) -> BrokerProcess:
    """Write the child's configuration and passwords into the folder and return the process to start.

    Raises
    ------
    BrokerError
        amqtt is not installed either.
    """
    if importlib.util.find_spec("amqtt") is None:
        raise BrokerError("no broker: install mosquitto (apt install mosquitto) or amqtt (pip install amqtt)")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    passwords, config = folder / "passwords", folder / "amqtt.json"
    write_passwords(passwords, users)
    config.write_text(json.dumps({"port": port, "password_file": str(passwords), "roles": asdict(roles)}))
    command = [sys.executable, "-m", "auricle_fleet.broker.embedded", str(config)]
    return BrokerProcess(command, folder / "broker.log", sign=SIGN)
