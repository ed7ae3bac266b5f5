"""What a machine needs to run another machine's Debian: root, debootstrap, and qemu where the processor differs."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auricle.errors import AuricleError

Say = Callable[[str], None]
BINFMT = Path("/proc/sys/fs/binfmt_misc")
RULES = (Path("/usr/lib/binfmt.d"), Path("/etc/binfmt.d"))


class RootError(AuricleError):
    """A Debian root that is not as it should be."""


class UnavailableError(RootError):
    """A Debian root that cannot be made or entered here: this machine or its network lacks something."""


@dataclass(frozen=True)
class Machine:
    """A processor that Debian runs on."""

    debian: str
    """Debian's name."""
    qemu: str
    """qemu's name."""
    kernel: tuple[str, ...]
    """What `uname -m` says on one that runs its programs without qemu."""


MACHINES = {
    "amd64": Machine("amd64", "x86_64", ("x86_64", "amd64")),
    "arm64": Machine("arm64", "aarch64", ("aarch64", "arm64")),
    "armhf": Machine("armhf", "arm", ("armv7l",)),
}


def run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    """Run a program to its end; what it printed."""
    done = tried(command, env=env)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "it did not say why").splitlines()
        raise RootError(f"{Path(command[0]).name} failed: {said[-1]}")
    return done.stdout


def tried(command: Sequence[str | Path], **how: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, whatever it comes to; what it printed is kept."""
    ready: dict[str, Any] = {"capture_output": True, "text": True, "check": False, "stdin": subprocess.DEVNULL}
    return subprocess.run([str(part) for part in command], **ready, **how)


def prepare(machine: Machine, say: Say, *, build: bool) -> None:
    """Make this machine able to enter a root of another one and, if wanted, to build it."""
    if platform.system() != "Linux":
        raise UnavailableError("Only Linux can enter a Debian root: run this on Linux.")
    if os.geteuid() != 0:
        raise UnavailableError("debootstrap and chroot need root: run this as root.")
    foreign = platform.machine() not in machine.kernel
    programs = {"debootstrap": "debootstrap", "gpgv": "gpgv", "unshare": "util-linux"} if build else {}
    if foreign:
        programs[f"qemu-{machine.qemu}-static"] = "qemu-user-static"
    _install_missing(programs, say)
    if foreign:
        _register(machine)


def _install_missing(programs: Mapping[str, str], say: Say) -> None:
    packages = sorted({package for program, package in programs.items() if shutil.which(program) is None})
    if not packages:
        return
    if shutil.which("apt-get") is None:
        raise UnavailableError(f"{', '.join(packages)} missing and there is no apt-get here: install them first.")
    say(f"installing {', '.join(packages)}")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        run("apt-get", "update", "-qq", env=quiet)
        run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages, env=quiet)
    except RootError as error:
        raise UnavailableError(f"{', '.join(packages)} missing and apt cannot install them: {error}") from error


def _register(machine: Machine) -> None:
    """Tell the kernel to run the machine's programs with qemu, opened now (F), so that a root needs no copy of it."""
    if not (BINFMT / "register").exists():
        try:
            run("mount", "-t", "binfmt_misc", "binfmt_misc", BINFMT)
        except RootError as error:
            raise UnavailableError(
                f"This kernel does not run other machines' programs (binfmt_misc): {error}"
            ) from error
    entry = BINFMT / f"qemu-{machine.qemu}"
    if entry.exists():
        text = entry.read_text()
        if re.search(r"^flags:.*F", text, re.MULTILINE) and text.startswith("enabled"):
            return
        raise UnavailableError(
            f"{entry} is registered without the flag F or disabled: write -1 into it and run this again."
        )
    try:
        (BINFMT / "register").write_text(_rule(machine))
    except OSError as error:
        raise UnavailableError(f"The kernel does not take qemu for {machine.debian}: {error.strerror}.") from error


def _rule(machine: Machine) -> str:
    """The registration that the distribution ships, with flag F."""
    for folder in RULES:
        for path in sorted(folder.glob(f"qemu-{machine.qemu}*.conf")):
            for line in path.read_text().splitlines():
                if line.startswith(":"):
                    head, flags = line.rsplit(":", 1)
                    return f"{head}:{flags if 'F' in flags else flags + 'F'}"
    raise UnavailableError(
        f"There is no qemu-{machine.qemu}.conf in /usr/lib/binfmt.d: install qemu-user-static with it."
    )
