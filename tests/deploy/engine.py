"""Services of a compose file as processes of this machine, for where there is no container engine.

Each gets a mount, process and IPC namespace and a root of its own: the host's /usr and Python read-only, the service's
volumes, configuration and secrets at the places that the compose file names, its user, no capabilities, and nothing
writable but what it was given. All share one network namespace, so that ports are as written and nobody else's, and
names of services are in /etc/hosts. What an image brings is taken from this machine: mosquitto, PostgreSQL, Prometheus.
Not shown: the images themselves, the separation of networks, published ports, limits of memory.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import auricle
import auricle_cloud
import auricle_edge
from auricle.errors import DataError
from tests.arm64.emulation import tried
from tests.arm64.wheels import CHECKOUT
from tests.deploy.composition import Composition

NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib64", "etc/ssl", "etc/ld.so.cache", "etc/alternatives")
_ACCOUNTS = {"root": 0, "auricle": 10001, "postgres": 999, "grafana": 472, "nobody": 65534}
LAUNCHER = "import sys\nfrom auricle.process.start import entry\nsys.exit(entry())\n"


def obstacle() -> str | None:
    """Why services cannot be run here, or None."""
    if os.geteuid() != 0:
        return "only root may make namespaces with several users"
    missing = [name for name in ("unshare", "nsenter", "setpriv", "mount") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} of util-linux is not installed"
    done = subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "true"], capture_output=True, text=True)
    return None if done.returncode == 0 else f"namespaces cannot be made here: {done.stderr.strip()}"


class Network:
    """A network namespace with loopback only; kept by an open file."""

    def __init__(self) -> None:
        with self._kept():
            if _LIBC.unshare(NEWNET):
                raise OSError(ctypes.get_errno(), "unshare")
            self._file = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
                up = struct.pack("16sh", b"lo", 1)
                fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS, IFF_UP

    @contextmanager
    def _kept(self) -> Iterator[None]:
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            yield
        finally:
            _LIBC.setns(before, NEWNET)
            os.close(before)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This thread, and the processes that it starts, are in the network."""
        with self._kept():
            if _LIBC.setns(self._file, NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            yield

    def close(self) -> None:
        """Forget it; it ends with its last process."""
        os.close(self._file)


@dataclass
class Running:
    """A service."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    spec: dict[str, Any]

    @property
    def pid(self) -> int:
        """Of its first process, on this machine; 0 before it is there."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else 0

    def said(self) -> str:
        """The end of what it said."""
        return self.log.read_text(errors="replace")[-4000:]

    def stop(self, seconds: float = 30.0) -> int:
        """SIGTERM to its first process, as an engine does; its exit code."""
        if self.process.poll() is None and (pid := self.pid):
            os.kill(pid, signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()  # and with it, by --kill-child, its first process
            return self.process.wait()


@dataclass
class Engine:
    """Runs services of a compose file."""

    folder: Path
    network: Network
    hosts: Sequence[str]
    running: dict[str, Running] = field(default_factory=dict)

    def start(
        self,
        composition: Composition,
        name: str,
        *,
        command: list[str] | None = None,
        extra: Mapping[str, str] = {},
        path: str = "",
    ) -> Running:
        """Start a service."""
        spec = self.spec(composition, name, command, extra)
        spec["environment"]["PATH"] = f"{path}:{spec['environment']['PATH']}".lstrip(":")
        log = self.folder / f"{name}.log"
        here = [sys.executable, "-I", str(Path(__file__).with_name("inside.py")), json.dumps(spec)]
        apart = ["unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--ipc", "--uts"]
        with self.network.entered(), log.open("ab") as file:
            process = subprocess.Popen([*apart, *here], stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        self.running[name] = Running(name, process, log, spec)
        return self.running[name]

    def finish(self, composition: Composition, name: str, seconds: float = 120.0, **more: Any) -> str:
        """Run a service to its end; what it said."""
        one = self.start(composition, name, **more)
        code = one.process.wait(seconds)
        assert code == 0, f"{name} ended with {code}: {one.said()}"
        return one.said()

    def run(self, name: str, *command: str, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run another command in a running service, as `docker compose exec` does."""
        one = self.running[name]
        spec = one.spec
        enter = ["nsenter", f"--target={one.pid}", "--mount", "--pid", "--net", "--ipc", "--root", "--wd", "--"]
        who = (f"--reuid={spec['uid']}", f"--regid={spec['gid']}")
        become = ["setpriv", *who, "--clear-groups", "--no-new-privs", "--"]
        assigned = [f"{key}={value}" for key, value in spec["environment"].items()]
        return tried([*enter, *become, "/usr/bin/env", "-i", *assigned, *command], timeout=seconds)

    def healthy(self, composition: Composition, name: str) -> bool:
        """Whether the service's health check passes now."""
        test = composition.services[name]["healthcheck"]["test"]
        assert test[0] == "CMD"
        one = self.running[name]
        assert one.process.poll() is None, f"{name} has ended: {one.said()}"
        return one.pid != 0 and self.run(name, *test[1:]).returncode == 0

    def wait_healthy(self, composition: Composition, name: str, seconds: float = 90.0) -> None:
        """Return once its health check passes."""
        wait(lambda: self.healthy(composition, name), seconds, lambda: f"{name}: {self.running[name].said()}")

    def stop(self) -> None:
        """End all of them, the last first."""
        for one in reversed(self.running.values()):
            one.stop()

    def volume(self, name: str) -> Path:
        """Where a volume is on this machine."""
        return self.folder / "volumes" / name

    def spec(
        self, composition: Composition, name: str, command: list[str] | None, extra: Mapping[str, str]
    ) -> dict[str, Any]:
        """What `inside` is told."""
        service, image = composition.services[name], composition.image(name)
        uid, gid = (int(part) for part in service["user"].split(":"))
        root = self.folder / "roots" / f"{name}-{len(self.running)}"
        root.mkdir(parents=True, exist_ok=True)
        places = {"PATH": "/usr/local/bin:/usr/bin:/bin", **image.environment}
        places["PATH"] += ":/usr/sbin"
        packages = [str(Path(module.__file__ or "").parents[1]) for module in (auricle, auricle_cloud, auricle_edge)]
        default = service.get("entrypoint", image.entrypoint) + service.get("command", image.command)
        return {
            "root": str(root),
            "tmpfs": service.get("tmpfs", []),
            "binds": [
                *_system(),
                *self._volumes(composition, service, uid, gid),
                *_secrets(composition, service),
                *([str(CHECKOUT / source), target, False] for target, source in image.copied.items()),
                *([source, target, False] for target, source in extra.items()),
            ],
            "files": self._files(),
            "links": {**_links(), "/var/run": "/run", "/opt/auricle/bin/python3": sys.executable},
            "read_only": service["read_only"],
            "uid": uid,
            "gid": gid,
            "groups": [],
            "environment": {**places, "PYTHONPATH": ":".join(packages), **service.get("environment", {})},
            "command": command or default,
        }

    def _volumes(self, composition: Composition, service: Mapping[str, Any], uid: int, gid: int) -> Iterator[list[Any]]:
        for text in service.get("volumes", []):
            source, target, *mode = text.split(":")
            if source.startswith("."):
                yield [str((composition.path.parent / source).resolve()), target, mode != ["ro"]]
                continue
            place = self.volume(source)
            if not place.exists():  # as an engine does: owned as in the image
                place.mkdir(parents=True)
                os.chown(place, uid, gid)
                place.chmod(0o755 if source == "monitoring" else 0o700)
            yield [str(place), target, mode != ["ro"]]

    def _files(self) -> dict[str, str]:
        accounts = "".join(f"{name}:x:{number}:{number}::/:/bin/sh\n" for name, number in _ACCOUNTS.items())
        return {
            "/etc/passwd": accounts,
            "/etc/group": "".join(f"{name}:x:{number}:\n" for name, number in _ACCOUNTS.items()),
            "/etc/hosts": f"127.0.0.1 localhost {' '.join(self.hosts)}\n",
            "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
            "/opt/auricle/bin/auricle": f"#!{sys.executable}\n{LAUNCHER}",
        }


def _system() -> Iterator[list[Any]]:
    real = [name for name in _SYSTEM if not Path("/", name).is_symlink() and Path("/", name).exists()]
    yield from ([f"/{name}", f"/{name}", False] for name in real)
    for place in dict.fromkeys((sys.base_prefix, sys.prefix, str(CHECKOUT))):
        if not place.startswith("/usr/"):
            yield [place, place, False]


def _links() -> dict[str, str]:
    return {f"/{name}": str(Path("/", name).readlink()) for name in _SYSTEM if Path("/", name).is_symlink()}


def _secrets(composition: Composition, service: Mapping[str, Any]) -> Iterator[list[Any]]:
    for name in service.get("secrets", []):
        file = (composition.path.parent / composition.content["secrets"][name]["file"]).resolve()
        if not file.is_file():
            raise DataError(f"There is no secret {file}.")
        yield [str(file), f"/run/secrets/{name}", False]


def wait(condition: Callable[[], object], seconds: float, why: Callable[[], str] = lambda: "") -> None:
    """Return once a condition holds; it is looked at ten times a second."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited in vain; {why()}"
        time.sleep(0.1)
