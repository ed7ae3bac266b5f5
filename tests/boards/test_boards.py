"""For every board: its bundle installs offline, checks itself, takes part in a round, and leaves nothing behind."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.arm64.debian import INSIDE
from tests.arm64.test_round import tones
from tests.boards.roots import AURICLE, SETTINGS, STATE, Root
from tests.boards.systems import Candidate, containers
from tests.firstboot.house import House, auricle
from tests.system.conftest import Command

pytestmark = [pytest.mark.boards, pytest.mark.timeout(2400)]

ROUND = 900.0
BUNDLE, CLIPS, TOKEN = "/root/bundle", "/root/clips", "/etc/auricle/claim.token"


class Inside(Command):
    """A running `auricle` command in a root, on this machine's network."""

    def __init__(self, root: Root, *arguments: str) -> None:
        self.process = subprocess.Popen(
            root.command(AURICLE, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=INSIDE,
        )
        self.lines, self.errors = [], ""
        self._news = threading.Condition()
        self._readers = [threading.Thread(target=self._read_lines), threading.Thread(target=self._read_errors)]
        for reader in self._readers:
            reader.start()


def build(candidate: Candidate, home: House, folder: Path) -> Path:
    """The bundle of a board and system for the house's fleet."""
    options = ("--board", candidate.profile(folder), "--os", candidate.system.id, "--fleet", str(home.fleet_file()))
    auricle("flash", "bundle", *options, "--without-updates", "--out", str(folder))
    [made] = folder.glob("auricle-*.tar")
    return made


def succeed(done: subprocess.CompletedProcess[str]) -> str:
    """What it printed; fails with what it said."""
    assert done.returncode == 0, f"{done.args[-6:]}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def give_cores(root: Root, candidate: Candidate) -> None:
    """What a kernel tells of its cores: on arm64 onnxruntime 1.23, Python 3.10's, aborts where it finds nothing."""
    for name in ("possible", "present"):
        root.put(f"/sys/devices/system/cpu/{name}", f"0-{candidate.board.cores - 1}\n")


def give_heat(root: Root, candidate: Candidate) -> None:
    """What a kernel tells of a thermal zone, which a root without one lacks: the profile requires it to train."""
    if "temperature" in candidate.board.sensors.required:
        zone = (candidate.board.sensors.zones or ("cpu-thermal",))[0].replace("*", "cpu")
        root.put("/sys/class/thermal/thermal_zone0/type", f"{zone}\n")
        root.put("/sys/class/thermal/thermal_zone0/temp", "45000\n")


def install(root: Root, bundle: Path) -> None:
    """Install the bundle without a network, twice: the second time changes nothing."""
    (root.path / BUNDLE[1:]).mkdir(parents=True)
    subprocess.run(["tar", "-xf", bundle, "-C", root.path / BUNDLE[1:]], check=True)
    succeed(root.run("sh", f"{BUNDLE}/install", offline=True))
    before = root.listing()
    assert "nothing was changed" in succeed(root.run("sh", f"{BUNDLE}/install", offline=True))
    assert root.listing() == before


def claim(root: Root, home: House, device: str) -> None:
    """Exchange a token for the device's certificate, as its service does."""
    root.put(TOKEN, (home.tokens(device) / f"{device}.token").read_bytes())
    server = f"https://{home.host}:{home.api_port}"
    told = succeed(
        root.run(
            *(AURICLE, "edge", "claim", "--server", server, "--ca-pin", home.pin, "--token-file", TOKEN),
            *("--state", STATE, "--json"),
        )
    )
    assert json.loads(told)["device"] == device


def check_up(root: Root) -> dict[str, str]:
    """Sentences of the check-up by their check; fails when something is bad."""
    done = root.run(AURICLE, "edge", "doctor", "--simulate", "--config", SETTINGS, "--json")
    assert done.stdout, f"it ended with {done.returncode}: {done.stderr[-2000:]}"
    findings = json.loads(done.stdout)["findings"]
    assert done.returncode == 0, [each for each in findings if each["verdict"] == "bad"]
    return {each["check"]: each["sentence"] for each in findings}


def take_part(root: Root, home: House, device: str) -> dict[str, object]:
    """One round of the installed agent with the coordinator; what the coordinator says of it."""
    tones(root.path / CLIPS[1:], device, seed=0)
    agent = Inside(root, "edge", "run", "--config", SETTINGS, "--data", CLIPS, "--json")
    try:
        agent.wait_line(lambda line: "training_clips" in line, ROUND)
        home.wait_device(device, ROUND)
        done = home.round(ROUND)
    finally:
        agent.signal(signal.SIGTERM)
        agent.end()
    return done


def test_a_bundle_installs_checks_itself_trains_and_leaves_nothing(
    candidate: Candidate, root: Root, home: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = re.sub("[^a-z0-9]", "-", str(candidate))
    bundle = build(candidate, home, tmp_path)
    before = root.listing()

    install(root, bundle)
    claim(root, home, device)
    give_cores(root, candidate)
    told = check_up(root)
    give_heat(root, candidate)
    done = take_part(root, home, device)
    shown = home.devices()[device]

    assert "Simulated: " in told["microphone"]
    assert candidate.system.python in told["versions"]
    assert candidate.board.architecture in told["versions"]
    assert (done["state"], done["counted"]) == ("published", 1)
    assert shown["standing"] == "approved"

    for name in (BUNDLE, CLIPS, "/sys/class", "/sys/devices"):
        if root.has(name):
            root.remove(name)
    succeed(root.run("/usr/bin/python3", "-I", "/opt/auricle/slots.py", "uninstall", offline=True))
    after = root.listing()
    assert {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)} == set()
    with capsys.disabled():
        print(f"\n{candidate}: {bundle.name}, {bundle.stat().st_size >> 20} MiB; {told['pack']} Round: {done}")


@pytest.mark.parametrize("left_out", containers(), ids=str)
def test_what_is_not_tried_is_said(left_out: Candidate) -> None:
    pytest.skip(f"{left_out}: the agent runs in a container there, not on the system")
