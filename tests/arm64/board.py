"""An emulated board: an arm64 Debian with the `edge` extra of this checkout, installed from wheels by hash."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from auricle_export.flash.bundle.auricle_wheel import auricle_wheel
from auricle_export.flash.bundle.wheelhouse import cache_folder, fetch, wheelhouse
from tests.arm64.debian import INSIDE, DebianRoot, alone
from tests.arm64.emulation import RootError, Say
from tests.arm64.wheels import CHECKOUT, Target

FOLDER, SUITE = "AURICLE_ARM64_ROOT", "AURICLE_ARM64_SUITE"
SUITES = {"bookworm": Target(11), "trixie": Target(13)}
ENVIRONMENT = "/opt/auricle"
PYTHON = f"{ENVIRONMENT}/bin/python"
SOURCES = (
    "core",
    "learning",
    "edge",
    "cloud",
    "export",
    "fleet",
    "firmware-configs",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)


@dataclass(frozen=True)
class Board:
    """A Debian root whose virtual environment has Auricle in it."""

    debian: DebianRoot
    target: Target

    @classmethod
    def from_environment(cls) -> Board:
        """The board that the variables AURICLE_ARM64_SUITE and AURICLE_ARM64_ROOT name."""
        suite = os.environ.get(SUITE) or "bookworm"
        if suite not in SUITES:
            raise RootError(f"{SUITE} is {suite}; there is: {', '.join(SUITES)}.")
        folder = Path(os.environ.get(FOLDER) or cache_folder(f"arm64-{suite}")).resolve()
        if folder == CHECKOUT or CHECKOUT in folder.parents:
            raise RootError(f"{FOLDER} lies in the checkout: name a folder outside of it.")
        return cls(DebianRoot(folder, suite=suite), SUITES[suite])

    @property
    def path(self) -> Path:
        """Where its `/` is."""
        return self.debian.path

    def make(self, say: Say) -> None:
        """Make the root, install what the lock names and then this checkout; what is done already is not done again."""
        with alone(self.debian.folder, say):
            self.debian.make(say)
            self._install_lock(say)
            self._install_checkout(say)

    def python(self, *arguments: str) -> str:
        """Run the environment's Python to its end; what it printed."""
        return self.debian.run(PYTHON, *arguments)

    def popen(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the environment's Python; a signal to the process reaches it."""
        return subprocess.Popen(
            self.debian.command(PYTHON, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=INSIDE,
        )

    def _install_lock(self, say: Say) -> None:
        home = self.path / ENVIRONMENT[1:]
        stamp, wanted = home / "lock", self.target.lock.read_bytes()
        if stamp.exists() and stamp.read_bytes() == wanted:
            return
        say(f"fetching the wheels of {self.target.lock.name}")
        wheels = fetch(self.target, wheelhouse(self.target))
        say(f"installing {len(wheels)} wheels, offline and by hash (two minutes)")
        shutil.rmtree(home, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=self.path / "tmp") as folder:
            for wheel in wheels.values():
                shutil.copy(wheel, folder)
            shutil.copy(self.target.lock, folder)
            here = f"/tmp/{Path(folder).name}"
            self.debian.run("/usr/bin/python3", "-m", "venv", ENVIRONMENT)
            self.python(
                *("-m", "pip", "install", "-q", "--no-index", "--find-links", here, "--only-binary=:all:"),
                *("--require-hashes", "-r", f"{here}/{self.target.lock.name}"),
            )
        stamp.write_bytes(wanted)

    def _install_checkout(self, say: Say) -> None:
        stamp, wanted = self.path / ENVIRONMENT[1:] / "checkout", sources_digest()
        if stamp.exists() and stamp.read_text() == wanted:
            return
        say("installing this checkout's wheel")
        stamp.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=self.path / "tmp") as folder:
            name, content = auricle_wheel()
            (Path(folder) / name).write_bytes(content)
            inside = f"/tmp/{Path(folder).name}/{name}"
            self.python("-m", "pip", "install", "-q", "--no-index", "--no-deps", "--force-reinstall", inside)
        self.python("-m", "pip", "check")
        stamp.write_text(wanted)


def sources_digest() -> str:
    """SHA-256 over the files that the wheel is built from."""
    digest = hashlib.sha256()
    for source in SOURCES:
        top = CHECKOUT / source
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(
                    f"{path.relative_to(CHECKOUT)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode()
                )
    return digest.hexdigest()


def progress(text: str) -> None:
    """Say what is going on, on standard error."""
    print(f"arm64: {text}", file=sys.stderr, flush=True)
