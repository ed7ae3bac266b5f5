"""What stands at home: an authority, a mosquitto and a coordinator, each the real program with its generated files."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from auricle.mqtt_link.mosquitto_program import find_mosquitto
from tests.arm64.emulation import tried
from tests.system.conftest import Command

FLEET = "home"
START = 90.0
POLL = 10.0


def free_port() -> int:
    """A TCP port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class House:
    """The fleet's servers on this machine."""

    def __init__(self, folder: Path, hosts: Sequence[str], *options: str) -> None:
        self.folder, self.state = folder, folder / "coordinator"
        self.broker_port, self.api_port = free_port(), free_port()
        self.host = hosts[0]
        self.pin = str(self.ask("enrol", "init")["pin"])
        named = [option for host in dict.fromkeys((*hosts, "127.0.0.1")) for option in ("--host", host)]
        self.ask("enrol", "server", *named, "--out", str(folder / "api"))
        here = ("--listen", "127.0.0.1", "--port", str(self.broker_port), "--out", str(folder / "broker"))
        self.ask("enrol", "broker", "--fleet", FLEET, *named, *here)
        self._log = (folder / "mosquitto.log").open("wb")
        self._broker = subprocess.Popen(
            [str(find_mosquitto()), "-c", str(folder / "broker/mosquitto.conf")],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self.coordinator = Command(
            *("cloud", "serve", "--broker", f"mqtts://127.0.0.1:{self.broker_port}"),
            *("--fleet", FLEET, "--state", str(self.state), "--listen", f"127.0.0.1:{self.api_port}"),
            *("--certificate", str(folder / "api/server.pem"), "--key", str(folder / "api/server.key")),
            *("--approval", "auto", "--deadline", "600", "--json"),
            *options,
        )
        self.key = str(self.coordinator.wait_line(lambda line: "coordinator" in line, START)["coordinator"])

    def close(self) -> None:
        """End both servers."""
        self.coordinator.signal(signal.SIGTERM)
        self.coordinator.end()
        self._broker.terminate()
        self._broker.wait(30)
        self._log.close()

    def ask(self, *arguments: str) -> dict[str, Any]:
        """What an `auricle cloud` command answers as JSON. AssertionError: it failed."""
        done = auricle("cloud", *arguments, "--state", str(self.state), "--json")
        return dict(json.loads(done))

    def tokens(self, *devices: str, ttl: str = "24h") -> Path:
        """A folder with a token for each device."""
        folder = self.folder / "tokens" / "-".join(devices)
        named = [option for device in devices for option in ("--device", device)]
        self.ask("enrol", "token", *named, "--ttl", ttl, "--out", str(folder))
        return folder

    def devices(self) -> dict[str, dict[str, Any]]:
        """What `auricle cloud devices list` shows, by name."""
        return {each["device"]: each for each in self.ask("devices", "list")["devices"]}

    def wait_device(self, device: str, seconds: float) -> dict[str, Any]:
        """What `auricle cloud devices list` shows of a device, once it is there and online."""
        until = time.monotonic() + seconds
        while not (shown := self.devices()).get(device, {}).get("online"):
            assert time.monotonic() < until, f"{device} is not online after {seconds:.0f} s: {shown}"
            threading.Event().wait(POLL)
        return shown[device]

    def fleet_file(self, more: str = "") -> Path:
        """A fleet.toml that leads devices here, with more tables."""
        path = self.folder / "fleet.toml"
        path.write_text(
            f'name = "{FLEET}"\nbroker = "mqtts://{self.host}:{self.broker_port}"\n'
            f'server = "https://{self.host}:{self.api_port}"\nca_pin = "{self.pin}"\ncoordinator = "{self.key}"\n{more}'
        )
        return path

    def round(self, seconds: float) -> dict[str, Any]:
        """Run a round; what the coordinator says of it."""
        seen = len([line for line in self.coordinator.lines if "round" in line])
        self.ask("rounds", "start")
        rounds = lambda line: "round" in line and line["round"] > seen  # noqa: E731
        return self.coordinator.wait_line(rounds, seconds)


@contextmanager
def house(folder: Path, hosts: Sequence[str], *options: str) -> Iterator[House]:
    """A house whose servers run."""
    made = House(folder, hosts, *options)
    try:
        yield made
    finally:
        made.close()


def auricle(*arguments: str, environment: dict[str, str] | None = None) -> str:
    """Run an `auricle` command to its end; what it printed. AssertionError: it failed, with what it said."""
    done = tried([sys.executable, "-m", "auricle", *arguments], env={**os.environ, **(environment or {})})
    assert done.returncode == 0, f"auricle {' '.join(arguments)}: {done.stderr[-2000:]}{done.stdout[-1000:]}"
    return done.stdout
