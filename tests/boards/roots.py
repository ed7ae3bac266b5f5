"""The roots that boards are tried in: one for each release and processor, and a fresh copy for each try."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from auricle_export.flash.board import Board, System
from auricle_export.flash.bundle.wheelhouse import cache_folder
from tests.arm64.debian import INSIDE, DebianRoot, alone
from tests.arm64.emulation import Say, run, tried

MACHINES = {"aarch64": "arm64", "x86_64": "amd64"}
"""Debian's names of processors."""
UBUNTU = ("jammy", "noble")
UBUNTU_SCRIPT = "jammy"
"""debootstrap's for all of Ubuntu; Debian 12's does not know the later names."""
UBUNTU_KEY = Path(__file__).parent / "ubuntu-archive-2018.key"
"""In base64: F6EC B376 2474 EDA9 D21B 7022 8719 20D1 991B C93C, Ubuntu Archive Automatic Signing Key (2018)."""
CPUS = {"ARMv8-A": "cortex-a53", "Cortex-A78AE": "cortex-a76"}
"""qemu's nearest processor without more instructions, of those that it has under another name or not at all."""
PACKAGES = ("python3", "python3-venv", "libportaudio2")
"""What an installation relies on: a board's profile names the last one."""
STATE, SETTINGS = "/var/lib/auricle", "/etc/auricle/edge.toml"
AURICLE = "/opt/auricle/bin/auricle"

ENTER = 'mount -t proc proc "$0/proc" && mount -t tmpfs shm "$0/dev/shm" && exec chroot "$0" "$@"'

Listing = dict[str, tuple[str, ...]]
"""What is in a root: by path its kind, mode, owner and content."""


def base_root(board: Board, system: System) -> DebianRoot:
    """The Debian or Ubuntu that a board's system is made of."""
    return root_with("boards", MACHINES[board.architecture], system.base, PACKAGES)


def root_with(kind: str, machine: str, suite: str, packages: tuple[str, ...]) -> DebianRoot:
    """A Debian or Ubuntu with these packages; roots of one kind have the same."""
    folder = cache_folder(f"{kind}-{machine}-{suite}")
    if suite not in UBUNTU:
        return DebianRoot(folder, machine, suite, packages)
    folder.mkdir(parents=True, exist_ok=True)
    keyring = folder / "ubuntu.gpg"
    keyring.write_bytes(base64.b64decode(UBUNTU_KEY.read_bytes()))
    options = (f"--keyring={keyring}", "--components=main,universe")
    return DebianRoot(folder, machine, suite, packages, options, UBUNTU_SCRIPT)


def qemu_cpu(board: Board) -> str | None:
    """What qemu calls a board's processor; None: no arm64.

    By default it has every instruction there is: some that the board lacks, and those to sign return addresses, which
    Debian 13's programs use where they can, and which slow Python down in qemu to a tenth.
    """
    name = board.processor.split()[0]
    return CPUS.get(name, name.lower()) if board.architecture == "aarch64" else None


@contextmanager
def fresh_root(base: DebianRoot, cpu: str | None, say: Say) -> Iterator[Root]:
    """A copy of a root, thrown away afterwards; the root is made where it is missing."""
    with alone(base.folder, say):
        base.make(say)
    with tempfile.TemporaryDirectory(prefix="try-", dir=base.folder) as folder:
        run("cp", "-a", "--reflink=auto", base.path, folder)
        yield Root(Path(folder) / "root", cpu)


@dataclass(frozen=True)
class Root:
    """A root in a folder, without a system running in it."""

    path: Path
    cpu: str | None = None
    """Which processor qemu is to be, where it is needed; None: its default."""

    def run(
        self, *arguments: str, offline: bool = False, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in it to its end; `env` is added to `INSIDE`."""
        return tried(self.command(*arguments, offline=offline), env={**INSIDE, **(env or {})})

    def command(self, *arguments: str, offline: bool = False) -> list[str]:
        """The command line that runs a program in it, with `env=INSIDE`; a signal to the process reaches it.

        It has a /proc and an empty /dev/shm; offline it has no network but a loopback that is down.
        """
        words = ["env", f"QEMU_CPU={self.cpu}"] if self.cpu else []
        words += ["unshare", "--mount", *(["--net"] if offline else []), "sh", "-c", ENTER]
        return [*words, str(self.path), *arguments]

    def put(self, name: str, data: bytes | str) -> str:
        """Write a file; its path in the root."""
        place = self.path / name.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data.encode() if isinstance(data, str) else data)
        return name

    def has(self, name: str) -> bool:
        """Whether there is such a file or folder; a link counts."""
        return os.path.lexists(self.path / name.lstrip("/"))

    def remove(self, name: str) -> None:
        """Remove a file or folder."""
        place = self.path / name.lstrip("/")
        shutil.rmtree(place) if place.is_dir() else place.unlink()

    def listing(self) -> Listing:
        """All that is in it."""
        found: Listing = {}
        for folder, folders, files in os.walk(self.path):
            for name in (*folders, *files):
                place = Path(folder, name)
                found[f"/{place.relative_to(self.path)}"] = _entry(place)
        return found


def _entry(place: Path) -> tuple[str, ...]:
    told = place.lstat()
    who = (oct(told.st_mode), f"{told.st_uid}:{told.st_gid}")
    if stat.S_ISLNK(told.st_mode):
        return (*who, str(place.readlink()))
    return (*who, hashlib.sha256(place.read_bytes()).hexdigest()) if stat.S_ISREG(told.st_mode) else who
