"""A Debian or Ubuntu on which nothing was installed before, with a user who has this checkout in her home."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.arm64.emulation import MACHINES, Say
from tests.boards.roots import Root, fresh_root, root_with

CHECKOUT = Path(__file__).parents[2]
SYSTEMS = {"debian-12": "bookworm", "debian-13": "trixie", "ubuntu-24.04": "noble"}
BARE = ("ca-certificates", "python3", "sudo")
"""What every installed system has that debootstrap's least lacks."""
HOME, USER = "/home/anna", "anna"
SUDOERS = f'{USER} ALL=(ALL) NOPASSWD: ALL\nDefaults !use_pty\nDefaults env_keep += "PIP_CERT SSL_CERT_FILE ARGS"\n'
PATH = "/usr/local/bin:/usr/bin:/bin"
"""Of a user on Debian: without /usr/sbin."""
LOOPBACK = "import fcntl, socket; fcntl.ioctl(socket.socket(), 0x8914, b'lo'.ljust(16, b'\\0') + b'\\x41\\0')"
"""Lets a network of its own have its loopback: SIOCSIFFLAGS, up and running."""
PATIENCE = 60
"""Seconds after which a command of Auricle that listens or serves is ended."""

SERVES = r"sed -nE 's/^\[[0-9]+\][-+]? +([0-9]+) .* auricle .*/\1/p'"
"""Of a shell's jobs those of Auricle: they are given their time before what they need, such as a broker, is ended."""


@contextmanager
def bare_system(name: str, say: Say) -> Iterator[Root]:
    """A fresh one, with this machine's way to the package registries; nothing of it is kept."""
    [machine] = [known.debian for known in MACHINES.values() if platform.machine() in known.kernel]
    with fresh_root(root_with("bare", machine, SYSTEMS[name], BARE), None, say) as root:
        _reach_registries(root)
        root.put("/etc/sudoers.d/anna", SUDOERS)
        root.put("/etc/apt/apt.conf.d/90yes", 'APT::Get::Assume-Yes "true";\n')
        root.put("/etc/hosts", "127.0.0.1 localhost hub.lan\n")
        for command in (["useradd", "--create-home", "--shell", "/bin/bash", USER], ["apt-get", "-qq", "update"]):
            done = root.run(*command)
            assert done.returncode == 0, done.stderr
        _check_out(root)
        yield root


def _reach_registries(root: Root) -> None:
    """apt's and pip's settings of this machine, and its certificates."""
    settings = [file for file in Path("/etc/apt/apt.conf.d").glob("*") if "Acquire" in file.read_text(errors="replace")]
    pip = [Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf", Path.home() / ".pip/pip.conf"]
    for file in (*settings, Path("/etc/resolv.conf"), Path("/etc/ssl/certs/ca-certificates.crt")):
        if file.is_file():
            root.put(str(file), file.read_bytes())
    if found := next((file for file in reversed(pip) if file.is_file()), None):
        root.put("/etc/pip.conf", found.read_bytes())


def _check_out(root: Root) -> None:
    """What git would: the files of this checkout, changed or not."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        capture_output=True,
        check=True,
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (CHECKOUT / name).is_file():
            place = root.path / HOME[1:] / "auricle" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, place)
    root.run("chown", "-R", f"{USER}:", HOME)


@dataclass
class Typed:
    """What was typed, and what came of it."""

    command: str
    code: int = -1
    said: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What it said."""
        return "\n".join(self.said)


def type_all(root: Root, commands: Sequence[str], installs: re.Pattern[str]) -> list[Typed]:
    """Type commands in one shell of the user, in her checkout.

    Those up to the last that installs have this machine's network; what follows has a loopback of its own, so that
    nothing that serves there is seen from here.
    """
    last = max((number for number, command in enumerate(commands, 1) if installs.search(command)), default=0)
    return [*_type(root, commands[:last], offline=False), *_type(root, commands[last:], offline=True)]


def _type(root: Root, commands: Sequence[str], *, offline: bool) -> list[Typed]:
    if not commands:
        return []
    lines = [
        f"cd ~/auricle && export PATH={PATH} && touch ~/shell && . ~/shell",
        "trap 'kill $(jobs -p) 2>/dev/null' EXIT",
        f'auricle() {{ timeout --signal INT --kill-after 20 {PATIENCE} "$(type -P auricle || echo auricle)" "$@"; }}',
    ]
    for number, command in enumerate(commands):
        lines += [f"echo '@@ {number}'", command, f'echo; echo "@@ {number} ended $?"']
    lines += ["declare -px > ~/shell", f"for job in $(jobs -l | {SERVES}); do wait $job; done"]
    script = root.put("/tmp/typed", "\n".join(lines) + "\n")
    kept = {name: os.environ[name] for name in ("PIP_CERT", "SSL_CERT_FILE", "ARGS") if name in os.environ}
    kept |= {"DEBIAN_FRONTEND": "noninteractive", "HOME": HOME}
    become = f"exec setpriv --reuid {USER} --regid {USER} --init-groups bash {script} 2>&1"
    words = f"python3 -c {shlex.quote(LOOPBACK)}; {become}"
    done = root.run("sh", "-c", words, offline=offline, env=kept)
    return _read(commands, done.stdout)


def _read(commands: Sequence[str], said: str) -> list[Typed]:
    typed = [Typed(command) for command in commands]
    at = None
    for line in said.splitlines():
        if match := re.fullmatch(r"@@ (\d+)(?: ended (\d+))?", line):
            at = typed[int(match[1])]
            at.code = int(match[2]) if match[2] else at.code
        elif at is not None:
            at.said.append(line)
    return typed
