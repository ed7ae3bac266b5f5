"""A Debian root in a folder: made by debootstrap beside its place, then moved there whole."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.arm64.emulation import MACHINES, RootError, Say, UnavailableError, prepare, run

MIRROR = "AURICLE_DEBIAN_MIRROR"
SPACE = 1_500_000_000
"""Bytes that must be free before a root is begun; one with the edge extra takes 0.6 GB, its packages 0.1 GB."""
INSIDE = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}
"""The environment of every program in a root: nothing of the host's."""
_APT = (Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d"))


@dataclass(frozen=True)
class DebianRoot:
    """A Debian of another machine.

    A folder holds `root/`, and while it is made `debs/` (kept when interrupted, so that the next try need not
    download them again), `root.new/` and `debootstrap.log`.
    """

    folder: Path
    machine: str = "arm64"
    suite: str = "bookworm"
    packages: tuple[str, ...] = ("python3", "python3-venv")
    options: tuple[str, ...] = ()
    """More of debootstrap's."""
    script: str = ""
    """debootstrap's script for another distribution, whose archive it knows; none: Debian's, from apt's archive."""

    @property
    def path(self) -> Path:
        """Where its `/` is."""
        return self.folder / "root"

    def make(self, say: Say) -> None:
        """Make it, unless it is there."""
        prepare(MACHINES[self.machine], say, build=not self.path.exists())
        if not self.path.exists():
            self._debootstrap(say)
        try:
            run("chroot", self.path, "/usr/bin/python3", "-c", "", env=INSIDE)
        except RootError as error:
            raise RootError(f"Python does not run in {self.path}: {error}; remove the folder and try again.") from error

    def command(self, *arguments: str) -> list[str]:
        """The command line that runs a program in the root, as this process's child; to be run with `env=INSIDE`."""
        return ["chroot", str(self.path), *arguments]

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Run a program in the root to its end; what it printed."""
        return run(*self.command(*arguments), env={**INSIDE, **(env or {})})

    def _debootstrap(self, say: Say) -> None:
        new, debs = self.folder / "root.new", self.folder / "debs"
        debs.mkdir(parents=True, exist_ok=True)
        discard(new)
        free = shutil.disk_usage(self.folder).free
        if free < SPACE:
            raise UnavailableError(
                f"{self.folder} has {free / 1e9:.1f} GB free; a Debian root needs {SPACE / 1e9:.1f} GB."
            )
        command = [
            *("unshare", "--mount", "debootstrap", f"--arch={self.machine}", "--variant=minbase"),
            *("--force-check-gpg", f"--cache-dir={debs}"),
            f"--include={','.join(self.packages)}",
            *self.options,
            self.suite,
            str(new),
            "" if self.script else debian_mirror(os.environ, _APT) or "",
            self.script,
        ]
        say(f"making a root of {self.suite} for {self.machine} (a few minutes)")
        failure = _watch(command, self.folder / "debootstrap.log", say)
        if failure:
            raise UnavailableError(
                f"debootstrap could not finish ({failure}): look at the network and at {self.folder}/debootstrap.log"
                + ("." if self.script else f", or name another Debian archive in {MIRROR}.")
            )
        for path in (new / "var/cache/apt/archives").glob("*.deb"):
            path.unlink()
        new.rename(self.path)
        shutil.rmtree(debs)


def debian_mirror(environment: Mapping[str, str], sources: Sequence[Path]) -> str | None:
    """The Debian archive to use: the variable's, else that of this machine's apt; None leaves it to debootstrap."""
    if environment.get(MIRROR):
        return environment[MIRROR]
    files = [f for path in sources for f in (sorted(path.iterdir()) if path.is_dir() else [path]) if f.is_file()]
    for file in files:
        for line in file.read_text().splitlines():
            found = re.match(r"(?:URIs:|deb(?:\s+\[[^]]*\])?)\s+(https?://\S+/debian)/?(?:\s|\Z)", line)
            if found:
                return found[1]
    return None


def discard(path: Path) -> None:
    """Remove what an interrupted try left."""
    inside = f"{path.resolve()}/"
    if any(line.split()[1].startswith(inside) for line in Path("/proc/self/mounts").read_text().splitlines()):
        raise RootError(f"Something is mounted below {path}: unmount it and run this again.")
    if path.exists():
        shutil.rmtree(path)


@contextmanager
def alone(folder: Path, say: Say) -> Iterator[None]:
    """Hold a folder's lock: two tries at once take turns, and one waits for what a killed one left running."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process that makes this root")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _watch(command: list[str], log: Path, say: Say) -> str:
    """Run debootstrap, saying what it begins to do; its error, empty when it ended well."""
    last, line, failure = "", "", ""
    with (
        log.open("w") as file,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            close_fds=False,
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            doing = line.removeprefix("I: ").split(" ")[0]
            if line.startswith("I: ") and doing in {"Retrieving", "Extracting", "Unpacking", "Configuring"}:
                if doing != last:
                    say(f"debootstrap: {doing.lower()} packages")
                last = doing
            elif line.startswith("E: "):
                failure = line[3:].strip()
    return "" if process.returncode == 0 else failure or line.strip() or f"exit code {process.returncode}"
