"""A coordinator with a broker of its own: it starts it, says where devices connect, and takes it along when it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from auricle.mqtt_link.link import BrokerAddress

pytestmark = pytest.mark.slow


def serving(state: Path) -> tuple[subprocess.Popen[str], dict[str, str]]:
    command = [sys.executable, "-m", "auricle", "cloud", "serve", "--broker", "embedded", "--fleet", "home", "--json"]
    command += ["--state", str(state), "--pack", "digits", "--listen", "none", "--embedded-port", "0"]
    command += ["--embedded-device", "kitchen-1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    said = process.stdout.readline()
    passwords: dict[str, str] = json.loads((state / "broker" / "passwords.json").read_text())
    assert set(passwords) == {"coordinator", "kitchen-1"}
    assert not [name for name, password in passwords.items() if password in said]
    told = json.loads(said)
    assert told["passwords"] == str(state / "broker" / "passwords.json")
    users: dict[str, str] = told["embedded_broker"]
    assert "coordinator" in json.loads(process.stdout.readline())
    return process, users


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.nightly
def test_the_broker_lives_as_long_as_its_coordinator(tmp_path: Path, end: signal.Signals) -> None:
    process, users = serving(tmp_path / "state")
    file = tmp_path / "state" / "broker" / "passwords.json"
    try:
        address = BrokerAddress.parse(users["kitchen-1"])
        assert set(users) == {"kitchen-1"}
        assert (address.username, address.password) == ("kitchen-1", None)
        assert is_open(address.port)
        assert file.stat().st_mode & 0o777 == 0o600
    finally:
        os.kill(process.pid, end)
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()
    until = time.monotonic() + 20
    while is_open(address.port) and time.monotonic() < until:
        time.sleep(0.1)
    assert not is_open(address.port)
    kept = file.read_text()
    again, _ = serving(tmp_path / "state")
    again.terminate()
    again.wait(30)
    assert again.stdout is not None
    again.stdout.close()
    assert file.read_text() == kept
