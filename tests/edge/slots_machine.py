"""A Debian with its own systemd as process 1, in a container; and an agent for it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.arm64.board import cache_folder
from tests.arm64.debian import INSIDE, DebianRoot, alone
from tests.arm64.emulation import run

PACKAGES = ("python3", "systemd", "systemd-sysv", "dbus")
PATIENCE = 120.0

AGENT = """\
import hashlib, json, os, pathlib, socket, subprocess, sys, time

VERSION, MODE = {version!r}, {mode!r}


def option(name):
    return sys.argv[sys.argv.index(name) + 1]


def notify(text):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(text, os.environ["NOTIFY_SOCKET"])


def run():
    state = pathlib.Path(option("--state"))
    with (state / "starts").open("a") as file:
        print(VERSION, os.getuid() != 0, (state / "identity/claim.json").exists(), file=file)
    if MODE == "crash":
        sys.exit(1)
    notify(b"READY=1")
    if MODE == "well":
        bundle = pathlib.Path("/opt/auricle/current/bundle.json").read_bytes()
        said = {{"format": 1, "identity": hashlib.sha256(bundle).hexdigest(), "healthy": True}}
        pathlib.Path("/run/auricle/health.json").write_text(json.dumps(said))
    while True:
        notify(b"WATCHDOG=1")
        time.sleep(5)


def claim():
    state = pathlib.Path(option("--state"))
    if not (state / "asked").exists():
        (state / "asked").touch()
        sys.exit(75)
    (state / "identity").mkdir(exist_ok=True)
    said = [option("--server"), option("--ca-pin"), pathlib.Path(option("--token-file")).read_text(), os.getuid() != 0]
    (state / "identity/claim.json").write_text(json.dumps(said))


def renew():
    (pathlib.Path(option("--state")) / "renewed").touch()


def upgrade():
    said = json.loads(pathlib.Path(option("--wanted")).read_text())
    answer = pathlib.Path("/opt/auricle/update.json")
    if answer.exists() and answer.read_text() == said["identity"]:
        return
    answer.write_text(said["identity"])
    slots = ["/usr/bin/python3", "-I", "/opt/auricle/slots.py"]
    subprocess.run([*slots, "stage", said["path"], "--identity", said["identity"]], check=True)
    subprocess.run([*slots, "try", "--rollout", "r1", "--deadline", said["deadline"]], check=True)
    try:
        pathlib.Path(option("--wanted")).unlink()
    except OSError:
        return
    sys.exit("root may write where the agent does")


def main():
    {{"run": run, "claim": claim, "renew": renew, "upgrade": upgrade}}[sys.argv[2]]()
"""


def agent(version: str, mode: str) -> dict[str, bytes]:
    """Files of a wheel: an agent that is `well`, `sick` or `crash`es."""
    return {"auricle_probe/__init__.py": AGENT.format(version=version, mode=mode).encode()}


class Machine:
    """A running container, with this machine's network or with none."""

    def __init__(self, root: Path, *, network: bool = False) -> None:
        self.root = root
        name = f"--machine=auricle-{root.parent.name.strip('-_').lower()}"
        alone = [] if network else ["--private-network"]
        options = ["-b", "--register=no", "--keep-unit", "--link-journal=no"]
        nspawn = ["systemd-nspawn", "-q", "-D", str(root), *options, *alone, name]
        script = 'mount -t tmpfs tmpfs /run && exec "$@"'  # the host's /run may lie on its disk, which nspawn refuses
        self._console = (root.parent / "console").open("wb")
        self._process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", script, "sh", *nspawn],
            stdin=subprocess.DEVNULL,
            stdout=self._console,
            stderr=subprocess.STDOUT,
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        enter = ["nsenter", "-t", children[0], "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w"]
        return subprocess.run(
            [*enter, *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=INSIDE
        )

    def wait(self, condition: str) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                if self.run("sh", "-c", condition).returncode == 0:
                    return
            except (IndexError, FileNotFoundError):
                assert self._process.poll() is None, "the container ended"
            assert time.monotonic() < end, f"{condition}\n{self.log()}"
            time.sleep(0.3)

    def log(self) -> str:
        return self.run("journalctl", "--no-pager", "-n", "60", "-u", "auricle-*").stdout

    def cut(self) -> None:
        """Take its power, unless it is off."""
        if self._process.poll() is None:
            for child in Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
            self._process.wait(60)
        self._console.close()


@contextmanager
def machine_root(name: str = "slots") -> Iterator[Path]:
    """A fresh copy of a Debian with systemd, for one test at a time of this name; made where it is missing."""
    base = DebianRoot(cache_folder("systemd-amd64-bookworm"), "amd64", "bookworm", PACKAGES)
    with alone(base.folder, print):
        base.make(print)
    folder = base.folder / f"try-{name}"
    with alone(folder, print):
        shutil.rmtree(folder / "root", ignore_errors=True)
        try:
            run("cp", "-a", "--reflink=auto", base.path, folder)
            yield folder / "root"
        finally:
            shutil.rmtree(folder / "root")
