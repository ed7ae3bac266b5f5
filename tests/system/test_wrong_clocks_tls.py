"""A device whose clock is ten years off, as TLS sees it: real handshakes with mosquitto and the coordinator (S6)."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.firstboot.house import House, house
from tests.system.conftest import Command
from tests.system.rollout_site import wait_for
from tests.system.tls_site import NEEDS_MOSQUITTO
from tests.system.virtual_room import VirtualRoom

DEVICE = "kitchen-1"
TEN_YEARS = 3652 * 86_400
LATER = 75
MOST_CONNECTIONS = 20
"""Of coordinator and device in all: a device that looped over its failure would have thousands."""
FETCHING = """
import sys
from pathlib import Path
from auricle.errors import AuricleError
from auricle_edge.ota.update_server import server_of
server = server_of(None, Path(sys.argv[1]))
try:
    print(len(b"".join(server.pieces(f"{server.url}/metadata/1.root.json"))))
except AuricleError as error:
    print(error)
    sys.exit(error.exit_code)
"""


class WrongClock:
    """The wall clock of processes with this environment, Python's and OpenSSL's, also while they run."""

    def __init__(self, folder: Path) -> None:
        source, library = Path(__file__).with_name("shifted_clock.c"), folder / "clock.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
        self._file = folder / "off"
        self._file.write_bytes(bytes(8))
        self.environment = {"LD_PRELOAD": str(library), "SHIFTED_CLOCK": str(self._file)}

    def set(self, seconds: int) -> None:
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", seconds))

    def run(self, *line: object) -> subprocess.CompletedProcess[str]:
        """A Python program to its end, by this clock."""
        command, environment = [sys.executable, *map(str, line)], {**os.environ, **self.environment}
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def settings(folder: Path, site: House, room: VirtualRoom) -> Path:
    path = folder / "edge.toml"
    path.write_text(
        f'state = "{folder / "device"}"\nfleet = "home"\npack = "digits"\ncoordinator = "{site.key}"\n'
        f'broker = "mqtts://127.0.0.1:{site.broker_port}"\n[detect]\nvad = "off"\n[capture]\nsource = "{room.source}"\n'
    )
    return path


def connections(site: House) -> int:
    """Of everybody, to the broker."""
    return (site.folder / "mosquitto.log").read_text().count("New connection from")


@pytest.mark.reliability("S6", load="TLS of a device 10 years early or late, which is set right")
@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(500)
@NEEDS_MOSQUITTO
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize(
    ("seconds", "why"), [(TEN_YEARS, "expired by the clock"), (-TEN_YEARS, "not valid yet")], ids=["late", "early"]
)
def test_a_clock_that_is_ten_years_off_is_told_and_the_device_joins_once_it_is_right(
    tmp_path: Path,
    room: VirtualRoom,
    start: Callable[..., Command],
    record_property: Callable[[str, object], None],
    seconds: int,
    why: str,
) -> None:
    clock, state = WrongClock(tmp_path), tmp_path / "device"
    with house(tmp_path / "house", ["127.0.0.1"], "--pack", "digits") as site:
        site.ask("releases", "init", "--keys", str(tmp_path / "keys"), "--root", str(tmp_path / "root.json"))
        token = site.tokens(DEVICE) / f"{DEVICE}.token"
        here = ("--server", f"https://127.0.0.1:{site.api_port}", "--ca-pin", site.pin, "--state", state)
        claim = ("-m", "auricle", "edge", "claim", *here, "--token-file", token)

        clock.set(seconds)
        refused = clock.run(*claim)
        assert refused.returncode != 0 and "clock" in refused.stderr and token.exists(), refused.stderr
        clock.set(0)
        assert clock.run(*claim).returncode == 0

        clock.set(seconds)
        fetched = clock.run("-c", FETCHING, state)
        assert (fetched.returncode, "look at the device's clock" in fetched.stdout) == (LATER, True), fetched
        agent = start("edge", "run", "--config", str(settings(tmp_path, site, room)), env=clock.environment)
        wait_for(lambda: "is not trusted" in agent.errors, lambda: agent.errors, 90)
        assert why in agent.errors
        tried = connections(site)
        wait_for(lambda: connections(site) >= tried + 3, lambda: agent.errors, 90)
        record_property("accepted", len(site.devices()))
        assert agent.process.poll() is None and DEVICE not in site.devices()

        clock.set(0)
        site.wait_device(DEVICE, 180)
        assert agent.process.poll() is None
        assert agent.errors.count("is not trusted") == 1
        assert connections(site) <= MOST_CONNECTIONS
        assert clock.run("-c", FETCHING, state).returncode == 0
